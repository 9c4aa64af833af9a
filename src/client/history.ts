import { createHash } from "node:crypto";
import type { ErrorCode } from "../errors.ts";
import { type Content, parseContent } from "./content.ts";
import type { FileIdentity } from "./identity.ts";
import { isRecord } from "./json.ts";
import type { StartRequest } from "./schema.ts";
import type { Version } from "./version.ts";

/**
 * What the journal holds, one JSON object a line. It never holds a key. `holder` names the lease of the process that wrote the line: see
 * `Journal.hold`.
 */
export type JournalLine =
  /** Before the request that costs money. `place` is `-o` as it was typed. */
  | {
      kind: "intent";
      attempt: string;
      base_url: string;
      /** The account that pays, as `accountOf` gives it. */
      account?: string | undefined;
      /** As `recordOf` gives it. */
      request: StartRequest;
      place?: string | undefined;
      holder?: string | undefined;
      /** The process does not wait for the generation. */
      no_wait?: boolean | undefined;
      /** The results file of the batch that it is started for, and its row there. */
      batch?: string | undefined;
      row?: string | undefined;
      /** The file that has the row. */
      rows_file?: FileIdentity | undefined;
      /** An AI agent has started it, through `vidgen mcp`. */
      mcp?: boolean | undefined;
      /** Whether its video is a preview; absent where the service does not tell, and in lines of earlier versions. */
      is_preview?: boolean | undefined;
    }
  /** `credits` is what the service has stated that it cost. */
  | {
      kind: "accepted";
      attempt: string;
      id: string;
      credits?: number | undefined;
      remaining_credits?: number | undefined;
    }
  /** `id` is set when the answer named a generation without accepting the start. */
  | {
      kind: "refused" | "unsent" | "unknown";
      attempt: string;
      id?: string | undefined;
      reason: string;
      code?: ErrorCode | undefined;
    }
  /** Another process goes on with the attempt. */
  | { kind: "claim"; attempt: string; holder: string }
  /** A line of a newer version about an attempt: what has become of that is not known. Never written. */
  | { kind: "newer"; attempt: string; id?: string | undefined }
  /** The user has dealt with the attempt: it does not stop another start any more. */
  | { kind: "dismissed"; attempt: string }
  /** The id of an attempt that is not waited for was handed to its caller. */
  | { kind: "told"; attempt: string }
  /** `watched` is set when an earlier poll saw it running: then `at` is about the time of its end. */
  | { kind: "completed"; id: string; watched?: boolean | undefined; cost?: number | undefined }
  /** `code` is set when nothing was charged. */
  | { kind: "failed"; id: string; reason: string; code?: ErrorCode | undefined }
  /** The service itself cannot say whether it is made, and charged: its request to an engine got no usable response. */
  | { kind: "unclear"; id: string; reason: string }
  /** The service has accepted it, and no longer knows it. */
  | { kind: "lost"; id: string }
  /** Whose bytes a partial file holds from here on, and who writes it; the newest line about a file counts. */
  | PartLine
  /** The video is whole, and its file is about to get its name. */
  | ({ kind: "downloaded"; id: string } & Content)
  /** `file` is "-" for standard output. Lines of earlier versions have at most the size of the content. */
  | ({ kind: "saved"; id: string; file: string } & Partial<Content>)
  | UnfinishedLine;

export type PartLine = Version & {
  kind: "part";
  file: string;
  holder: string;
  /** Absent as long as the generation is not started. */
  id?: string | undefined;
  inode?: number | undefined;
};

/**
 * A copy of all lines before a byte of the journal that are about unfinished attempts, the oldest first: a start reads no further back than
 * that byte. `next` is how the line at that byte begins: where it differs, somebody has edited the file, and the copy does not count.
 */
export type UnfinishedLine = { kind: "unfinished"; end: number; next: string; lines: DatedLine[] };

export type DatedLine = JournalLine & { at: string };

