import { isDeepStrictEqual } from "node:util";
import { usage, VidgenError } from "../../errors.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { type State, stopsOthers } from "./attempt.ts";
import { readCandidates } from "./candidates.ts";
import {
  type Dated,
  datedEntries,
  type Entry,
  type IntentLine,
  isIdHandedOver,
  isUnfinished,
  keyOf,
  reusableMs,
  type Take,
} from "./history.ts";
import type { RecordedPlace } from "./identity.ts";
import type { Journal, LeaseState, Lock } from "./journal.ts";
import { findByKey, findByPrompt } from "./search.ts";

/**
 * What a start does about earlier attempts at the same request: `resume` resumes an interrupted attempt; `reuse` resumes any generation of the same
 * request that did not fail; `again` starts a new generation, and dismisses the attempts that it passes.
 */
export type Earlier = "resume" | "reuse" | "again";

/** By which column of the table a start decides: by a caller's key, or as `Earlier` says. */
export type Mode = Earlier | "key";

/** What a start does about one earlier attempt. */
export type Action =
  /** Start a new generation, as typed. */
  | "pass"
  /** Check again later. */
  | "wait"
  /** Follow the generation, and take over the attempt. */
  | "resume"
  /** Follow the generation beside the process that holds the attempt's lease. */
  | "join"
  /** The service lost what was charged: send nothing. */
  | "refuse lost"
  /** Pass, and no later start looks at it. */
  | "dismiss"
  /** Send the key: it was certainly not charged. */
  | "send"
  /** It may have been charged: send its key again if the service says that it keeps that key; else send nothing. */
  | "send again";

type Row = Record<Mode, Action> & {
  states: readonly State[];
  leases?: readonly LeaseState[];
  /** Only for an attempt of `--no-wait` whose id was handed over. */
  isIdHandedOver?: boolean;
};

/** The first row that fits an attempt decides. */
const rows: readonly Row[] = [
  { states: ["sending"], leases: ["alive"], resume: "pass", reuse: "wait", again: "pass", key: "wait" },
  { states: ["sending"], leases: ["unsure"], resume: "wait", reuse: "wait", again: "pass", key: "wait" },
  {
    states: ["sending", "unknown"],
    resume: "send again",
    reuse: "send again",
    again: "dismiss",
    key: "send again",
  },
  { states: ["running"], isIdHandedOver: true, resume: "pass", reuse: "resume", again: "pass", key: "resume" },
  { states: ["running", "ready"], leases: ["alive"], resume: "pass", reuse: "join", again: "pass", key: "join" },
  { states: ["running", "ready"], leases: ["unsure"], resume: "wait", reuse: "join", again: "pass", key: "join" },
  { states: ["running", "ready"], resume: "resume", reuse: "resume", again: "dismiss", key: "resume" },
  { states: ["delivered"], resume: "pass", reuse: "resume", again: "pass", key: "resume" },
  { states: ["failed"], resume: "pass", reuse: "pass", again: "pass", key: "resume" },
  { states: ["unsent", "refused"], resume: "pass", reuse: "pass", again: "pass", key: "send" },
  { states: ["lost"], resume: "refuse lost", reuse: "refuse lost", again: "dismiss", key: "resume" },
];

export type Situation = { state: State; lease: LeaseState; isIdHandedOver?: boolean | undefined };

export function decide({ state, lease, isIdHandedOver = false }: Situation, mode: Mode): Action {
  const row = rows.find(
    ({ states, leases, isIdHandedOver: isNeeded = false }) =>
      states.includes(state) && (leases === undefined || leases.includes(lease)) && (isIdHandedOver || !isNeeded),
  );
  if (row === undefined) throw new Error(`no row for ${state}`);
  return row[mode];
}

/** An attempt whose generation has an id. */
export type StartedEntry = Entry & { id: string };

