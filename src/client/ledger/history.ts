import { createHash } from "node:crypto";
import type { CommandErrorCode } from "../../errors.ts";
import { isRecord } from "../../protocol/json.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { hashText, hideSecrets, mayBeSecret } from "../../protocol/secrets.ts";
import { type AttemptState, blocksRestart, nextState, type Status, statusOf } from "./attempt.ts";
import { type Content, parseContent } from "./content.ts";
import type { FileId, FileIdentity } from "./identity.ts";
import type { Version } from "./version.ts";

/** A line of the journal, or of a batch's results file: a JSON object. It never contains an API key. `attempt` is a UUID. */
export type JournalLine =
  | RunLine
  | FilmLine
  | RedoLine
  | IntentLine
  /**
   * `credits` is the stated cost. Without a stated cost, only the drop of the balance is known, which may
   * include the spending of others.
   */
  | {
      kind: "accepted";
      attempt: string;
      id: string;
      credits?: number | undefined;
      balance_fell?: number | undefined;
      remaining_credits?: number | undefined;
    }
  /**
   * `id` is set if the reply named a generation without accepting the start. `resend_answered` is set if the
   * service has answered when the key was sent again, so that sending it once more would not help.
   */
  | {
      kind: "refused" | "unsent" | "unknown";
      attempt: string;
      id?: string | undefined;
      resend_answered?: boolean | undefined;
      reason: string;
      code?: CommandErrorCode | undefined;
    }
  /** A line that a newer version of vidgen wrote, so that the state of the attempt is unknown. Never written. */
  | { kind: "newer"; attempt: string; id?: string | undefined }
  /** The user dismissed the attempt, which no longer stops other starts. */
  | { kind: "dismissed"; attempt: string }
  /** The id was returned to a caller who does not wait for the generation. */
  | { kind: "told"; attempt: string }
  /**
   * `watched` is set if an earlier poll saw the generation running, so that `at` is about the time of its
   * end. `paused` is set if it may have been suspended, because the local service ends with its command.
   */
  | {
      kind: "completed";
      id: string;
      watched?: boolean | undefined;
      paused?: boolean | undefined;
      cost?: number | undefined;
    }
  /** `code` is set if nothing was charged, `cost` if the service says that the failed generation was charged. */
  | {
      kind: "failed";
      id: string;
      reason: string;
      code?: CommandErrorCode | undefined;
      cost?: number | undefined;
    }
  /** The service does not know whether the generation was charged, because its request to an engine got no usable response. */
  | { kind: "unclear"; id: string; reason: string }
  /** The service accepted the start, but no longer knows the generation. */
  | { kind: "lost"; id: string }
  /** An unknown or lost generation is running after all. */
  | { kind: "found"; id: string }
  /** The service deleted the generation's video at the user's request. */
  | { kind: "removed"; id: string }
  /** A partial file of a video, and the version in it; the newest line about a file counts. */
  | PartLine
  /** The video is complete, and its file is about to be renamed. */
  | ({ kind: "downloaded"; id: string } & Content)
  /** The result was delivered as a file ("-" is standard output) or as its URL. */
  | ({ kind: "delivered"; id: string; file?: string | undefined } & Partial<Content>);

/** Written before the request that costs money. `place` is -o as typed, and `path` its absolute path. */
export type IntentLine = Partial<Take> & {
  kind: "intent";
  attempt: string;
  /** The caller's Idempotency-Key; without one, the attempt's name is sent. */
  key?: string | undefined;
  /** The attempt whose Idempotency-Key is sent again. */
  resend_of?: string | undefined;
  /** When the key was first sent, if an earlier attempt has sent it; ISO 8601, UTC. */
  first_sent_at?: string | undefined;
  base_url: string;
  /** The account that pays: see `accountOf`. */
  account: string;
  /** See `recordOf`. */
  request: StartRequest;
  place?: string | undefined;
  path?: string | undefined;
  /** The partial file of its video. */
  part?: string | undefined;
  /** Whether the process does not wait for the generation. */
  no_wait?: boolean | undefined;
  /** The results file of its batch, and its row there. */
  batch?: string | undefined;
  row?: string | undefined;
  /** The line of the row in its file. */
  line?: number | undefined;
  /** The redo that makes the row again: see `RedoLine`; and the names of the earlier attempts at the row, which it replaces. */
  redo?: string | undefined;
  replaces?: readonly string[] | undefined;
  /** The rows file. */
  rows_file?: FileIdentity | undefined;
  /** Whether an AI agent started the generation, through `vidgen mcp`. */
  mcp?: boolean | undefined;
  /** Whether the video is a preview; absent if the service does not say. */
  is_preview?: boolean | undefined;
  /** The value of `--engine`. */
  engine?: readonly string[] | undefined;
  /** Without `--engine`: the engines that a running local service announced. */
  served_by?: readonly string[] | undefined;
  /** The id of the generation whose request `again` repeats. */
  parent?: string | undefined;
  /** The id of the generation whose last frame this one starts with. */
  from?: string | undefined;
  /** The hash of the typed command line. */
  typed?: string | undefined;
  /** Whether the line or VIDGEN_OUTPUT says the output path; absent in older versions. */
  place_typed?: boolean | undefined;
  /**
   * The absolute path, without links, of the vidgen.json that gave values or references; without one, the
   * working folder is in `folder`.
   */
  project?: string | undefined;
  folder?: string | undefined;
  /**
   * For the row of a batch: the fields of its request that the flags and the row do not determine, whose
   * values are from vidgen.json.
   */
  untyped?: readonly string[] | undefined;
};

