import { createHash } from "node:crypto";
import type { CommandErrorCode } from "../../errors.ts";
import { isRecord } from "../../protocol/json.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { nextState, type State, type Status, statusOf, stopsOthers } from "./attempt.ts";
import { type Content, parseContent } from "./content.ts";
import type { FileIdentity } from "./identity.ts";
import type { Version } from "./version.ts";

/** What the journal holds, and a batch's results file, one JSON object a line. It never holds an API key. `attempt` is a UUID. */
export type JournalLine =
  | RunLine
  | FilmLine
  | IntentLine
  /** `credits` is the cost that the service stated. Without it only the fall of the balance is known, which may include what others spent. */
  | {
      kind: "accepted";
      attempt: string;
      id: string;
      credits?: number | undefined;
      balance_fell?: number | undefined;
      remaining_credits?: number | undefined;
    }
  /** `id` is set when the answer named a generation without accepting the start. */
  | {
      kind: "refused" | "unsent" | "unknown";
      attempt: string;
      id?: string | undefined;
      reason: string;
      code?: CommandErrorCode | undefined;
    }
  /** A line of a newer version about an attempt, whose state is therefore unknown. Never written. */
  | { kind: "newer"; attempt: string; id?: string | undefined }
  /** The user has dealt with the attempt: it no longer stops another start. */
  | { kind: "dismissed"; attempt: string }
  /** The id of an attempt that is not waited for was handed to its caller. */
  | { kind: "told"; attempt: string }
  /**
   * `watched` is set when an earlier poll saw it running: then `at` is about the time of its end. `paused` is set where nothing may have worked
   * on it for a while: the local service ends with its command.
   */
  | {
      kind: "completed";
      id: string;
      watched?: boolean | undefined;
      paused?: boolean | undefined;
      cost?: number | undefined;
    }
  /** `code` is set when nothing was charged, `cost` where the service says that it was charged all the same. */
  | {
      kind: "failed";
      id: string;
      reason: string;
      code?: CommandErrorCode | undefined;
      cost?: number | undefined;
    }
  /** The service itself does not know whether it is made and charged: its request to an engine got no usable response. */
  | { kind: "unclear"; id: string; reason: string }
  /** The service has accepted it, and no longer knows it. */
  | { kind: "lost"; id: string }
  /** The service says that it is running, which was not known, or had been lost. */
  | { kind: "found"; id: string }
  /** The service has deleted its video, as the user asked. */
  | { kind: "removed"; id: string }
  /** A partial file of its video, and the version that it holds the beginning of; the newest line about a file counts. */
  | PartLine
  /** The video is whole, and its file is about to get its name. */
  | ({ kind: "downloaded"; id: string } & Content)
  /** Its result was handed over: as a file ("-" is standard output), or without one as its URL. */
  | ({ kind: "delivered"; id: string; file?: string | undefined } & Partial<Content>)
  | UnfinishedLine;

/** Before the request that costs money. `place` is `-o` as it was typed, and `path` the absolute path for it. */
export type IntentLine = Partial<Take> & {
  kind: "intent";
  attempt: string;
  /** The Idempotency-Key that the caller gave; without one it is the attempt's name. */
  key?: string | undefined;
  /** The attempt whose Idempotency-Key is sent again. */
  resend_of?: string | undefined;
  base_url: string;
  /** The account that pays, as `accountOf` gives it. */
  account: string;
  /** As `recordOf` gives it. */
  request: StartRequest;
  place?: string | undefined;
  path?: string | undefined;
  /** The partial file of its video, whose place is claimed. */
  part?: string | undefined;
  /** The process does not wait for the generation. */
  no_wait?: boolean | undefined;
  /** The results file of the batch that it is started for, and its row there. */
  batch?: string | undefined;
  row?: string | undefined;
  /** Where the row was in its file. */
  line?: number | undefined;
  /** The file that has the row. */
  rows_file?: FileIdentity | undefined;
  /** An AI agent has started it, through `vidgen mcp`. */
  mcp?: boolean | undefined;
  /** Whether its video is a preview; absent where the service does not say. */
  is_preview?: boolean | undefined;
  /** What makes the video: the value of `--engine`. */
  engine?: readonly string[] | undefined;
  /** The id of the generation whose request it repeats: `again`. */
  parent?: string | undefined;
  /** The id of the generation whose last frame it begins with. */
  from?: string | undefined;
  /** The hash of the command line that was typed. */
  typed?: string | undefined;
};