/** What a start does next. */
export type Choice =
  /** `isJoined` while a live process has the attempt. */
  | { kind: "resume"; entry: StartedEntry; isJoined: boolean }
  | Stop
  | {
      kind: "new";
      /** Passed for good. */
      dismissed: Entry[];
      /** The key that is sent again: it may have been charged already. */
      resends?: KeptKey;
    };

/** Why nothing is sent now. */
type Stop =
  /** A live process is starting it, or a process elsewhere may have ended: a later check decides it. */
  | { kind: "wait"; entry: Entry }
  /** `key` is the Idempotency-Key of an attempt that may be sent again, if the service says that it keeps the key. */
  | { kind: "refuse"; entry: Entry; because: "unknown" | "lost" | "removed"; key?: string | undefined };

/** An Idempotency-Key that the service has said it keeps. `firstSentAt` is when the oldest attempt with it was started; ISO 8601, UTC. */
export type KeptKey = { key: string; firstSentAt: string };

export type Wanted = RecordedPlace & {
  /** The base URL of the service. */
  service: string;
  /** As the journal keeps it. */
  request: StartRequest;
  earlier: Earlier;
  /** The caller's key: then only attempts with it count, and `earlier` does not. */
  key?: string | undefined;
  /** Only attempts of AI agents count for one, and never for anybody else. */
  mcp?: boolean | undefined;
  isPreview?: boolean | undefined;
  /** The generation whose request it repeats: then only attempts that repeat the same one count. */
  parent?: string | undefined;
  /** Which of several it is: then only attempts at that position count, and of its run alone unless `earlier` is `again`. */
  take?: Take | undefined;
  now: Date;
  /** The key of an unclear start, where the service has said that it keeps it. */
  kept?: KeptKey | undefined;
};

type Ledger = Pick<Journal, "scan" | "append" | "leaseOf">;

/**
 * Chooses between the earlier attempts at a service and a new one. Called under the journal's lock, or without it to preview what a start would do,
 * which writes nothing. What a process writes just before it ends must count: the journal is read again when a process has ended since it was read.
 */
export async function choose(wanted: Wanted, journal: Ledger, lock?: Lock): Promise<Choice> {
  const ended = new Set<string>();
  const leaseOf = async (attempt: string): Promise<LeaseState> => {
    const lease = ended.has(attempt) ? "dead" : await journal.leaseOf(attempt);
    if (lease === "dead") ended.add(attempt);
    return lease;
  };
  for (;;) {
    const before = ended.size;
    const known = await findCandidates(wanted, journal, lock);
    const here = known.filter(({ base_url }) => isSameService(base_url, wanted.service));
    const choice = await chooseOnce(here, { ...wanted, leaseOf });
    if (ended.size === before) return choice;
  }
}

/**
 * The attempts that a start decides about, newest first. `reuse` also takes a generation that nobody waits for, however old: those of the same
 * prompt are searched for.
 */
async function findCandidates(wanted: Wanted, journal: Ledger, lock: Lock | undefined): Promise<Entry[]> {
  const { request, earlier, key, take, now } = wanted;
  if (key !== undefined) return findByKey(journal, key);
  if (take !== undefined) {
    const isAnyRun = earlier === "again";
    return findByPrompt(journal, request.prompt, (intent) => isAtPosition(intent, take, { isAnyRun }));
  }
  const known = await readCandidates(journal, now, lock);
  if (earlier !== "reuse") return known;
  const names = new Set(known.map(({ attempt }) => attempt));
  const isWanted = (intent: IntentLine) => intent.no_wait === true || names.has(intent.attempt);
  return merge(known, await findByPrompt(journal, request.prompt, isWanted));
}

/** Merges the entries of two parts of the journal in order: an entry of one part goes before the next entry that both contain. */
function merge(entries: readonly Entry[], others: readonly Entry[]): Entry[] {
  const left = [...others];
  const merged = entries.flatMap((entry) => {
    const at = left.findIndex(({ attempt }) => attempt === entry.attempt);
    return [...left.splice(0, at + 1).slice(0, -1), entry];
  });
  return [...merged, ...left];
}

