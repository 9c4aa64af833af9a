import { isDeepStrictEqual } from "node:util";
import * as z from "zod/mini";
import { VidgenError } from "../errors.ts";
import { parseJson, type StartRequest } from "./schema.ts";
import type { Version } from "./version.ts";

const text = z.string();
const at = z.iso.datetime();

/** A request as it was sent; a prompt or model of the wrong type reads as empty, since it is only shown. */
const sentRequest = z.looseObject({ prompt: z.catch(text, ""), model: z.catch(text, "") });

/** What the journal holds, one JSON object a line. It never holds a key. */
const lineSchema = z.discriminatedUnion("kind", [
  /** Before the request that costs money. `place` is `-o` as it was typed. */
  z.object({
    kind: z.literal("intent"),
    at,
    attempt: text,
    base_url: z.url(),
    request: sentRequest,
    place: z.optional(text),
  }),
  z.object({ kind: z.literal("accepted"), at, attempt: text, id: text, remaining_credits: z.optional(z.number()) }),
  z.object({ kind: z.enum(["refused", "unsent", "unknown"]), at, attempt: text, reason: text }),
  /** `watched` is set when an earlier poll saw it running: then `at` is about the time of its end. */
  z.object({ kind: z.literal("completed"), at, id: text, watched: z.optional(z.boolean()) }),
  z.object({ kind: z.literal("failed"), at, id: text, reason: text }),
  /** A `.part` file and the process that writes it. */
  z.object({ kind: z.literal("claim"), at, file: text, pid: z.number() }),
  /** What a `.part` file holds from here on; with a validator, an ETag or a date, the download can be resumed. */
  z.object({
    kind: z.literal("part"),
    at,
    id: text,
    file: text,
    etag: z.optional(text),
    last_modified: z.optional(text),
    total: z.optional(z.number()),
  }),
  z.object({ kind: z.literal("saved"), at, id: text, file: text }),
]);

export type DatedLine = z.infer<typeof lineSchema>;

type Undated<Dated> = Dated extends unknown ? Omit<Dated, "at"> : never;

/** A line to be written; the journal adds the time. */
export type Line = Undated<DatedLine>;

export function parseLines(text: string): DatedLine[] {
  return text.split("\n").flatMap((line) => parseLine(line) ?? []);
}

/** `undefined` for a line that cannot be read: torn by a crash, or written by a later version. */
export function parseLine(line: string): DatedLine | undefined {
  return line === "" ? undefined : lineSchema.safeParse(parseJson(line)).data;
}

/** One attempt to start a generation, and the generation where it has one: the sum of its lines. */
export type Entry = {
  attempt: string;
  /** When it was started; ISO 8601, UTC. */
  at: string;
  base_url: string;
  request: StartRequest;
  place?: string | undefined;
  /** `starting` while the request is out; it stays so when the process died before the outcome was written. */
  status: "starting" | "refused" | "unsent" | "unknown" | "processing" | "completed" | "failed";
  id?: string;
  remaining_credits?: number | undefined;
  /** From its start to its end, in milliseconds; set when this machine polled it until then. */
  took_ms?: number;
  /** Why it was refused, is unknown, or failed. */
  reason?: string;
  part?: Version & { file: string };
  /** Where it was saved. */
  file?: string;
};

/** Folds the lines into one entry for each attempt, oldest first. A generation that has ended does not change its status again. */
export function foldLines(lines: DatedLine[]): Entry[] {
  const attempts = new Map<string, Entry>();
  const ids = new Map<string, Entry>();
  for (const line of lines) {
    if (line.kind === "intent" && !attempts.has(line.attempt)) attempts.set(line.attempt, newEntry(line));
    let entry: Entry | undefined;
    if ("attempt" in line) entry = attempts.get(line.attempt);
    else if ("id" in line) entry = ids.get(line.id);
    if (!entry) continue;
    if (line.kind === "accepted") ids.set(line.id, entry);
    fold(entry, line);
  }
  return [...attempts.values()];
}

function newEntry({ attempt, at, base_url, request, place }: DatedLine & { kind: "intent" }): Entry {
  return { attempt, at, base_url, request, place, status: "starting" };
}

function fold(entry: Entry, line: DatedLine): void {
  const hasEnded = entry.status === "completed" || entry.status === "failed";
  switch (line.kind) {
    case "accepted":
      entry.id = line.id;
      entry.remaining_credits = line.remaining_credits;
      if (!hasEnded) entry.status = "processing";
      break;
    case "refused":
    case "unsent":
    case "unknown":
      if (entry.id !== undefined) break;
      entry.status = line.kind;
      entry.reason = line.reason;
      break;
    case "completed":
      if (hasEnded) break;
      entry.status = "completed";
      if (line.watched) entry.took_ms = new Date(line.at).getTime() - new Date(entry.at).getTime();
      break;
    case "failed":
      if (hasEnded) break;
      entry.status = "failed";
      entry.reason = line.reason;
      break;
    case "part":
      entry.part = { file: line.file, etag: line.etag, last_modified: line.last_modified, total: line.total };
      break;
    case "saved":
      entry.file = line.file;
      break;
  }
}

/** Whether it still runs, or its video was to be saved and is not. */
export function isOpen(entry: Entry): boolean {
  if (entry.id === undefined) return false;
  if (entry.status === "processing") return true;
  return entry.status === "completed" && entry.place !== undefined && entry.file === undefined;
}

/** An entry whose generation can be resumed. */
export type Reusable = Entry & { id: string };

const reusableMs = 24 * 3600 * 1000;

/**
 * The generation to resume instead of paying for the same request again: an entry of the last 24 hours that did not fail; `undefined` when
 * there is none. Throws `unknown` when an attempt at it may have been charged, but its id never came: starting another could pay twice.
 */
export function findReusable(entries: Entry[], request: StartRequest, now: Date): Reusable | undefined {
  const isSame = (entry: Entry) =>
    now.getTime() - new Date(entry.at).getTime() < reusableMs &&
    isDeepStrictEqual(entry.request, JSON.parse(JSON.stringify(request)));
  const earlier = entries.filter(isSame);
  const started = earlier.find(({ id, status }) => id !== undefined && status !== "failed");
  if (started?.id !== undefined) return { ...started, id: started.id };
  const unclear = earlier.find(({ status }) => status === "unknown" || status === "starting");
  if (!unclear) return undefined;
  const message = `The same request was sent ${unclear.at.slice(0, 16)}Z, and its id never came: it may have been charged (attempt ${unclear.attempt}).`;
  throw new VidgenError("unknown", message, {
    hint: "Nothing was sent now. Look at your account for that generation; without --reuse another is started, and paid for.",
  });
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
