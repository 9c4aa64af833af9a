import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { exits } from "../../errors.ts";
import { detailsOf } from "../command.ts";

export type Row = readonly [term: string, meaning: string];

/** A part of a topic: words, then a list of terms. */
export type Section = { text: string; rows: readonly Row[] };

/** `document` is what `--json` prints. */
export type Topic = { name: string; summary: string; sections: Section[]; document: unknown };

export const topicNames = ["exit-codes", "environment", "output", "directives"] as const;

/** What `vidgen help <topic>` tells, made from the tables that the code itself goes by. */
export function createTopics(program: CommandUnknownOpts): Topic[] {
  const codes = Object.entries(exits).map(([name, { exit, meaning }]) => ({ code: exit, name, meaning }));
  const stdout = stdoutOf(program);
  const contents: Record<(typeof topicNames)[number], Omit<Topic, "name">> = {
    "exit-codes": {
      summary: "how a run can end",
      sections: [
        {
          text: "The exit code of every command. With --json the name is `error.code`.",
          rows: codes.map(({ code, name, meaning }) => [`${String(code).padEnd(3)} ${name}`, meaning]),
        },
      ],
      document: codes,
    },
    environment: {
      summary: "the variables that have a say",
      sections: [
        {
          text: "A flag goes before the environment, that before the saved file, that before the default.",
          rows: variables.map(({ name, flag, meaning }) => [name, flag === null ? meaning : `${meaning} (${flag})`]),
        },
      ],
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

/** What each command prints on stdout; README's table of commands is tested against it. */
export function stdoutOf(program: CommandUnknownOpts): Row[] {
  return program.commands.flatMap((command): Row[] => {
    const { prints } = detailsOf(command);
    return prints === undefined ? [] : [[command.name(), prints]];
  });
}

type Variable = {
  name: string;
  /** The flag that goes before it. */
  flag: string | null;
  meaning: string;
};

/** Every variable that has a say, vidgen's own first; README's table holds those. Tests compare them with what the code reads. */
export const variables: readonly Variable[] = [
  {
    name: "VIDGEN_API_KEY",
    flag: null,
    meaning: "the API key; there is no flag for it, so that it never shows in a process list",
  },
  { name: "VIDGEN_BASE_URL", flag: "--base-url", meaning: "the service's address; https, except on this machine" },
  { name: "VIDGEN_MODEL", flag: "--model", meaning: "the model, else `wan-2.5`" },
  { name: "VIDGEN_HOME", flag: null, meaning: "the folder for all that vidgen keeps, instead of the platform's own" },
  {
    name: "HTTPS_PROXY",
    flag: null,
    meaning: "the proxy for https addresses; this machine itself is never asked for by it",
  },
  { name: "HTTP_PROXY", flag: null, meaning: "the proxy for http addresses" },
  { name: "NO_PROXY", flag: null, meaning: "hosts that are reached without a proxy" },
  { name: "NODE_EXTRA_CA_CERTS", flag: null, meaning: "a file with further certificate authorities; Node reads it" },
  { name: "NO_COLOR", flag: "--no-color", meaning: "no colours" },
  { name: "FORCE_COLOR", flag: "--color", meaning: "colours where there is no terminal; 0 or false: none" },
  { name: "CLICOLOR_FORCE", flag: "--color", meaning: "the same; 0 says nothing" },
  { name: "TERM", flag: null, meaning: "`dumb`: no colours and no moving line" },
  { name: "CI", flag: "--no-input", meaning: "nothing is asked, and no line moves" },
  {
    name: "XDG_CONFIG_HOME",
    flag: null,
    meaning: "where Linux keeps settings; XDG_STATE_HOME and XDG_DATA_HOME likewise",
  },
];

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

/** The fields of `error` in the one document that an error is with `--json`. */
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