type Choosing = Wanted & Pick<Journal, "leaseOf">;

/** Whether two base URLs have the same origin. */
function isSameService(one: string, other: string): boolean {
  return new URL(one).origin === new URL(other).origin;
}

async function chooseOnce(entries: readonly Entry[], wanted: Choosing): Promise<Choice> {
  if (wanted.key !== undefined) return chooseByKey(entries, wanted);
  if (wanted.take !== undefined) return chooseTake(entries, wanted);
  const same = datedEntries(entries, wanted.now).filter(({ entry }) => isCandidate(entry, wanted));
  if (wanted.earlier === "reuse") {
    // Only a delivered generation becomes too old.
    const recent = same.filter(({ entry, ageMs }) => ageMs < reusableMs || entry.state !== "delivered");
    return chooseFrom(
      recent.map(({ entry }) => entry),
      wanted,
    );
  }
  const sameRun = same.map(({ entry }) => entry).filter((entry) => isSameRun(entry, wanted));
  return chooseFrom(sameRun.reverse(), wanted);
}

/**
 * A position of a run is made once, however long ago: its generation is used, and a failed one is started again. That also holds with `again`,
 * which only passes over other runs: another process may have taken over this run while this process was suspended.
 */
async function chooseTake(entries: readonly Entry[], wanted: Choosing): Promise<Choice> {
  const same = entries.filter((entry) => isCandidate(entry, wanted) && isSamePlace(entry, wanted)).toReversed();
  const own = same.filter(({ run }) => run === wanted.take?.run);
  const choice = await chooseFrom(own, { ...wanted, earlier: "reuse" });
  if (choice.kind !== "new" || wanted.earlier !== "again") return choice;
  const others = same.filter((entry) => !own.includes(entry));
  return chooseFrom(others, wanted);
}

/** Whether an attempt is one at a position of a run, or of any run with as many. */
function isAtPosition(entry: Partial<Take>, take: Take, { isAnyRun }: { isAnyRun: boolean }): boolean {
  const isSameTake = entry.position === take.position && entry.count === take.count;
  return isSameTake && (isAnyRun || entry.run === take.run);
}

function isCandidate(entry: Entry, { request, mcp = false, isPreview, parent }: Wanted): boolean {
  // Rows of a batch have their results file, and a caller's key is searched for by that key alone.
  if (entry.dismissed || entry.removed || entry.batch !== undefined || entry.key !== undefined) return false;
  if ((entry.mcp ?? false) !== mcp || isOtherMaking(entry.is_preview, isPreview)) return false;
  if (parent !== undefined && entry.parent !== parent) return false;
  return isDeepStrictEqual(entry.request, request);
}

/** A video that was paid for and is not delivered may go to any place. */
function isSameRun(entry: Entry, wanted: Wanted): boolean {
  return isSameRunAt(isSamePlace(entry, wanted), entry, wanted.earlier);
}

function isSameRunAt(isHere: boolean, { state }: Entry, earlier: Earlier): boolean {
  return isHere || (state === "ready" && earlier !== "again");
}

/** Whether `-o` names the place of an attempt: as it was typed, or by another spelling of the same full path. */
export function isSamePlace(
  { place, path }: Pick<Entry, "place" | "path">,
  { outputPath, fullPath }: RecordedPlace,
): boolean {
  if (place === outputPath) return true;
  if (path === undefined || fullPath === undefined) return false;
  const spell = (full: string) => {
    const name = full.replace(/[/\\]+$/, "");
    return fullPath.foldsCase ? name.normalize().toLowerCase() : name;
  };
  return spell(path) === spell(fullPath.path);
}

/**
 * An attempt that can be resumed comes first, since its video was paid for; then the first that stops the start. A key is sent again only if no
 * other attempt at the same request may have been charged: the service may have received that other attempt, and not the one with this key.
 */