/** One of several generations of one command, such as `-n 3`. */
export type Take = {
  /** The name of the run, a UUID. */
  run: string;
  /** Its position, from 1, of `count`. */
  position: number;
  count: number;
};

/** The start of a batch's run, only in its results file. Says which rows the file is about. */
export type RunLine = {
  kind: "batch";
  /** The rows file as a path relative to the results file; "" or "-" if the rows did not come from a file. */
  file: string;
  /** The number of rows of this run, which is a part of the rows file if `shard` is set. */
  rows: number;
  /** The number of rows in the rows file. */
  total: number;
  /** Which part of the rows file, such as "2/8". */
  shard: string | null;
  /** The base URL of the service. */
  service: string;
  /** The identity of the rows file: see `FileIdentity`. */
  inode?: FileId | undefined;
  born?: number | undefined;
  /** The path of the results file in this run. */
  results: string;
};

/** The joined film of a batch is about to be renamed. Only in the results file. */
export type FilmLine = Content & {
  kind: "film";
  file: string;
  /** The hash of its clips: see `hashClips`. */
  clips: string;
  copied: boolean;
  frames: number;
  seconds: number;
};

/**
 * Rows of a batch are made again, although they have a video; in the results file only, as one line before
 * the first of them is started.
 */
export type RedoLine = {
  kind: "redo";
  /** A UUID. */
  redo: string;
  rows: RedoneRow[];
};

export type RedoneRow = {
  row: string;
  /** The hash of its request: see `hashRow`. */
  request: string;
  /** All earlier attempts at the row, which no longer decide its state. */
  replaces: string[];
};

/** `inode` is set once the file has content, to detect a file that another program put there. */
export type PartLine = Version & { kind: "part"; file: string; inode?: FileId | undefined } & (
    | { attempt: string }
    | { id: string }
  );

export type DatedLine = JournalLine & { at: string };

/** The text fields that each line must have. */
const requiredFields: Record<JournalLine["kind"], readonly string[]> = {
  batch: ["file", "service", "results"],
  film: ["file", "clips", "sha256"],
  redo: ["redo"],
  intent: ["attempt", "base_url", "account"],
  accepted: ["attempt", "id"],
  refused: ["attempt", "reason"],
  unsent: ["attempt", "reason"],
  unknown: ["attempt", "reason"],
  newer: ["attempt"],
  dismissed: ["attempt"],
  told: ["attempt"],
  completed: ["id"],
  failed: ["id", "reason"],
  unclear: ["id", "reason"],
  lost: ["id"],
  found: ["id"],
  removed: ["id"],
  part: ["file"],
  downloaded: ["id", "sha256"],
  delivered: ["id"],
};

/**
 * Returns `undefined` for an unreadable line, such as a line that a crash cut off. A line of a newer version
 * about an attempt is `newer`. Does not use zod, because a long journal has 400,000 lines.
 */
export function parseLine(text: string): DatedLine | undefined {
  try {
    // Some editors add a byte order mark.
    return readLine(JSON.parse(text.startsWith("\ufeff") ? text.slice(1) : text));
  } catch {
    return undefined;
  }
}

