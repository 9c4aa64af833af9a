import { statuses } from "../client/ledger/attempt.ts";
import { usage, type VidgenError } from "../errors.ts";
import { findSimilar } from "../protocol/models.ts";
import { shorten } from "../protocol/text.ts";
import type { GenerationRequest } from "./request.ts";
import type { Started, StartStatus } from "./results.ts";

/** The options of `createClient`. */
export type ClientOptions = {
  /**
   * The service's address: https, except on this machine and for the origin in `VIDGEN_ALLOW_HTTP`, in a
   * private network. Default: `VIDGEN_BASE_URL`.
   */
  baseUrl?: string | undefined;
  /** The service's API key. `VIDGEN_API_KEY` by default. */
  apiKey?: string | undefined;
  /** Called with messages for the user, such as a warning that a model name looks misspelled. */
  onNote?: ((text: string) => void) | undefined;
  /**
   * The path of a journal, a file that records each start before it is sent; `true` is the CLI's journal.
   * Without a journal nothing is recorded, and the client does not know what other processes have started.
   */
  journal?: string | true | undefined;
  /**
   * Sends the requests, instead of vidgen's own fetch. If it rejects a start, the start counts as sent and
   * possibly charged, unless the error has `sent: false`.
   */
  fetch?: typeof globalThis.fetch | undefined;
};

/** The options of every call. */
export type CallOptions = {
  /** The call's promise rejects with an error named "AbortError" once this aborts. */
  signal?: AbortSignal | undefined;
};

/** The options of `start`. */
export type StartOptions = CallOptions & {
  /**
   * The Idempotency-Key of this start: up to 255 letters, digits and `_.:~+/=@-`. With a journal, the same key always
   * identifies the same start, in any process: nothing is sent again, and the call returns the earlier id.
   */
  idempotencyKey?: string | undefined;
  /**
   * What to do about an earlier start of the same request in the journal: `resume` continues an interrupted
   * one, `reuse` returns any that did not fail (a finished one for 24 hours), and `new` starts a new one, and
   * dismisses unfinished ones and those that may have been charged. By default `generate` resumes, and
   * `start` starts a new one and does not change the others. It has no effect with an `idempotencyKey`.
   */
  onExisting?: "resume" | "reuse" | "new" | undefined;
  /**
   * A video whose last frame becomes the first image, instead of `images`: the path of a file, or the id of a
   * generation, whose video is downloaded unless it is saved. Needs ffmpeg. If it fails, nothing was sent.
   */
  from?: string | undefined;
};

/** The options of `follow`. */
export type FollowOptions = CallOptions & {
  /** How long to wait for the end, in milliseconds; 15 minutes by default. */
  timeoutMs?: number | undefined;
  /** The time between two polls, in milliseconds, at least 1000; 5 to 10 s by default, and less at a service on this machine. */
  intervalMs?: number | undefined;
  /**
   * Called at each poll with the service's own word for the state, and with the progress in percent, if the service reports it.
   */
  onState?: ((status: string, percent?: number) => void) | undefined;
};

/** The options of `download`. */
export type DownloadOptions = FollowOptions & {
  /** Whether the video may replace an existing file; `false` by default. */
  overwrite?: boolean | undefined;
  /** Called during the download. Both numbers are bytes; `total` is `undefined` if the server does not state it. */
  onProgress?: ((received: number, total: number | undefined) => void) | undefined;
};

/** The options of `generate`. */
export type GenerateOptions = DownloadOptions &
  StartOptions & {
    /** Where the video is saved, as in `download`; without it the video is not saved. */
    output?: string | undefined;
    /** Called as soon as the id is known. */
    onStarted?: ((started: Started) => void) | undefined;
  };

/** The options of `batch`. */
export type BatchOptions = CallOptions & {
  /** The file for the results, from which a later run resumes. */
  results: string;
  /** How many generations run at once; 4 by default. */
  jobs?: number | undefined;
  /** How long to wait for each generation, in milliseconds; 15 minutes by default. */
  timeoutMs?: number | undefined;
  /** The time between two polls of a generation, as in `follow`. */
  intervalMs?: number | undefined;
  /** Whether videos may replace existing files; `false` by default. */
  overwrite?: boolean | undefined;
  /** Whether to start failed and refused rows of earlier runs again, which is charged. */
  retryFailed?: boolean | undefined;
  /** Whether to start rows again that may have been charged in an earlier run; they may be charged twice. */
  retryUnknown?: boolean | undefined;
  /** The maximum number of credits that all runs of the batch may spend. */
  maxCredits?: number | undefined;
  /** The minimum number of credits to leave on the account. */
  keepCredits?: number | undefined;
  /** The maximum cost of all runs of the batch in USD, at a service that reports it. */
  maxCost?: number | undefined;
  /** Whether to start no more rows once a row was refused or failed. */
  failFast?: boolean | undefined;
};