async function chooseFrom(entries: readonly Entry[], wanted: Choosing): Promise<Choice> {
  const dismissed: Entry[] = [];
  const stops: Stop[] = [];
  for (const entry of entries) {
    const action = await actionFor(entry, wanted);
    if (action === "dismiss") dismissed.push(entry);
    const choice = choiceOf(entry, action);
    if (choice?.kind === "resume") return choice;
    if (choice) stops.push(choice);
  }
  const [first] = stops;
  if (first === undefined) return { kind: "new", dismissed };
  if (first.kind === "wait") return first;
  // An attempt whose id is known can be followed instead.
  const isAlone = stops.every((stop) => "key" in stop && stop.key === first.key && stop.entry.id === undefined);
  return isAlone ? unlessKept(first, wanted) : { ...first, key: undefined };
}

/** A key that the service has said it keeps is sent again. */
function unlessKept(refusal: Stop & { kind: "refuse" }, { kept }: Wanted): Choice {
  return kept && kept.key === refusal.key ? { kind: "new", dismissed: [], resends: kept } : refusal;
}

/**
 * A caller's key always means the same start: the newest attempt with it that has to be considered decides. An attempt that the user has dismissed
 * counts only if it has a generation. Throws `usage` for another request.
 */
async function chooseByKey(entries: readonly Entry[], wanted: Choosing): Promise<Choice> {
  for (const entry of entries) {
    if (!isDeepStrictEqual(entry.request, wanted.request))
      throw usage(`The idempotency key ${wanted.key} was used for another request. Nothing was sent.`);
    if (entry.removed) return { kind: "refuse", entry, because: "removed" };
    const isSettled = entry.dismissed && stopsOthers(entry.state);
    const action = isSettled ? "send" : await actionFor(entry, wanted);
    const choice = choiceOf(entry, action);
    if (choice) return choice.kind === "refuse" ? unlessKept(choice, wanted) : choice;
  }
  return { kind: "new", dismissed: [] };
}

async function actionFor(entry: Entry, { key, earlier, leaseOf }: Choosing): Promise<Action> {
  const { state, attempt } = entry;
  const lease = isWorkedOn(state) ? await leaseOf(attempt) : "dead";
  return decide({ state, lease, isIdHandedOver: isIdHandedOver(entry) }, key === undefined ? earlier : "key");
}

/** Several generations that one command line asks for: of each request one, in order. */
export type WantedRun = Omit<Wanted, "request" | "key" | "take" | "kept"> & { requests: readonly StartRequest[] };

/** What one command line for several generations does next. */
export type RunChoice =
  /** A process elsewhere may have ended; `entry` is one of its attempts. */
  | { kind: "wait"; entry: Entry }
  /** `made` has the attempt of each position that is running or made, and else nothing. */
  | { kind: "run"; name: string | undefined; made: readonly (Entry | undefined)[] };

/**
 * Chooses the run that a command line for several generations continues: the newest of the same command, of no live process, that has a position
 * which is not made. Without a name it is a new one. Only inside of the journal's lock.
 */
export async function chooseRun(wanted: WantedRun, journal: Pick<Journal, "scan" | "leaseOf">): Promise<RunChoice> {
  const { requests, earlier, service } = wanted;
  const count = requests.length;
  const isSameLine = (entry: Entry) => {
    const request = requests[(entry.position ?? 0) - 1];
    if (request === undefined || entry.count !== count || !isSameService(entry.base_url, service)) return false;
    return entry.parent === wanted.parent && isSamePlace(entry, wanted) && isCandidate(entry, { ...wanted, request });
  };
  const entries = await findByPrompt(journal, requests[0]?.prompt ?? "", ({ run }) => run !== undefined);
  const runs = new Map<string, Entry[]>();
  for (const entry of entries.filter(isSameLine)) {
    const { run = "" } = entry;
    runs.set(run, [...(runs.get(run) ?? []), entry]);
  }
  for (const [name, takes] of earlier === "again" ? [] : runs) {
    const made = requests.map((_, index) =>
      takes.find(({ position, state }) => position === index + 1 && (isMade(state) || state === "running")),
    );
    if (made.every((entry) => entry && isTakeDone(entry))) continue;
    const lease = await journal.leaseOf(name);
    const [entry] = takes;
    if (lease === "unsure" && entry) return { kind: "wait", entry };
    if (lease === "dead") return { kind: "run", name, made };
  }
  return { kind: "run", name: undefined, made: requests.map(() => undefined) };
}