function readLine(line: unknown): DatedLine | undefined {
  if (!isRecord(line) || typeof line.at !== "string") return undefined;
  if (!Object.hasOwn(requiredFields, String(line.kind))) return readNewer(line);
  if (!requiredFields[line.kind as JournalLine["kind"]].every((field) => typeof line[field] === "string"))
    return readNewer(line);
  if (line.kind === "part" && typeof (line.attempt ?? line.id) !== "string") return undefined;
  if (line.kind === "intent") {
    if (!URL.canParse(String(line.base_url))) return undefined;
    line.request = readRecordedRequest(line.request);
    if (!isNames(line.replaces)) line.replaces = undefined;
  }
  if (line.kind === "batch") {
    if (![line.rows, line.total].every(Number.isSafeInteger)) return undefined;
    if (line.shard !== null && typeof line.shard !== "string") return undefined;
    if (!URL.canParse(String(line.service))) return undefined;
  }
  if (line.kind === "redo" && !(Array.isArray(line.rows) && line.rows.every(isRedoneRow))) return undefined;
  return line as DatedLine;
}

function isRedoneRow(value: unknown): value is RedoneRow {
  if (!isRecord(value) || typeof value.row !== "string" || typeof value.request !== "string") return false;
  return isNames(value.replaces);
}

function isNames(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((name) => typeof name === "string");
}

/** A line whose kind or fields this version does not know. Only the fact that it is about an attempt is used. */
function readNewer({ attempt, id, at }: Record<string, unknown>): DatedLine | undefined {
  if (typeof attempt !== "string") return undefined;
  return { kind: "newer", attempt, id: typeof id === "string" ? id : undefined, at: String(at) };
}