/** The fields of each line that must be there, as text. */
const fields: Record<JournalLine["kind"], readonly string[]> = {
  intent: ["attempt", "base_url"],
  accepted: ["attempt", "id"],
  refused: ["attempt", "reason"],
  unsent: ["attempt", "reason"],
  unknown: ["attempt", "reason"],
  claim: ["attempt", "holder"],
  newer: ["attempt"],
  dismissed: ["attempt"],
  told: ["attempt"],
  completed: ["id"],
  failed: ["id", "reason"],
  unclear: ["id", "reason"],
  lost: ["id"],
  part: ["file", "holder"],
  downloaded: ["id", "sha256"],
  saved: ["id", "file"],
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
  if (line.kind === "intent") {
    if (!URL.canParse(String(line.base_url))) return undefined;
    line.request = readRequest(line.request);
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

/** How an attempt, or the generation that it has started, stands. */
export const statuses = [
  "starting",
  "processing",
  "completed",
  "failed",
  "lost",
  "unknown",
  "dismissed",
  "unsent",
  "refused",
] as const;

/** One attempt to start a generation, and the generation where it has one: the sum of its lines. */
export type Entry = {
  attempt: string;
  /** When it was started; ISO 8601, UTC. */
  at: string;
  /** What it cost in USD, where the service has told it. */
  cost?: number | undefined;
  /** What it cost in credits, where the service has stated it. */
  credits?: number | undefined;
  base_url: string;
  /** The account that pays; absent in lines of earlier versions. */
  account?: string | undefined;
  request: StartRequest;
  place?: string | undefined;
  no_wait?: boolean | undefined;
  /** The results file of the batch that it belongs to, and its row there. */
  batch?: string | undefined;
  row?: string | undefined;
  rows_file?: FileIdentity | undefined;
  /** An AI agent has started it. */
  mcp?: boolean | undefined;
  /** Whether its video is a preview, where that is known. */
  is_preview?: boolean | undefined;
  /** The lease of the process that started it, or went on with it. */
  holder?: string | undefined;
  /** `starting` while the request is out; it stays so when the process died before the outcome was written. */
  status: (typeof statuses)[number];
  id?: string;
  remaining_credits?: number | undefined;
  /** From its start to its end, in milliseconds; set when this machine polled it until then. */
  took_ms?: number;
  /** Why it was refused, is unknown, or failed. */
  reason?: string;
  code?: ErrorCode | undefined;
  /** Another start passes it over. */
  dismissed?: boolean;
  /** Its id was handed to the caller, who does not wait for it. */
  told?: boolean;
  /** Where it was saved; "-" for standard output. */
  file?: string;
  /** The size of that file, in bytes. */
  size?: number | undefined;
  /** What a file that holds its video is known by; absent when an earlier version has saved it. */
  content?: Content | undefined;
};

/**
 * Takes the lines one by one, the newest first, and returns all lines about an attempt, the oldest first, with its oldest one, the intent.
 */
export function createGrouping(): (line: DatedLine) => AttemptLines | undefined {
  // Two maps, because a caller's key may equal the id of another attempt's generation.
  const ofAttempts = createLater();
  const ofIds = createLater();
  return (line) => {
    if (line.kind === "unfinished" || line.kind === "part") return undefined;
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

export type AttemptLines = [intent: DatedLine & { kind: "intent" }, ...later: DatedLine[]];

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
export function foldEntry([intent, ...lines]: AttemptLines): Entry {
  const { attempt, at, base_url, account, request, place, no_wait, batch, row, rows_file, mcp, is_preview, holder } =
    intent;
  const entry: Entry = {
    attempt,
    at,
    base_url,
    account,
    request,
    place,
    no_wait,
    batch,
    row,
    rows_file,
    mcp,
    is_preview,
    holder,
    status: "starting",
  };
  for (const line of lines) fold(entry, line);
  return entry;
}

function fold(entry: Entry, line: DatedLine): void {
  switch (line.kind) {
    case "accepted":
      entry.id = line.id;
      entry.credits = line.credits;
      entry.remaining_credits = line.remaining_credits;
      entry.status = "processing";
      break;
    case "refused":
    case "unsent":
    case "unknown":
      if (entry.id !== undefined) break;
      // An id is kept whatever was decided about the attempt: its video may have been paid for.
      if (line.id !== undefined) entry.id = line.id;
      if (entry.dismissed) break;
      entry.status = line.kind;
      entry.reason = line.reason;
      entry.code = line.code;
      break;
    case "newer":
      if (line.id !== undefined) entry.id ??= line.id;
      if (entry.dismissed) break;
      if (entry.status !== "processing" && entry.status !== "completed") entry.status = "unknown";
      entry.reason = "a newer version of vidgen has written about it";
      break;
    case "claim":
      entry.holder = line.holder;
      break;
    case "dismissed":
      entry.dismissed = true;
      if (["starting", "unknown", "lost"].includes(entry.status)) entry.status = "dismissed";
      break;
    case "told":
      entry.told = true;
      break;
    case "completed":
      entry.cost ??= line.cost;
      if (entry.status === "completed") break;
      entry.status = "completed";
      if (line.watched) entry.took_ms = new Date(line.at).getTime() - new Date(entry.at).getTime();
      break;
    case "failed":
      if (entry.status === "completed") break;
      entry.status = "failed";
      entry.reason = line.reason;
      entry.code = line.code;
      break;
    case "unclear":
      if (["completed", "failed", "unknown"].includes(entry.status)) break;
      entry.status = entry.dismissed ? "dismissed" : "unknown";
      entry.reason = line.reason;
      break;
    case "lost":
      if (isOpen(entry)) entry.status = "lost";
      break;
    case "downloaded":
      entry.content = parseContent(line);
      break;
    case "saved":
      entry.file = line.file;
      entry.size = line.size;
      entry.content = parseContent(line) ?? entry.content;
      break;
  }
}

/** Whether it still runs, or its video was to be saved and is not. */
export function isOpen(entry: Entry): boolean {
  if (entry.id === undefined) return false;
  if (entry.status === "processing") return true;
  return entry.status === "completed" && entry.place !== undefined && entry.file === undefined;
}

/** Whether a run of the same request has to resume it: an id that its caller has, and does not wait for, is the caller's business. */
export function isAwaited(entry: Entry): boolean {
  return isOpen(entry) && !(entry.no_wait && entry.told);
}

/** Whether a start may have to do something about it however old it is. Rows of a batch have their results file, and agents search. */
export function isUnfinished(entry: Entry): boolean {
  if (entry.dismissed || entry.batch !== undefined || entry.mcp) return false;
  return isAwaited(entry) || ["starting", "unknown", "lost"].includes(entry.status);
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

/** For so long `--reuse` takes a generation that has its result; nothing unfinished has an age. */
export const reusableMs = 24 * 3600_000;

/**
 * A request as the journal keeps it, enough to recognise it again: an address with a query or a password, or an image, may be a secret, and
 * is replaced by a hash. The prompt and the model are kept as they are.
 */
export function recordOf({ prompt, model, ...fields }: StartRequest): StartRequest {
  const text = JSON.stringify(fields, (_, value) =>
    typeof value === "string" && isSecret(value) ? hash(value) : value,
  );
  return { prompt, model, ...JSON.parse(text) };
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

/** The account that a key stands for at a service, by a short hash: it tells two accounts apart, and does not give the key away. */
export function accountOf(baseUrl: string, apiKey: string): string {
  return createHash("sha256")
    .update(`${new URL(baseUrl).origin} ${apiKey}`)
    .digest("hex")
    .slice(0, 12);
}

/** Whether an account pays for an attempt; yes where an earlier version has written nothing about that. */
export function isPaidBy(account: string, each: { account?: string | undefined }): boolean {
  return each.account === undefined || each.account === account;
}

/** A median of fewer says little. */
const minSamples = 3;

/**
 * How long a model typically takes, in milliseconds: the median of the entries that were watched from start to end; `undefined` when there
 * are fewer than three.
 */
export function typicalMs(entries: Entry[], model: string): number | undefined {
  const times = entries
    .filter(({ request }) => request.model === model)
    .flatMap(({ took_ms }) => took_ms ?? [])
    .sort((a, b) => a - b);
  if (times.length < minSamples) return undefined;
  const [low = 0, high = 0] = [times[Math.floor((times.length - 1) / 2)], times[Math.floor(times.length / 2)]];
  return (low + high) / 2;
}
