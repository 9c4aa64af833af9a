import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { exits } from "../../errors.ts";
import { detailsOf } from "../command.ts";

export type Row = readonly [term: string, meaning: string];

/** A part of a topic: a paragraph, then a list of terms. */
type Section = { text: string; rows: readonly Row[] };

/** `document` is what `--json` prints. */
export type Topic = { name: string; summary: string; sections: Section[]; document: unknown };

export const topicNames = ["exit-codes", "environment", "output", "directives"] as const;

const signalNote =
  "129, 130 and 143 are what a shell shows in `$?`: vidgen ends by the signal itself, so that a shell's loop ends with it.";

/** What `vidgen help <topic>` tells, made from the code's own tables. */
export function createTopics(program: CommandUnknownOpts): Topic[] {
  const codes = Object.entries(exits).map(([name, { exit, meaning }]) => ({ code: exit, name, meaning }));
  const codeRows = codes.map(({ code, name, meaning }): Row => [`${String(code).padEnd(3)} ${name}`, meaning]);
  const precedence = "A flag goes before the environment, that before the saved file, that before the default.";
  const settingRows = variables.map(({ name, flag, meaning }): Row => [name, meaning + (flag ? ` (${flag})` : "")]);
  const stdout = program.commands.flatMap((command): Row[] => {
    const { prints } = detailsOf(command);
    return prints === undefined ? [] : [[command.name(), prints]];
  });
  const contents: Record<(typeof topicNames)[number], Omit<Topic, "name">> = {
    "exit-codes": {
      summary: "how a run can end",
      sections: [
        {
          text: `The exit code of every command. With --json the name is \`error.code\`. ${signalNote}`,
          rows: codeRows,
        },
      ],
      document: codes,
    },
    environment: {
      summary: "the variables that have a say",
      sections: [{ text: precedence, rows: settingRows }],
      document: variables,
    },
    output: {
      summary: "what goes where, -o and --json",
      sections: [
        {
          text: "Results go to stdout, everything for a person to stderr: progress, questions, hints, errors. On stdout, each command prints:",
          rows: stdout,
        },
        { text: "What -o takes:", rows: places },
        {
          text: "With --json, stdout is one JSON document in the service's own field names, and an error is one on stderr: an object `error` with the fields",
          rows: errorFields,
        },
      ],
      document: {
        stdout: Object.fromEntries(stdout),
        places: Object.fromEntries(places),
        error: Object.fromEntries(errorFields),
      },
    },
    directives: {
      summary: "what a prompt may ask of the local service, for tests",
      sections: [{ text: "With --local or `vidgen serve`, a prompt may ask for trouble:", rows: directives }],
      document: directives.map(([text, effect]) => ({ text, effect })),
    },
  };
  return topicNames.map((name) => ({ name, ...contents[name] }));
}

/** The variables, each with the flag that overrides it. */
const variableRows: readonly [name: string, flag: string | null, meaning: string][] = [
  ["VIDGEN_API_KEY", null, "the API key; there is no flag for it, so that it never shows in a process list"],
  ["VIDGEN_BASE_URL", "--base-url", "the service's address; https, except on this machine"],
  ["VIDGEN_MODEL", "--model", "the model, else `wan-2.5`"],
  ["VIDGEN_HOME", null, "the folder for all that vidgen keeps, instead of the platform's own"],
  ["HTTPS_PROXY", null, "the proxy for https addresses; this machine itself is never asked for by it"],
  ["HTTP_PROXY", null, "the proxy for http addresses"],
  ["NO_PROXY", null, "hosts that are reached without a proxy"],
  ["NODE_EXTRA_CA_CERTS", null, "a file with further certificate authorities; Node reads it"],
  ["NO_COLOR", "--no-color", "no colours"],
  ["FORCE_COLOR", "--color", "colours where there is no terminal; 0 or false: none"],
  ["CLICOLOR_FORCE", "--color", "the same; 0 says nothing"],
  ["TERM", null, "`dumb`: no colours and no moving line"],
  ["CI", "--no-input", "nothing is asked, and no line moves"],
  ["XDG_CONFIG_HOME", null, "where Linux keeps settings; XDG_STATE_HOME and XDG_DATA_HOME likewise"],
];

/** Every variable that the code reads, vidgen's own first; README's table holds those. Tests compare both with the code. */
export const variables = variableRows.map(([name, flag, meaning]) => ({ name, flag, meaning }));

/** What `-o` takes. */
const places: readonly Row[] = [
  ["fox.mp4", "that file; one that exists is kept, unless --overwrite is given"],
  ["clips/", "a file in that folder, named after the prompt, the model and the id"],
  [".", "the same in the current folder"],
  [
    "{slug}-{n}.mp4",
    "a name made of {slug} of the prompt, {model}, {id}, {date}, and {n}, the first number that is free",
  ],
  ["-", "the video itself on stdout"],
];

/** The fields of `error` in the document that `--json` prints for an error. */
export const errorFields: readonly Row[] = [
  ["code", "the name of the exit code"],
  ["message", "what happened, and whether it may have been charged"],
  ["hint", "what to do next, often a command; or null"],
  ["id", "the generation it is about, to go on with; or null"],
  ["http_status", "what the service answered with; or null"],
];

/** What a prompt may ask of the local service; a test compares the rows with what the service reads. */
export const directives: readonly Row[] = [
  ["[fail]", "the generation fails"],
  ["[fail: text]", "it fails, and that is its error"],
  ["[slow: 90s]", "it takes at least that long"],
  ["[http: 429]", "the start is refused once, with Retry-After, then accepted"],
  ["[http: 500]", "the start is answered with that status, 400 to 599; nothing is charged"],
  ["[hang]", "the start is executed and never answered"],
  ["[cut]", "the start is executed and its reply breaks off after the id"],
  ["[media: cut]", "the video breaks off halfway, unless it is asked for by a range"],
  ["[media: 403]", "its address answers once with that status, 400 to 599"],
  ["[no-video]", "the generation completes without a video_url"],
  ["[credits: 0]", "the start is refused for want of credits"],
];
