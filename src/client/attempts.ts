import { isDeepStrictEqual } from "node:util";
import { usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { isLoopback } from "./credentials.ts";
import { type Entry, isOpen } from "./history.ts";
import type { Journal } from "./journal.ts";
import type { StartRequest } from "./schema.ts";

/**
 * What a start does about earlier attempts at the same: `resume` goes on with one that was interrupted; `reuse` goes on with any generation
 * of the same request that did not fail; `again` starts a new one, and dismisses those that it passes over.
 */
export type Earlier = "resume" | "reuse" | "again";

/** An attempt whose generation has an id. */
export type StartedEntry = Entry & { id: string };

/** What a start does next. */
export type Choice =
  | { kind: "resume"; entry: StartedEntry }
  /** A live process is starting it, or one elsewhere may have ended: another look tells. */
  | { kind: "wait"; entry: Entry }
  /** `dismissed` are passed over for good; `older` is still open, but too old to be resumed. */
  | {
      kind: "new";
      dismissed: Entry[];
      older?: StartedEntry | undefined;
      /** It may have been charged already, and the service knows its key. */
      mayBeCharged?: boolean;
    };

export type Wanted = {
  /** As the journal keeps it. */
  request: StartRequest;
  /** `-o` as it was typed. */
  outputPath: string | undefined;
  earlier: Earlier;
  /** Only attempts of AI agents count for one, and never for anybody else. */
  mcp?: boolean | undefined;
  isPreview?: boolean | undefined;
  now: Date;
  isHeld(holder: string): Promise<boolean | "unsure">;
  /** Whether the service has said that it knows the key of an unclear start. */
  keepsKeys?: boolean | undefined;
};

/** How long an interrupted run is the same run. */
const resumableMs = 12 * 3600_000;
const reusableMs = 24 * 3600_000;
/** An attempt has an outcome after this time: a request that was sent, and retried, takes up to 4 minutes. */
const startingMs = 5 * 60_000;

/** Whether one of the entries, newest first, may matter to `chooseAttempt`. */
export function hasRecent(entries: readonly Entry[], now: Date): boolean {
  return datedEntries(entries, now).some(({ ageMs }) => ageMs < reusableMs);
}

/**
 * Chooses from the attempts of one service, newest first, by the rules of the same run. Throws `unknown` when one of them may have been
 * charged and its id never came: then another start could pay twice; and `not_found` when the service has lost the generation of one.
 */
export async function chooseAttempt(entries: readonly Entry[], wanted: Wanted): Promise<Choice> {
  const { request, outputPath, earlier, now, isHeld, isPreview } = wanted;
  // Attempts of a batch belong to its rows.
  const isOwn = (entry: Entry) => entry.batch === undefined && (entry.mcp ?? false) === (wanted.mcp ?? false);
  const isSame = (entry: Entry) =>
    isOwn(entry) && !isOtherMaking(entry.is_preview, isPreview) && isDeepStrictEqual(entry.request, request);
  const same = datedEntries(entries, now).filter(({ entry }) => !entry.dismissed && isSame(entry));
  if (earlier === "reuse") return chooseReusable(same, isHeld);
  // A video that was paid for and is not saved may go to any place.
  const sameRun = same.filter(
    ({ entry }) => entry.place === outputPath || (entry.status === "completed" && isOpen(entry)),
  );
  const dismissed: Entry[] = [];
  for (const { entry } of sameRun.filter(({ ageMs }) => ageMs < resumableMs).reverse()) {
    const isLost = entry.status === "lost";
    const isUnknown = await hasEnded(entry, isHeld);
    const isWaitedFor = isOpen(entry) && !entry.no_wait;
    const held = (isWaitedFor || entry.status === "starting") && (await isHeldBy(entry, isHeld));
    const isResumable = isWaitedFor && held === false;
    if (earlier === "again") {
      if (isUnknown || isLost || isResumable) dismissed.push(entry);
    } else if (isUnknown) throw unclearError(entry);
    else if (isLost) throw lostError(entry);
    else if (held === "unsure") return { kind: "wait", entry };
    else if (isResumable && isStarted(entry)) return { kind: "resume", entry };
  }
  const older = sameRun
    .filter(({ entry, ageMs }) => ageMs >= resumableMs && isOpen(entry))
    .map(({ entry }) => entry)
    .find(isStarted);
  return { kind: "new", dismissed, older };
}

/**
 * Chooses from the attempts with the name that a program gave its start, newest first: it stands for one start for ever, whatever has become of
 * that. One that certainly was not charged may be sent again. Throws `unknown` as `chooseAttempt` does, and `usage` for another request.
 */
export async function chooseNamed(
  entries: readonly Entry[],
  { request, isHeld, keepsKeys }: Pick<Wanted, "request" | "isHeld" | "keepsKeys">,
): Promise<Choice> {
  const entry = entries.find(({ dismissed }) => !dismissed);
  if (entry === undefined) return { kind: "new", dismissed: [] };
  const { attempt, id, status } = entry;
  if (!isDeepStrictEqual(entry.request, request))
    throw usage(`The idempotency key ${attempt} was used for another request. Nothing was sent.`);
  if (id !== undefined && status !== "refused" && status !== "unknown")
    return { kind: "resume", entry: { ...entry, id } };
  if (status === "unsent" || (status === "refused" && id === undefined)) return { kind: "new", dismissed: [] };
  if (status === "starting" && !(await hasEnded(entry, isHeld))) return { kind: "wait", entry };
  if (keepsKeys) return { kind: "new", dismissed: [], mayBeCharged: true };
  throw unclearError(entry);
}

/** A preview is not the same as a real video; where one of them is not known they may be the same. */
export function isOtherMaking(one: boolean | null | undefined, other: boolean | null | undefined): boolean {
  return typeof one === "boolean" && typeof other === "boolean" && one !== other;
}

async function chooseReusable(same: readonly Dated[], isHeld: Wanted["isHeld"]): Promise<Choice> {
  const recent = same.filter(({ ageMs }) => ageMs < reusableMs);
  const started = recent.map(({ entry }) => entry).find(isStarted);
  if (started) return { kind: "resume", entry: started };
  for (const { entry } of recent) {
    if (await hasEnded(entry, isHeld)) throw unclearError(entry);
    if (entry.status === "lost") throw lostError(entry);
    if (entry.status === "starting") return { kind: "wait", entry };
  }
  return { kind: "new", dismissed: [] };
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

/** The same by whether the process has ended alone: further looks tell that, while the clocks of two machines may differ by hours. */
function hasEnded(entry: Entry, isHeld: Wanted["isHeld"]): Promise<boolean> {
  return isUnclear({ entry, ageMs: 0 }, isHeld);
}

/** Whether an attempt may have been charged although its id is unknown: its process has ended, or takes too long and may have ended. */
export async function isUnclear({ entry, ageMs }: Dated, isHeld: Wanted["isHeld"]): Promise<boolean> {
  if (entry.status === "unknown") return true;
  if (entry.status !== "starting") return false;
  const held = await isHeldBy(entry, isHeld);
  return held === false || (held === "unsure" && ageMs >= startingMs);
}

export async function isHeldBy({ holder }: Entry, isHeld: Wanted["isHeld"]): ReturnType<Wanted["isHeld"]> {
  return holder !== undefined && isHeld(holder);
}

type ListOptions = {
  status?: Entry["status"] | undefined;
  limit: number;
  /** Whether only those of services on this machine are wanted. */
  local?: boolean | undefined;
  /** Whether an attempt is wanted otherwise. */
  isMeant?(entry: Entry): boolean;
};

/** The newest attempts in the journal. One that was killed while its request was out is `unknown`. */
export async function listAttempts(
  { status, limit, local, isMeant = () => true }: ListOptions,
  journal: Pick<Journal, "entries" | "lock" | "isHeld">,
  { date }: Pick<Io, "date">,
): Promise<Entry[]> {
  const isWanted = (entry: Entry) =>
    (status === undefined || status === entry.status || entry.status === "starting") &&
    (!local || isLoopback(new URL(entry.base_url).hostname)) &&
    isMeant(entry);
  let missing = limit;
  const entries = await journal.entries((part) => {
    missing -= part.filter((entry) => isWanted(entry) && entry.status !== "starting").length;
    return missing > 0;
  });
  const wanted = entries.filter(isWanted);
  // A journal that can be read, but not written, is shown as it is.
  const settled = await settleStarting(wanted, journal, date()).catch(() => wanted);
  return settled.filter((entry) => status === undefined || entry.status === status).slice(0, limit);
}

async function settleStarting(
  entries: Entry[],
  { lock, isHeld }: Pick<Journal, "lock" | "isHeld">,
  now: Date,
): Promise<Entry[]> {
  if (!entries.some(({ status }) => status === "starting")) return entries;
  return lock(async () => {
    const settled: Entry[] = [];
    for (const dated of datedEntries(entries, now)) {
      const isUnknown = await isUnclear(dated, isHeld);
      settled.push(isUnknown ? { ...dated.entry, status: "unknown" } : dated.entry);
    }
    return settled;
  });
}

/** Whether an attempt has a generation, as far as the journal knows. */
function isStarted(entry: Entry): entry is StartedEntry {
  return entry.id !== undefined && (entry.status === "processing" || entry.status === "completed");
}

function unclearError({ attempt, at, id }: Entry): VidgenError {
  const named = id === undefined ? "" : ` The answer named generation ${id}.`;
  const message = `The same request was sent at ${at.slice(0, 16)}Z and got no usable response: it may have been charged (attempt ${attempt}).${named} Nothing was sent now.`;
  return new VidgenError("unknown", message, {
    attempt,
    id,
    hint: [
      `Check your account for a generation from that time; \`vidgen wait ${id ?? "<id>"}\` fetches it.`,
      `If there is none, run \`vidgen list --dismiss ${attempt}\` and try again. --again starts a new one in any case; it is charged.`,
    ].join("\n"),
  });
}

function lostError({ at, id }: Entry): VidgenError {
  const message = `The same request was accepted at ${at.slice(0, 16)}Z as generation ${id}, which was charged and which the service no longer knows. Nothing was sent now.`;
  const hint = `\`vidgen wait ${id}\` asks for it again. --again starts a new one; it is charged.`;
  return new VidgenError("not_found", message, { id, hint });
}
