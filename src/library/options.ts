import { statuses } from "../client/ledger/attempt.ts";
import { usage, type VidgenError } from "../errors.ts";
import { findSimilar } from "../protocol/models.ts";
import { shorten } from "../protocol/text.ts";
import type { GenerationRequest } from "./request.ts";
import type { Started, StartStatus } from "./results.ts";

/** The options of `createClient`. */
export type ClientOptions = {
  /** The service's address: https, except on this machine. `VIDGEN_BASE_URL` by default. */
  baseUrl?: string | undefined;
  /** The service's API key. `VIDGEN_API_KEY` by default. */
  apiKey?: string | undefined;
  /** Called with messages for the user, such as a warning that a model name looks misspelled. */
  onNote?: ((text: string) => void) | undefined;
  /**
   * The path of a journal, a file in which each start is recorded before it is sent; `true` is the CLI's journal. Without a journal nothing is
   * recorded, and the client does not know what other processes have started.
   */
  journal?: string | true | undefined;
  /**
   * Sends the requests, instead of vidgen's own fetch. If it rejects a start, the start counts as sent and possibly charged, unless the error
   * has `sent: false`.
   */
  fetch?: typeof globalThis.fetch | undefined;
};

/** The option of every call. */
export type CallOptions = {
  /** The call's promise rejects with an error named "AbortError" once this aborts. */
  signal?: AbortSignal | undefined;
};

/** The options of `start`. */
export type StartOptions = CallOptions & {
  /**
   * A name for this start: up to 255 letters, digits and `_.:~+/=@-`. It is sent as the Idempotency-Key. With a journal, the same name always
   * means the same start, in any process: nothing is sent again, and the call returns the earlier id.
   */
  idempotencyKey?: string | undefined;
  /**
   * What to do about an earlier start of the same request in the journal: `resume` resumes an interrupted one, `reuse` returns any that did not
   * fail (a finished one for 24 hours), and `new` starts a new one, and dismisses those that are unfinished or may have been charged. By default
   * `generate` resumes, and `start` starts a new one and leaves the others as they are. With an `idempotencyKey`, it has no effect.
   */
  onExisting?: "resume" | "reuse" | "new" | undefined;
  /**
   * The video whose last frame is the first image, in place of `images`: the path of a file, or the id of a generation, whose video is downloaded
   * unless it is saved. Needs ffmpeg. Everything that can fail about it fails before the start.
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
   * Called at each poll with the service's own word for the state, and with the percent of the video that is made, if the service reports it.
   */
  onState?: ((status: string, percent?: number) => void) | undefined;
};

/** The options of `download`. */
export type DownloadOptions = FollowOptions & {
  /** Whether the video may replace a file that exists; no by default. */
  overwrite?: boolean | undefined;
  /** Called while the video arrives. Both numbers are bytes; `total` is `undefined` if the video's address does not state it. */
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
  /** The file in which results are written, and from which a later run resumes. */
  results: string;
  /** How many generations run at once; 4 by default. */
  jobs?: number | undefined;
  /** How long to wait for each generation, in milliseconds; 15 minutes by default. */
  timeoutMs?: number | undefined;
  /** The time between two polls of a generation, as in `follow`. */
  intervalMs?: number | undefined;
  /** Whether videos may replace files that exist; no by default. */
  overwrite?: boolean | undefined;
  /** Whether rows that failed or were refused in an earlier run are started again, which is charged. */
  retryFailed?: boolean | undefined;
  /** Whether rows that may have been charged in an earlier run are started again, which may be charged twice. */
  retryUnknown?: boolean | undefined;
  /** The most credits that may be spent, over all runs of the batch. */
  maxCredits?: number | undefined;
  /** The fewest credits that are left on the account. */
  keepCredits?: number | undefined;
  /** The most that all runs of the batch may cost in USD, at a service that reports it. */
  maxCost?: number | undefined;
  /** Whether nothing more is started after the first row that was refused or failed. */
  failFast?: boolean | undefined;
};

/** A row of a batch. */
export type BatchRow = {
  /** The caller's name for the row, by which a later run knows it; without one the request itself and how often it occurred before. */
  id?: string | undefined;
  /** What its video is to show. */
  request: GenerationRequest;
  /** Where its video is saved, as in `download`; without it the video is not downloaded. */
  output?: string | undefined;
};

/** The options of `generations.list`. */
export type ListOptions = {
  /** Only the starts with this status. */
  status?: StartStatus | undefined;
  /** How many starts are returned at most; 20 by default. */
  limit?: number | undefined;
};

/** The options of `generations.resume`. */
export type ResumeOptions = FollowOptions & {
  /** Whether a video may replace a file that exists; no by default. */
  overwrite?: boolean | undefined;
};

/** Each field of a type of options, which tsc asks for, with the words that it may be if it is one of some words. */
type FieldsOf<Options> = { readonly [Name in keyof Required<Options>]: true | readonly string[] };

const call: FieldsOf<CallOptions> = { signal: true };
const start: FieldsOf<StartOptions> = {
  ...call,
  idempotencyKey: true,
  onExisting: ["resume", "reuse", "new"],
  from: true,
};
const follow: FieldsOf<FollowOptions> = { ...call, timeoutMs: true, intervalMs: true, onState: true };
const download: FieldsOf<DownloadOptions> = { ...follow, overwrite: true, onProgress: true };
const generate: FieldsOf<GenerateOptions> = { ...start, ...download, output: true, onStarted: true };
const resume: FieldsOf<ResumeOptions> = { ...follow, overwrite: true };
const list: FieldsOf<ListOptions> = { status: statuses, limit: true };
const row: FieldsOf<BatchRow> = { id: true, request: true, output: true };
const batch: FieldsOf<BatchOptions> = {
  ...call,
  results: true,
  jobs: true,
  timeoutMs: true,
  intervalMs: true,
  overwrite: true,
  retryFailed: true,
  retryUnknown: true,
  maxCredits: true,
  keepCredits: true,
  maxCost: true,
  failFast: true,
};
const createClient: FieldsOf<ClientOptions> = { baseUrl: true, apiKey: true, onNote: true, journal: true, fetch: true };

/** The options of each call. */
const known = {
  createClient,
  generate,
  start,
  status: call,
  follow,
  download,
  batch,
  row,
  "generations.list": list,
  "generations.resume": resume,
};

export type CallName = keyof typeof known;

/** Throws `usage` for an option that a call does not have. `name` is what the message calls it, where that is not the call's name. */
export function checkOptions(call: CallName, given: unknown, name: string = call): void {
  if (typeof given !== "object" || given === null) throw usage(`The options of ${name} must be an object.`);
  const fields: Readonly<Record<string, true | readonly string[]>> = known[call];
  for (const [option, value] of Object.entries(given)) {
    const words = Object.hasOwn(fields, option) ? fields[option] : undefined;
    if (words === undefined) throw unknownOption(option, Object.keys(fields), name);
    if (option === "signal" && value !== undefined && !(value instanceof AbortSignal))
      throw usage("signal must be an AbortSignal.");
    if (words !== true && value !== undefined && !words.includes(value))
      throw usage(`${option} must be one of ${words.join(", ")}, not "${shorten(String(value))}".`);
  }
}

function unknownOption(option: string, names: readonly string[], name: string): VidgenError {
  const similar = findSimilar(option, names);
  const guess = similar === undefined ? "." : `; did you mean ${similar}?`;
  return usage(`${name} has no option "${shorten(option)}"${guess}`, `Its options are ${names.join(", ")}.`);
}