type WantedLine = Pick<Wanted, "earlier" | "now"> & {
  /** Whether the line names the place of an attempt. */
  isHere(entry: Entry): boolean;
};

/**
 * Of the attempts of one typed command, newest first, returns the one that the same command would resume, or be stopped by; `undefined` where it
 * starts a new generation. Follows the rules of a start: the oldest candidate first, and a video that is ready goes to any place.
 */
export function findOwn(entries: readonly Entry[], { earlier, now, isHere }: WantedLine): Entry | undefined {
  const isOwn = ({ entry, ageMs }: Dated) => {
    if (entry.dismissed || entry.removed) return false;
    if (entry.run !== undefined) return isHere(entry) && !isRunDone(entry, entries);
    if (earlier === "reuse" && (isIdHandedOver(entry) || (entry.state === "delivered" && ageMs < reusableMs)))
      return true;
    return isUnfinished(entry) && (earlier === "reuse" || isSameRunAt(isHere(entry), entry, earlier));
  };
  const own = datedEntries(entries, now).filter(isOwn);
  return (earlier === "reuse" ? own[0] : own.at(-1))?.entry;
}

/** Whether each position of the run that an attempt belongs to is made. */
function isRunDone({ run, count = 0 }: Entry, entries: readonly Entry[]): boolean {
  const done = entries.filter((each) => each.run === run && !each.dismissed && !each.removed && isTakeDone(each));
  return new Set(done.map(({ position }) => position)).size >= count;
}

function isMade(state: State): boolean {
  return state === "ready" || state === "delivered";
}

/** Whether the same command need do nothing more about an attempt: its result, or with `--no-wait` its id, was handed over. */
export function isTakeDone(entry: Entry): boolean {
  return entry.state === "delivered" || isIdHandedOver(entry);
}

/** Whether a process may be working on an attempt: else nobody looks at its lease. */
function isWorkedOn(state: State): boolean {
  return state === "sending" || state === "running" || state === "ready";
}

function choiceOf(entry: Entry, action: Action): Exclude<Choice, { kind: "new" }> | undefined {
  if (action === "wait") return { kind: "wait", entry };
  if (action === "refuse lost") return { kind: "refuse", entry, because: "lost" };
  if (action === "send again") return { kind: "refuse", entry, because: "unknown", key: keyOf(entry) };
  if ((action === "resume" || action === "join") && isStarted(entry))
    return { kind: "resume", entry, isJoined: action === "join" };
  return undefined;
}

/** Whether its generation has an id. */
export function isStarted(entry: Entry): entry is StartedEntry {
  return entry.id !== undefined;
}

/** A preview is not the same as a real video; where one of them is not known they may be the same. */
export function isOtherMaking(one: boolean | null | undefined, other: boolean | null | undefined): boolean {
  return typeof one === "boolean" && typeof other === "boolean" && one !== other;
}

/** Why a start sends nothing: `unknown`, or `not_found` where the service has lost the generation or deleted its video. */
export function refusalError({ entry, because }: Choice & { kind: "refuse" }): VidgenError {
  if (because === "removed") return removedError(entry);
  return because === "lost" ? lostError(entry) : unclearError(entry);
}

function removedError({ id }: Entry): VidgenError {
  return new VidgenError(
    "not_found",
    `The generation ${id} with this idempotency key was deleted, and its video with it. Nothing was sent.`,
    { id, hint: "Another key starts a new generation, which is charged." },
  );
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