/** A row of a batch. */
export type BatchRow = {
  /**
   * The caller's name for the row, by which later runs recognize it; by default the request and its position
   * among equal requests.
   */
  id?: string | undefined;
  /** The request. */
  request: GenerationRequest;
  /** Where its video is saved, as in `download`; without it the video is not downloaded. */
  output?: string | undefined;
};

/** The options of `generations.list`. */
export type ListOptions = {
  /** Only the starts with this status. */
  status?: StartStatus | undefined;
  /** The maximum number of starts to return; 20 by default. */
  limit?: number | undefined;
};

/** The options of `generations.resume`. */
export type ResumeOptions = FollowOptions & {
  /** Whether a video may replace an existing file; `false` by default. */
  overwrite?: boolean | undefined;
};

/** What an option may be, besides `undefined`. A limit of spending is a number in each case, since `null` would be no limit. */
const kinds = {
  text: { isValid: (value) => typeof value === "string", words: "text" },
  number: { isValid: (value) => typeof value === "number", words: "a number" },
  amount: { isValid: (value) => typeof value === "number" && value >= 0, words: "a number of at least 0" },
  boolean: { isValid: (value) => typeof value === "boolean", words: "true or false" },
  function: { isValid: (value) => typeof value === "function", words: "a function" },
  signal: { isValid: (value) => value instanceof AbortSignal, words: "an AbortSignal" },
  journal: { isValid: (value) => value === true || typeof value === "string", words: "a path or true" },
  request: { isValid: (value) => typeof value === "object" && value !== null, words: "an object" },
} satisfies Record<string, { isValid(value: unknown): boolean; words: string }>;

type AllowedValues = keyof typeof kinds | readonly string[];

/** All fields of an options type, each with what it may be. tsc checks that none is missing. */
type FieldsOf<Options> = { readonly [Name in keyof Required<Options>]: AllowedValues };

const call: FieldsOf<CallOptions> = { signal: "signal" };
const start: FieldsOf<StartOptions> = {
  ...call,
  idempotencyKey: "text",
  onExisting: ["resume", "reuse", "new"],
  from: "text",
};
const follow: FieldsOf<FollowOptions> = { ...call, timeoutMs: "number", intervalMs: "number", onState: "function" };
const download: FieldsOf<DownloadOptions> = { ...follow, overwrite: "boolean", onProgress: "function" };
const generate: FieldsOf<GenerateOptions> = { ...start, ...download, output: "text", onStarted: "function" };
const resume: FieldsOf<ResumeOptions> = { ...follow, overwrite: "boolean" };
const list: FieldsOf<ListOptions> = { status: statuses, limit: "number" };
const row: FieldsOf<BatchRow> = { id: "text", request: "request", output: "text" };
const batch: FieldsOf<BatchOptions> = {
  ...call,
  results: "text",
  jobs: "number",
  timeoutMs: "number",
  intervalMs: "number",
  overwrite: "boolean",
  retryFailed: "boolean",
  retryUnknown: "boolean",
  maxCredits: "amount",
  keepCredits: "amount",
  maxCost: "amount",
  failFast: "boolean",
};
const createClient: FieldsOf<ClientOptions> = {
  baseUrl: "text",
  apiKey: "text",
  onNote: "function",
  journal: "journal",
  fetch: "function",
};

/** The options of each call. */
const optionsByCall = {
  createClient,
  generate,
  start,
  estimate: call,
  status: call,
  follow,
  download,
  batch,
  row,
  "generations.list": list,
  "generations.resume": resume,
};

export type CallName = keyof typeof optionsByCall;

/**
 * Throws `usage` for an option that a call does not have, or a value that it does not allow. `name` is the
 * name of the call in the message.
 */
export function checkOptions(call: CallName, options: unknown, name: string = call): void {
  if (typeof options !== "object" || options === null) throw usage(`The options of ${name} must be an object.`);
  const fields: Readonly<Record<string, AllowedValues>> = optionsByCall[call];
  for (const [option, value] of Object.entries(options)) {
    const allowedValues = Object.hasOwn(fields, option) ? fields[option] : undefined;
    if (allowedValues === undefined) throw unknownOption(option, Object.keys(fields), name);
    if (value === undefined) continue;
    const isList = typeof allowedValues !== "string";
    const isValid = isList ? allowedValues.includes(value) : kinds[allowedValues].isValid(value);
    const words = isList ? `one of ${allowedValues.join(", ")}` : kinds[allowedValues].words;
    if (!isValid) throw usage(`${option} must be ${words}, not ${describeValue(value, allowedValues)}.`);
  }
}

/** A value in words. A number in place of a text may be a key, which is not repeated. */
function describeValue(value: unknown, allowedValues: AllowedValues): string {
  if (typeof value === "string" || allowedValues === "amount") return `"${shorten(String(value))}"`;
  return value === null ? "null" : `a value of type ${typeof value}`;
}

function unknownOption(option: string, names: readonly string[], name: string): VidgenError {
  const similar = findSimilar(option, names);
  const guess = similar === undefined ? "." : `; did you mean ${similar}?`;
  return usage(`${name} has no option "${shorten(option)}"${guess}`, `Its options are ${names.join(", ")}.`);
}
