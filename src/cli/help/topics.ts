import { exits } from "../../errors.ts";
import { directives } from "../directives.ts";
import { variables } from "./environment.ts";
import { errorFields, places, results } from "./results.ts";

export type Row = readonly [term: string, meaning: string];

/** A part of a topic: words, then a list of terms. */
export type Section = { text: string; rows: readonly Row[] };

/** `document` is what `--json` prints. */
export type Topic = { name: string; summary: string; sections: Section[]; document: unknown };

/** What `vidgen help <topic>` tells, made from the tables that the code itself goes by. */
export function createTopics(): Topic[] {
  return [exitCodes(), environment(), output(), prompts()];
}

function exitCodes(): Topic {
  const codes = Object.entries(exits).map(([name, { exit, meaning }]) => ({ code: exit, name, meaning }));
  return {
    name: "exit-codes",
    summary: "how a run can end",
    sections: [
      {
        text: "The exit code of every command. With --json the name is `error.code`.",
        rows: codes.map(({ code, name, meaning }) => [`${String(code).padEnd(3)} ${name}`, meaning]),
      },
    ],
    document: codes,
  };
}

function environment(): Topic {
  const meaningOf = ({ flag, meaning }: (typeof variables)[number]) =>
    flag === null ? meaning : `${meaning} (${flag})`;
  return {
    name: "environment",
    summary: "the variables that have a say",
    sections: [
      {
        text: "A flag goes before the environment, that before the saved file, that before the default.",
        rows: variables.map((variable) => [variable.name, meaningOf(variable)]),
      },
    ],
    document: variables,
  };
}

function output(): Topic {
  const streams =
    "Results go to stdout, everything for a person to stderr: progress, questions, hints, errors. On stdout, each command prints:";
  const json =
    "With --json, stdout is one JSON document in the service's own field names, and an error is one on stderr: an object `error` with the fields";
  return {
    name: "output",
    summary: "what goes where, -o and --json",
    sections: [
      { text: streams, rows: Object.entries(results) },
      { text: "What -o takes:", rows: places },
      { text: json, rows: errorFields },
    ],
    document: { stdout: results, places: Object.fromEntries(places), error: Object.fromEntries(errorFields) },
  };
}

function prompts(): Topic {
  return {
    name: "directives",
    summary: "what a prompt may ask of the local service, for tests",
    sections: [{ text: "With --local or `vidgen serve`, a prompt may ask for trouble:", rows: directives }],
    document: directives.map(([text, effect]) => ({ text, effect })),
  };
}
