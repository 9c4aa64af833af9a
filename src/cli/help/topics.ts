import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { exits } from "../../errors.ts";
import { detailsOf } from "../command.ts";
import { actions, formatAgentsPage } from "./agents.ts";

export type Row = readonly [term: string, meaning: string];

/** A part of a topic: a paragraph, then a list of terms. */
type Section = { text: string; rows: readonly Row[] };

/** `document` is what `--json` prints; `page` is what help prints as it is, in place of the sections that the manual shows. */
export type Topic = { name: string; summary: string; sections: Section[]; page?: string; document: unknown };

export const topicNames = ["exit-codes", "environment", "output", "directives", "agents"] as const;

const signalNote =
  "129, 130 and 143 are what a shell shows in `$?`: vidgen is terminated by the signal itself, so that a loop in a script stops too.";

/** The topics of `vidgen help <topic>`, made from the code's own tables. */
export function createTopics(program: CommandUnknownOpts): Topic[] {
  const codes = Object.entries(exits).map(([name, { exit, meaning }]) => ({ code: exit, name, meaning }));
  const codeRows = codes.map(({ code, name, meaning }): Row => [`${String(code).padEnd(3)} ${name}`, meaning]);
  const precedence = "A flag overrides the environment, which overrides the saved file, which overrides the default.";
  const settingRows = variables.map(({ name, flag, meaning }): Row => [name, meaning + (flag ? ` (${flag})` : "")]);
  const stdout = program.commands.flatMap((command): Row[] => {
    const { prints } = detailsOf(command);
    return prints === undefined ? [] : [[command.name(), prints]];
  });
  const withEvents = program.commands.filter((command) => command.options.some(({ long }) => long === "--events"));
  const page = formatAgentsPage({ events: namesOf(events), errorFields: namesOf(errorFields) });
  const contents: Record<(typeof topicNames)[number], Omit<Topic, "name">> = {
    "exit-codes": {
      summary: "exit codes and their meaning",
      sections: [
        {
          text: `The exit code of every command. With --json the name is \`error.code\`. ${signalNote}`,
          rows: codeRows,
        },
      ],
      document: codes,
    },
    environment: {
      summary: "environment variables",
      sections: [{ text: precedence, rows: settingRows }],
      document: variables,
    },
    output: {
      summary: "stdout and stderr, -o, --json and --events",
      sections: [
        {
          text: "Results go to stdout; progress, prompts, hints and errors go to stderr. On stdout, each command prints:",
          rows: stdout,
        },
        { text: "Values of -o:", rows: places },
        {
          text: "With --json, stdout is one JSON document in the service's own field names, and an error is one JSON document on stderr: an object `error` with the fields",
          rows: errorFields,
        },
        {
          text: `With --events, ${withEvents.map((command) => command.name()).join(", ")} ${eventsText}`,
          rows: events,
        },
      ],
      document: {
        stdout: Object.fromEntries(stdout),
        places: Object.fromEntries(places),
        error: Object.fromEntries(errorFields),
        events: Object.fromEntries(events),
      },
    },
    directives: {
      summary: "words in a prompt that make the local service fail, for tests",
      sections: [
        {
          text: "With --local or `vidgen serve`, these words in a prompt simulate failures of previews; with `vidgen serve --directives` of real models too:",
          rows: directives,
        },
      ],
      document: directives.map(([text, effect]) => ({ text, effect })),
    },
    agents: {
      summary: "all that an AI agent needs, on one page",
      sections: [
        {
          text: "`vidgen help agents` prints all that an AI agent needs on one page; with --skill in place of the name, as a skill file.",
          rows: [],
        },
      ],
      page,
      document: { page, actions },
    },
  };
  return topicNames.map((name) => ({ name, ...contents[name] }));
}

function namesOf(rows: readonly Row[]): string[] {
  return rows.map(([name]) => name);
}