/** One of several generations that one command line starts, such as `-n 3`. */
export type Take = {
  /** The name of the run, a UUID. */
  run: string;
  /** Which one it is, of how many: from 1 on. */
  position: number;
  count: number;
};

/** A run of a batch begins: only in its results file, which says by this line which rows it is about. */
export type RunLine = {
  kind: "batch";
  /** The rows file as a path relative to the results file; "" or "-" if the rows did not come from a file. */
  file: string;
  rows: number;
  total: number;
  /** Which part of the rows file, such as "2/8". */
  shard: string | null;
  /** The base URL of the service that makes them. */
  service: string;
  /** Of the rows file; see `FileIdentity`. */
  inode?: number | undefined;
  born?: number | undefined;
  /** The path by which the run knew the results file. */
  results: string;
};

/** The videos of a batch are joined, and the film is about to get its name: only in its results file. */
export type FilmLine = Content & {
  kind: "film";
  file: string;
  /** The hash of what it is joined from, as `hashClips` gives it. */
  clips: string;
  copied: boolean;
  frames: number;
  seconds: number;
};

/** `inode` is set from the first byte on: another program may put a file of its own there. */
export type PartLine = Version & { kind: "part"; file: string; inode?: number | undefined } & (
    | { attempt: string }
    | { id: string }
  );

/**
 * A copy of all lines before a byte of the journal that are about unfinished attempts, the oldest first: a start reads no further back than
 * that byte. `next` is how the line at that byte begins: where it differs, somebody has edited the file, and the copy does not count.
 */
export type UnfinishedLine = { kind: "unfinished"; end: number; next: string; lines: DatedLine[] };

export type DatedLine = JournalLine & { at: string };

/** The fields of each line that must be there, as text. */
const fields: Record<JournalLine["kind"], readonly string[]> = {
  batch: ["file", "service", "results"],
  film: ["file", "clips", "sha256"],
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
  unfinished: ["next"],
};

/**
 * `undefined` for a line that cannot be read, such as one that a crash has torn. A line of a newer version about an attempt is `newer`. Not
 * zod: a long journal has 400,000 lines.
 */
export function parseLine(text: string): DatedLine | undefined {
  try {
    // Some editors put a byte order mark at the beginning of a file.
    return readLine(JSON.parse(text.startsWith("\ufeff") ? text.slice(1) : text));
  } catch {
    return undefined;
  }
}

function readLine(line: unknown): DatedLine | undefined {
  if (!isRecord(line) || typeof line.at !== "string") return undefined;
  if (!Object.hasOwn(fields, String(line.kind))) return readNewer(line);
  if (!fields[line.kind as JournalLine["kind"]].every((field) => typeof line[field] === "string"))
    return readNewer(line);
  if (line.kind === "part" && typeof (line.attempt ?? line.id) !== "string") return undefined;
  if (line.kind === "intent") {
    if (!URL.canParse(String(line.base_url))) return undefined;
    line.request = readRequest(line.request);
  }
  if (line.kind === "batch") {
    if (![line.rows, line.total].every(Number.isSafeInteger)) return undefined;
    if (line.shard !== null && typeof line.shard !== "string") return undefined;
  }
  if (line.kind === "unfinished") {
    if (!Number.isSafeInteger(line.end) || !Array.isArray(line.lines)) return undefined;
    line.lines = line.lines.map(readLine);
    if ((line.lines as unknown[]).includes(undefined)) return undefined;
  }
  return line as DatedLine;
}

function readNewer({ attempt, id, at }: Record<string, unknown>): DatedLine | undefined {
  if (typeof attempt !== "string") return undefined;
  return { kind: "newer", attempt, id: typeof id === "string" ? id : undefined, at: String(at) };
}