/** A prompt or model of the wrong type is converted to text, since it is only shown. Older versions recorded some secrets. */
function readRecordedRequest(request: unknown): StartRequest {
  const { prompt = "", model = "", ...rest } = isRecord(request) ? request : {};
  return { ...hideFields(rest), prompt: asText(prompt), model: asText(model) };
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** One attempt to start a generation, and its generation if it has one, as the journal's lines about them say. */
export type Entry = Omit<IntentLine, "kind" | "part"> & {
  /** When the attempt was started; ISO 8601, UTC. */
  at: string;
  /** The stated cost in USD. */
  cost?: number | undefined;
  /** The stated cost in credits. */
  credits?: number | undefined;
  /** Without a stated cost: by how much the balance fell, if known. Others may have spent too. */
  balance_fell?: number | undefined;
  /** `sending` until the outcome is written, and permanently if the process dies before that. */
  state: AttemptState;
  /** The public name of the state. */
  status: Status;
  id?: string;
  remaining_credits?: number | undefined;
  /** The time from start to end, in milliseconds; set if this machine polled the generation until its end. */
  took_ms?: number;
  /** Whether the generation may have been suspended for a part of that time. */
  paused?: boolean;
  /** Why the attempt was refused, is unknown, or failed. */
  reason?: string;
  code?: CommandErrorCode | undefined;
  /** Whether the key was sent again, and the service's answer left the outcome unknown. */
  resend_answered?: boolean;
  /** Whether other starts ignore the attempt. */
  dismissed?: boolean;
  /** Whether the service deleted the video. */
  removed?: boolean;
  /** Whether the id was returned to a caller who does not wait for the generation. */
  told?: boolean;
  /** The absolute paths of the partial files. */
  parts?: string[];
  /** Where the video was saved; "-" for standard output. */
  file?: string;
  /** The content of the video. */
  content?: Content | undefined;
};

/** The Idempotency-Key of an attempt: the caller's, that of the attempt that it resends, or its own name. */
export function keyOf({ key, resend_of, attempt }: Pick<Entry, "key" | "resend_of" | "attempt">): string {
  return key ?? resend_of ?? attempt;
}

/**
 * Returns a function that takes lines one by one, newest first. At each intent it returns all lines of that
 * attempt, oldest first.
 */
export function createGrouping(): (line: DatedLine) => AttemptLines | undefined {
  // Two maps, since the name of an attempt may equal the id of another attempt's generation.
  const linesByAttempt = createPendingLines();
  const linesById = createPendingLines();
  return (line) => {
    if (line.kind === "intent") return [line, ...linesByAttempt.take(line.attempt).reverse()];
    if ("attempt" in line) {
      // Earlier lines about this id belong to this attempt.
      if ("id" in line && line.id !== undefined)
        for (const each of linesById.take(line.id)) linesByAttempt.add(line.attempt, each);
      linesByAttempt.add(line.attempt, line);
    } else if ("id" in line) linesById.add(line.id, line);
    return undefined;
  };
}

/** Groups lines by attempt; both are sorted newest first. */
export function groupLines(lines: Iterable<DatedLine>): AttemptLines[] {
  const group = createGrouping();
  const attempts: AttemptLines[] = [];
  for (const line of lines) {
    const found = group(line);
    if (found) attempts.push(found);
  }
  return attempts;
}

/** Groups items by what `nameOf` returns; both keep their order. */
export function groupBy<Item, Name>(items: Iterable<Item>, nameOf: (item: Item) => Name): Map<Name, Item[]> {
  const groups = new Map<Name, Item[]>();
  for (const item of items) {
    const group = groups.get(nameOf(item));
    if (group) group.push(item);
    else groups.set(nameOf(item), [item]);
  }
  return groups;
}

export type AttemptLines = [intent: IntentLine & { at: string }, ...later: DatedLine[]];

/** Lines that wait for their intent, by name, newest first. */
function createPendingLines() {
  const linesByName = new Map<string, DatedLine[]>();
  return {
    add(name: string, line: DatedLine) {
      const lines = linesByName.get(name);
      if (lines) lines.push(line);
      else linesByName.set(name, [line]);
    },
    take(name: string) {
      const lines = linesByName.get(name) ?? [];
      linesByName.delete(name);
      return lines;
    },
  };
}

/** Builds the entry of an attempt from its lines, oldest first. */
export function foldEntry([{ kind: _, part, ...intent }, ...lines]: AttemptLines): Entry {
  const entry: Entry = { ...intent, state: "sending", status: "starting", ...(part && { parts: [part] }) };
  for (const line of lines) addLine(entry, line);
  return entry;
}

/** Updates an entry with a later line. */
export function addLine(entry: Entry, line: DatedLine): void {
  fold(entry, line);
  entry.status = statusOf(entry.state, { isDismissed: entry.dismissed, isRemoved: entry.removed });
}

function fold(entry: Entry, line: DatedLine): void {
  const stateBefore = entry.state;
  const hadId = entry.id !== undefined;
  // The first id of an attempt is always kept, because its video may have been paid for.
  if ("attempt" in line && "id" in line && line.id !== undefined) entry.id ??= line.id;
  switch (line.kind) {
    case "accepted":
      entry.state = nextState(stateBefore, line.kind);
      entry.credits = line.credits;
      entry.balance_fell = line.balance_fell;
      entry.remaining_credits = line.remaining_credits;
      break;
    case "refused":
    case "unsent":
    case "unknown":
    case "unclear":
    case "failed":
      if (line.kind === "failed") entry.cost ??= line.cost;
      if ("resend_answered" in line && line.resend_answered) entry.resend_answered = true;
      entry.state = nextState(stateBefore, line.kind);
      if (entry.state === stateBefore) break;
      entry.reason = line.reason;
      entry.code = "code" in line ? line.code : undefined;
      break;
    case "newer":
      // With an id, the generation's state can be polled.
      if (!hadId) entry.state = "unknown";
      entry.reason = "a newer version of vidgen has written about it";
      break;
    case "dismissed":
      entry.dismissed = true;
      break;
    case "told":
      entry.told = true;
      break;
    case "removed":
      entry.removed = true;
      break;
    case "lost":
    case "found":
      entry.state = nextState(stateBefore, line.kind);
      break;
    case "completed":
      entry.cost ??= line.cost;
      entry.state = nextState(stateBefore, line.kind);
      if (entry.state !== stateBefore && line.watched) entry.took_ms = Date.parse(line.at) - Date.parse(entry.at);
      if (line.paused) entry.paused = true;
      break;
    case "part":
      if (!entry.parts?.includes(line.file)) entry.parts = [...(entry.parts ?? []), line.file];
      break;
    case "downloaded":
      entry.content = parseContent(line);
      break;
    case "delivered":
      entry.state = nextState(stateBefore, line.kind);
      if (line.file === undefined) break;
      entry.file = line.file;
      entry.content = parseContent(line) ?? entry.content;
      break;
  }
  // The reason of an earlier refusal or failure no longer applies.
  if (entry.state !== stateBefore && (isUndelivered(entry) || entry.state === "delivered")) {
    delete entry.reason;
    delete entry.code;
  }
}

/** Whether an attempt's generation is running, or has a result that was not delivered. */
export function isUndelivered({ state, removed = false }: Pick<Entry, "state" | "removed">): boolean {
  return !removed && (state === "running" || state === "ready");
}

/** Whether the user has dismissed an attempt, or deleted its video, so that later starts of the same request ignore it. */
export function isClosed({ dismissed = false, removed = false }: Pick<Entry, "dismissed" | "removed">): boolean {
  return dismissed || removed;
}

/**
 * Whether a start must consider an attempt at any age. Not for rows of a batch, callers' keys and agents,
 * which are found in other ways.
 */
export function isUnfinished(entry: Entry): boolean {
  if (isClosed(entry)) return false;
  if (entry.batch !== undefined || entry.mcp || entry.key !== undefined) return false;
  return blocksRestart(entry.state) || (isUndelivered(entry) && !isIdHandedOver(entry));
}

/** Whether a generation is running, and its id was returned to a caller who does not wait. */
export function isIdHandedOver({ state, no_wait = false, told = false }: Entry): boolean {
  return state === "running" && no_wait && told;
}

/** An attempt and how long ago it was started, in milliseconds. */
export type DatedEntry = { entry: Entry; ageMs: number };

/** How much the clocks of machines that share a journal may differ. */
const clockErrorMs = 10 * 60_000;
/** No attempt is older than vidgen. A machine whose clock was never set says 1970. */
const earliestTime = Date.UTC(2025, 0, 1);

/**
 * The ages of entries, newest first. If their order contradicts their times, a clock was wrong, and such an
 * attempt counts as new.
 */
export function datedEntries(entries: readonly Entry[], now: Date): DatedEntry[] {
  let latest = earliestTime;
  const oldestFirst = entries.toReversed().map((entry): DatedEntry => {
    const time = Date.parse(entry.at);
    const ageMs = now.getTime() - time;
    const isPlausible = time >= latest - clockErrorMs && ageMs >= -clockErrorMs;
    if (isPlausible) latest = Math.max(latest, time);
    return { entry, ageMs: isPlausible ? ageMs : 0 };
  });
  return oldestFirst.reverse();
}

/** How long `--reuse` accepts a delivered generation; unfinished ones have no age limit. */
export const reusableMs = 24 * 3600_000;

/**
 * A request in the form that the journal keeps, which is enough to recognize it. What may be secret is
 * replaced by a hash (see `hideSecrets`). The prompt and the model are unchanged.
 */
export function recordOf({ prompt, model, ...fields }: StartRequest): StartRequest {
  return { prompt, model, ...hideFields(JSON.parse(JSON.stringify(fields))) };
}

function hideFields(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, hideSecrets(name, value)]));
}