/** The variables, each with the flag that overrides it. */
const variableRows: readonly [name: string, flag: string | null, meaning: string][] = [
  ["VIDGEN_API_KEY", null, "the API key; it has no flag, so that it does not show up in process lists"],
  ["VIDGEN_BASE_URL", "--base-url", "the service's base URL; https, except on localhost"],
  ["VIDGEN_MODEL", "--model", "the default model, else `wan-2.5`"],
  ["VIDGEN_MCP_MAX_CREDITS", null, "the most credits that a session of `vidgen mcp` may spend"],
  ["VIDGEN_ENGINE_KEY", null, "the key of the servers that `vidgen serve --engine` uses"],
  ["VIDGEN_DATABASE_URL", "--database", "the PostgreSQL database of `vidgen serve`, instead of the embedded one"],
  ["VIDGEN_WEBHOOK_SECRET", null, "the secret by which `vidgen listen` checks callbacks, else the local service's"],
  ["VIDGEN_HOME", null, "the folder for settings, journal and local service, instead of the platform's folders"],
  [
    "AWS_ACCESS_KEY_ID",
    null,
    "with AWS_SECRET_ACCESS_KEY, the key for `vidgen serve --media s3://...`; AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT_URL likewise",
  ],
  ["HTTPS_PROXY", null, "the proxy for https URLs; never used for localhost"],
  ["HTTP_PROXY", null, "the proxy for http URLs; never used for localhost"],
  ["NO_PROXY", null, "hosts for which no proxy is used"],
  ["NODE_EXTRA_CA_CERTS", null, "a file with additional certificate authorities, read by Node"],
  ["NO_COLOR", "--no-color", "no colours, when set"],
  ["FORCE_COLOR", "--color", "colours without a terminal too; 0 or false: no colours"],
  ["CLICOLOR_FORCE", "--color", "the same; 0 is ignored"],
  ["TERM", null, "`dumb`: no colours and no spinner"],
  ["CI", "--no-input", "no prompts and no spinner"],
  ["XDG_CONFIG_HOME", null, "the folder for settings on Linux; XDG_STATE_HOME and XDG_DATA_HOME likewise"],
];

/** Every variable that the code reads, vidgen's own first; README's table holds those. Tests compare both with the code. */
export const variables = variableRows.map(([name, flag, meaning]) => ({ name, flag, meaning }));

/** The values of `-o`. */
const places: readonly Row[] = [
  ["fox.mp4", "that file; an existing file is an error unless --overwrite is given"],
  ["clips/", "a file in that folder, named after the prompt, the model and the id"],
  [".", "the same in the current folder"],
  [
    "{slug}-{n}.mp4",
    "a name with placeholders: {slug} (from the prompt), {model}, {id}, {date}, {n} (the first free number)",
  ],
  ["-", "the video itself on stdout"],
];

/** The fields of `error` in the document that `--json` prints for an error. */
export const errorFields: readonly Row[] = [
  ["code", "the name of the exit code"],
  ["message", "what happened, and whether it may have been charged"],
  ["hint", "what to do next, often a command; or null"],
  ["id", "the id of the generation; or null"],
  ["http_status", "the HTTP status of the response; or null"],
];

const eventsText =
  "print nothing on stdout but events as they happen, one JSON object per line; stderr keeps its text. Each event has `event` (its name) and `at` (ISO 8601, UTC). The last line is always the summary: without one, vidgen was killed. A reader that closes the pipe stops nothing. More fields may be added. `vidgen help --json` has the JSON Schema. The other fields of each event:";

/** The events of `--events`, each with its fields. */
export const events: readonly Row[] = [
  [
    "started",
    "id, attempt, model, resumed (true when an earlier run has started it: nothing is charged), remaining_credits, credits (what it cost), each where it is known; else balance_fell: by how much less is left than before, others may have spent too",
  ],
  ["state", "id, status: the service's own word; only when it has changed"],
  ["progress", "id, received, total: bytes of the video, total may be null; once a second, and when it is complete"],
  ["saved", "id, file: saved by this run"],
  [
    "ended",
    "id (null when none is known), status, file, video_url, error (its fields are above), each of these null where there is none, and credits where known. status is completed (with an error: not saved), failed, processing (still running), or of a start: refused, unsent, unknown (it may have been charged); lost (the service no longer knows it)",
  ],
  ["error", "error: what ended the command; its fields are above"],
  [
    "summary",
    "exit_code, total, done, running (or not saved yet: `vidgen wait` resumes them), failed, refused, unsent, unknown, lost",
  ],
];

/** The words in a prompt that the local service obeys; a test compares the rows with what the service reads. */
export const directives: readonly Row[] = [
  ["[fail]", "the generation fails"],
  ["[fail: text]", "the generation fails with that error"],
  ["[slow: 90s]", "the generation takes at least that long"],
  ["[http: 429]", "the start request gets 429 with Retry-After once, then it is accepted"],
  ["[http: 500]", "the start request gets that status, 400 to 599; nothing is charged"],
  ["[hang]", "the generation starts, but the start request gets no response"],
  ["[cut]", "the generation starts, but the response is cut off after the id"],
  ["[media: cut]", "the download is cut off halfway, unless it is a range request"],
  ["[media: 403]", "the video URL returns that status once, 400 to 599"],
  ["[no-video]", "the generation completes without a video_url"],
  ["[credits: 0]", "the start request is refused: not enough credits"],
];