/** A prompt or a model of the wrong type reads as text, since it is only shown. */
function readRequest(request: unknown): StartRequest {
  const { prompt = "", model = "", ...rest } = isRecord(request) ? request : {};
  return { ...rest, prompt: asText(prompt), model: asText(model) };
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** One attempt to start a generation, and the generation where it has one: the sum of its lines. */
export type Entry = Omit<IntentLine, "kind" | "part"> & {
  /** When it was started; ISO 8601, UTC. */
  at: string;
  /** What it cost in USD, where the service has stated it. */
  cost?: number | undefined;
  /** What it cost in credits, where the service has stated it. */
  credits?: number | undefined;
  /** Where the service states no cost: by how much the balance fell, if that is known. Others may have spent too. */
  balance_fell?: number | undefined;
  /** `sending` while the request is out; it stays so when the process died before the outcome was written. */
  state: State;
  /** The word for that. */
  status: Status;
  id?: string;
  remaining_credits?: number | undefined;
  /** From its start to its end, in milliseconds; set when this machine polled it until then. */
  took_ms?: number;
  /** Whether nothing may have worked on it for a part of that time. */
  paused?: boolean;
  /** Why it was refused, is unknown, or failed. */
  reason?: string;
  code?: CommandErrorCode | undefined;
  /** Another start passes it over. */
  dismissed?: boolean;
  /** The service has deleted its video. */
  removed?: boolean;
  /** Its id was handed to the caller, who does not wait for it. */
  told?: boolean;
  /** The absolute paths of the partial files that its processes have claimed. */
  parts?: string[];
  /** Where it was saved; "-" for standard output. */
  file?: string;
  /** What a file that holds its video is known by. */
  content?: Content | undefined;
};

/** The Idempotency-Key of an attempt: its caller's, that of the attempt that it sends again, or its own name. */
export function keyOf({ key, resend_of, attempt }: Pick<Entry, "key" | "resend_of" | "attempt">): string {
  return key ?? resend_of ?? attempt;
}

/**
 * Takes the lines one by one, the newest first, and returns all lines about an attempt, the oldest first, with its oldest one, the intent.
 */
export function createGrouping(): (line: DatedLine) => AttemptLines | undefined {
  // Two maps: an attempt may have the name of another attempt's generation, such as one that an early version named by a caller's key.
  const ofAttempts = createLater();
  const ofIds = createLater();
  return (line) => {
    if (line.kind === "unfinished" || line.kind === "batch" || line.kind === "film") return undefined;
    if (line.kind === "intent") return [line, ...ofAttempts.take(line.attempt).reverse()];
    if ("attempt" in line) {
      // From here on, lines about this id are about this attempt.
      if ("id" in line && line.id !== undefined)
        for (const each of ofIds.take(line.id)) ofAttempts.add(line.attempt, each);
      ofAttempts.add(line.attempt, line);
    } else ofIds.add(line.id, line);
    return undefined;
  };
}

/** The attempts that all of these lines are about, the newest first, as the lines are. */
export function groupLines(lines: Iterable<DatedLine>): AttemptLines[] {
  const group = createGrouping();
  const attempts: AttemptLines[] = [];
  for (const line of lines) {
    const found = group(line);
    if (found) attempts.push(found);
  }
  return attempts;
}

export type AttemptLines = [intent: IntentLine & { at: string }, ...later: DatedLine[]];

/** The lines about each name that come later in the journal, the newest first. */
function createLater() {
  const later = new Map<string, DatedLine[]>();
  return {
    add(name: string, line: DatedLine) {
      const lines = later.get(name);
      if (lines) lines.push(line);
      else later.set(name, [line]);
    },
    take(name: string) {
      const lines = later.get(name) ?? [];
      later.delete(name);
      return lines;
    },
  };
}

/** An attempt from its lines, the oldest first. */
export function foldEntry([{ kind: _, part, ...intent }, ...lines]: AttemptLines): Entry {
  const entry: Entry = { ...intent, state: "sending", status: "starting", ...(part && { parts: [part] }) };
  for (const line of lines) addLine(entry, line);
  return entry;
}

/** Adds what a later line says. */
export function addLine(entry: Entry, line: DatedLine): void {
  fold(entry, line);
  entry.status = statusOf(entry.state, { isDismissed: entry.dismissed, isRemoved: entry.removed });
}

function fold(entry: Entry, line: DatedLine): void {
  const before = entry.state;
  const hadId = entry.id !== undefined;
  // The first id of an attempt stays, and is kept whatever was decided about the attempt: its video may have been paid for.
  if ("attempt" in line && "id" in line && line.id !== undefined) entry.id ??= line.id;
  switch (line.kind) {
    case "accepted":
      entry.state = nextState(before, line.kind);
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
      entry.state = nextState(before, line.kind);
      if (entry.state === before) break;
      entry.reason = line.reason;
      entry.code = "code" in line ? line.code : undefined;
      break;
    case "newer":
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
      entry.state = nextState(before, line.kind);
      break;
    case "completed":
      entry.cost ??= line.cost;
      entry.state = nextState(before, line.kind);
      if (entry.state !== before && line.watched) entry.took_ms = Date.parse(line.at) - Date.parse(entry.at);
      if (line.paused) entry.paused = true;
      break;
    case "part":
      if (!entry.parts?.includes(line.file)) entry.parts = [...(entry.parts ?? []), line.file];
      break;
    case "downloaded":
      entry.content = parseContent(line);
      break;
    case "delivered":
      entry.state = nextState(before, line.kind);
      if (line.file === undefined) break;
      entry.file = line.file;
      entry.content = parseContent(line) ?? entry.content;
      break;
  }
  // An attempt that runs, or has its video, is no longer refused, unknown or failed.
  if (entry.state !== before && (isOpen(entry) || entry.state === "delivered")) {
    delete entry.reason;
    delete entry.code;
  }
}

/** Whether it still runs, or its result was not delivered. */
export function isOpen({ state, removed = false }: Pick<Entry, "state" | "removed">): boolean {
  return !removed && (state === "running" || state === "ready");
}

/** Whether a start may have to do something about it however old it is. Rows of a batch have their results file; keys and agents search. */
export function isUnfinished(entry: Entry): boolean {
  if (entry.dismissed || entry.removed) return false;
  if (entry.batch !== undefined || entry.mcp || entry.key !== undefined) return false;
  return stopsOthers(entry.state) || (isOpen(entry) && !isIdHandedOver(entry));
}

/** Whether it runs for a caller who does not wait, and has its id. */
export function isIdHandedOver({ state, no_wait = false, told = false }: Entry): boolean {
  return state === "running" && no_wait && told;
}

/** An attempt and how long ago it was started, in milliseconds. */
export type Dated = { entry: Entry; ageMs: number };

/** The clocks of machines that share a journal may differ by as much. */
const clockErrorMs = 10 * 60_000;
/** No attempt is older than vidgen: a machine whose clock was not set says 1970. */
const firstTime = Date.UTC(2025, 0, 1);

/**
 * The ages of entries, newest first. Where their order contradicts their times, a clock was wrong when they were written: such an attempt
 * may be of this minute, and counts as new.
 */
export function datedEntries(entries: readonly Entry[], now: Date): Dated[] {
  let latest = firstTime;
  const oldestFirst = entries.toReversed().map((entry): Dated => {
    const time = Date.parse(entry.at);
    const ageMs = now.getTime() - time;
    const isPlausible = time >= latest - clockErrorMs && ageMs >= -clockErrorMs;
    if (isPlausible) latest = Math.max(latest, time);
    return { entry, ageMs: isPlausible ? ageMs : 0 };
  });
  return oldestFirst.reverse();
}

/** How long `--reuse` accepts a generation that was delivered; what is unfinished has no age limit. */
export const reusableMs = 24 * 3600_000;

/**
 * A request as the journal keeps it, enough to recognise it again: an address with a query or a password, or an image, may be a secret, and
 * is replaced by a hash. The prompt and the model are kept unchanged.
 */
export function recordOf({ prompt, model, ...fields }: StartRequest): StartRequest {
  const text = JSON.stringify(fields, (_, value) =>
    typeof value === "string" && isSecret(value) ? hash(value) : value,
  );
  return { prompt, model, ...JSON.parse(text) };
}

/** A request without its image, to compare two that begin with the frame of a video: the image follows from the video. */
export function withoutImage({ imageUrl: _, imageUrls: __, ...request }: StartRequest): StartRequest {
  return request;
}

function isSecret(value: string): boolean {
  if (/^data:/i.test(value)) return true;
  if (!/^https?:/i.test(value) || /\s/.test(value) || !URL.canParse(value)) return false;
  const { username, password, search } = new URL(value);
  return username + password + search !== "";
}

function hash(value: string): string {
  return `sha256:${createHash("sha256").update(value).digest("base64url")}`;
}

/** Whether a value of a request in the journal is the hash of what was sent. */
export function isHash(value: unknown): boolean {
  return typeof value === "string" && /^sha256:[\w-]{43}$/.test(value);
}

/** The account of a key at a service, as a short hash: it distinguishes two accounts without revealing the key. */
export function accountOf(baseUrl: string, apiKey: string): string {
  return createHash("sha256")
    .update(`${new URL(baseUrl).origin} ${apiKey}`)
    .digest("hex")
    .slice(0, 12);
}

/** Whether an account pays for an attempt. */
export function isPaidBy(account: string, each: { account?: string | undefined }): boolean {
  return each.account === account;
}

/** A median of fewer values says little. */
const minSamples = 3;

/**
 * How long a video of the same model and kind, preview or real, typically takes, in milliseconds: the median of the entries that were watched
 * from start to end, and worked on all that time; `undefined` when there are fewer than three.
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