/** A request as older versions recorded it, whatever the names of its fields are. The key of a row depends on it. */
export function olderRecordOf({ prompt, model, ...fields }: StartRequest): StartRequest {
  const text = JSON.stringify(fields, (_, value) =>
    typeof value === "string" && mayBeSecret(value) ? hashText(value) : value,
  );
  return { prompt, model, ...JSON.parse(text) };
}

/** A request without its image, to compare requests whose image is the frame of a video. */
export function withoutImage({ imageUrl: _, imageUrls: __, ...request }: StartRequest): StartRequest {
  return request;
}

/** The account of a key at a service, as a short hash that distinguishes two accounts without revealing the key. */
export function accountOf(baseUrl: string, apiKey: string): string {
  return createHash("sha256")
    .update(`${new URL(baseUrl).origin} ${apiKey}`)
    .digest("hex")
    .slice(0, 12);
}

/** Whether an account pays for an attempt or an entry. */
export function isPaidBy(account: string, each: { account?: string | undefined }): boolean {
  return each.account === account;
}

/** The minimum number of values for a median. */
const minSamples = 3;

/**
 * How long a video of the same model and kind, preview or real, typically takes, in milliseconds: the median
 * of the entries that were polled from start to end without a pause; `undefined` if there are fewer than
 * three.
 */
export function typicalMs(
  entries: Entry[],
  { request: { model }, is_preview }: Pick<Entry, "request" | "is_preview">,
): number | undefined {
  const times = entries
    .filter((entry) => entry.request.model === model && entry.is_preview === is_preview && !entry.paused)
    .flatMap(({ took_ms }) => took_ms ?? [])
    .sort((a, b) => a - b);
  if (times.length < minSamples) return undefined;
  const [low = 0, high = 0] = [times[Math.floor((times.length - 1) / 2)], times[Math.floor(times.length / 2)]];
  return (low + high) / 2;
}
