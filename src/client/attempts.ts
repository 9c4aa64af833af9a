import { isDeepStrictEqual } from "node:util";
import { usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { isLoopback } from "./credentials.ts";
import { type Dated, datedEntries, type Entry, isAwaited, isOpen, reusableMs } from "./history.ts";
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
  | {
      kind: "new";
      /** Passed over for good. */
      dismissed: Entry[];
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

/** An attempt has an outcome after this time: a request that was sent, and retried, takes up to 4 minutes. */
const startingMs = 5 * 60_000;

/**
 * The attempts of a journal that `chooseAttempt` needs, newest first. Only inside of the journal's lock. `reuse` also takes a generation that
 * nobody waits for, however old: those of the same prompt are searched for.
 */
export async function findCandidates(
  { request, earlier, now }: Pick<Wanted, "request" | "earlier" | "now">,
  { candidates, unawaitedOf }: Pick<Journal, "candidates" | "unawaitedOf">,
): Promise<Entry[]> {
  const known = await candidates(now);
  if (earlier !== "reuse") return known;
  const names = new Set(known.map(({ attempt }) => attempt));
  const found = await unawaitedOf(request.prompt);
  return [...known, ...found.filter(({ attempt }) => !names.has(attempt))];
}

/**
 * Chooses from the attempts of one service, newest first, by the rules of the same run: however old an unfinished one is. Throws `unknown` when
 * one of them may have been charged and its id never came: then another start could pay twice; and `not_found` when the service has lost the
 * generation of one. One that can be resumed comes first, since its video was paid for.
 */
export async function chooseAttempt(entries: readonly Entry[], wanted: Wanted): Promise<Choice> {
  const { request, outputPath, earlier, isHeld, isPreview } = wanted;
  // Attempts of a batch belong to its rows.
  const isOwn = (entry: Entry) => entry.batch === undefined && (entry.mcp ?? false) === (wanted.mcp ?? false);
  const isSame = (entry: Entry) =>
    isOwn(entry) && !isOtherMaking(entry.is_preview, isPreview) && isDeepStrictEqual(entry.request, request);
  const same = datedEntries(entries, wanted.now).filter(({ entry }) => !entry.dismissed && isSame(entry));
  if (earlier === "reuse") return chooseReusable(same, isHeld);
  // A video that was paid for and is not saved may go to any place.
  const sameRun = same
    .map(({ entry }) => entry)
    .filter((entry) => entry.place === outputPath || (entry.status === "completed" && isOpen(entry)));
  const dismissed: Entry[] = [];
  let blocking: Blocking | undefined;
  for (const entry of sameRun.reverse()) {
    const block = await findBlock(entry, isHeld);
    const held = isAwaited(entry) && (await isHeldBy(entry, isHeld));
    const isResumable = isAwaited(entry) && held === false;
    if (earlier === "again") {
      if (isResumable || (block !== undefined && block !== "wait")) dismissed.push(entry);
    } else if (isResumable && isStarted(entry)) return { kind: "resume", entry };
    else if (held === "unsure") blocking ??= { entry, block: "wait" };
    else if (block) blocking ??= { entry, block };
  }
  return blocking ? stopAt(blocking) : { kind: "new", dismissed };
}

/** An attempt that no start passes: it may have been charged, the service has lost it, or a process may still be starting it. */
type Blocking = { entry: Entry; block: Block };
type Block = "unknown" | "lost" | "wait";

async function findBlock(entry: Entry, isHeld: Wanted["isHeld"]): Promise<Block | undefined> {
  if (entry.status === "lost") return "lost";
  if (await hasEnded(entry, isHeld)) return "unknown";
  if (entry.status !== "starting") return undefined;
  return (await isHeldBy(entry, isHeld)) === "unsure" ? "wait" : undefined;
}

function stopAt({ entry, block }: Blocking): Choice {
  if (block === "wait") return { kind: "wait", entry };
  throw block === "lost" ? lostError(entry) : unclearError(entry);
}

/**
 * Chooses from all attempts with the name that a program gave its start, newest first, dismissed ones too: it stands for one start for ever,
 * whatever has become of that. Those that certainly were not charged, or that the user has dealt with, may be sent again: the newest of the
 * others decides. Throws `unknown` as `chooseAttempt` does, and `usage` for another request.
 */
export async function chooseNamed(
  entries: readonly Entry[],
  { request, isHeld, keepsKeys }: Pick<Wanted, "request" | "isHeld" | "keepsKeys">,
): Promise<Choice> {
  for (const entry of entries) {
    const { attempt, id, status } = entry;
    if (!isDeepStrictEqual(entry.request, request))
      throw usage(`The idempotency key ${attempt} was used for another request. Nothing was sent.`);
    if (status === "dismissed" || status === "unsent" || (status === "refused" && id === undefined)) continue;
    if (id !== undefined && status !== "refused" && status !== "unknown")
      return { kind: "resume", entry: { ...entry, id } };
    if (status === "starting" && !(await hasEnded(entry, isHeld))) return { kind: "wait", entry };
    if (keepsKeys) return { kind: "new", dismissed: [], mayBeCharged: true };
    throw unclearError(entry);
  }
  return { kind: "new", dismissed: [] };
}

/** A preview is not the same as a real video; where one of them is not known they may be the same. */
export function isOtherMaking(one: boolean | null | undefined, other: boolean | null | undefined): boolean {
  return typeof one === "boolean" && typeof other === "boolean" && one !== other;
}

async function chooseReusable(same: readonly Dated[], isHeld: Wanted["isHeld"]): Promise<Choice> {
  // Only a generation that has its result becomes too old.
  const recent = same.filter(({ entry, ageMs }) => ageMs < reusableMs || entry.status !== "completed" || isOpen(entry));
  const started = recent.map(({ entry }) => entry).find(isStarted);
  if (started) return { kind: "resume", entry: started };
  for (const { entry } of recent) {
    // Also beside a live process it waits for the id.
    const block = entry.status === "starting" ? "wait" : undefined;
    const found = (await findBlock(entry, isHeld)) ?? block;
    if (found) return stopAt({ entry, block: found });
  }
  return { kind: "new", dismissed: [] };
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

function unclearError({ attempt, at, id, reason = "" }: Entry): VidgenError {
  const named = id === undefined ? "" : ` It is generation ${id}. ${reason}`;
  const message = `The same request was sent at ${at.slice(0, 16)}Z and got no usable response: it may have been charged (attempt ${attempt}).${named} Nothing was sent now.`;
  return new VidgenError("unknown", message, {
    attempt,
    id,
    hint: [
      `Check your account for a generation from that time; \`vidgen wait ${id ?? "<id>"}\` fetches it.`,
      `If there is none, run \`vidgen list --dismiss ${attempt}\` and try again. --again starts a new one in any case, and is charged.`,
    ].join("\n"),
  });
}

function lostError({ at, id }: Entry): VidgenError {
  const message = `The same request was accepted at ${at.slice(0, 16)}Z as generation ${id} and was charged, but the service no longer knows it. Nothing was sent now.`;
  const hint = `\`vidgen wait ${id}\` asks the service again. --again starts a new one, and is charged.`;
  return new VidgenError("not_found", message, { id, hint });
}
