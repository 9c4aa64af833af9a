import { isDeepStrictEqual } from "node:util";
import { usage, VidgenError } from "../../errors.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { type AttemptState, blocksRestart } from "./attempt.ts";
import { readCandidates } from "./candidates.ts";
import {
  type DatedEntry,
  datedEntries,
  type Entry,
  type IntentLine,
  isClosed,
  isIdHandedOver,
  isUnfinished,
  keyOf,
  reusableMs,
  type Take,
} from "./history.ts";
import type { RecordedOutput } from "./identity.ts";
import type { Journal, LeaseState, Lock } from "./journal.ts";
import { mayBeSameService } from "./same-service.ts";
import { findByKey, findByPrompt, findByTypedLine } from "./search.ts";

/**
 * What a start does about earlier attempts at the same request: `resume` continues an interrupted attempt; `reuse` takes any generation of the same
 * request that did not fail; `again` starts a new generation, and dismisses unfinished attempts.
 */
export type Earlier = "resume" | "reuse" | "again";

/** The column of the table that applies to a start: `key` if the caller set one. */
export type Mode = Earlier | "key";

/** What a start does about one earlier attempt. */
export type Action =
  /** Ignore the attempt, and start a new generation. */
  | "pass"
  /** Try again later. */
  | "wait"
  /** Take over the attempt, and follow its generation. */
  | "resume"
  /** Follow the generation while another process holds the attempt's lease. */
  | "join"
  /** Send nothing, because the service lost a generation that was charged. */
  | "refuse lost"
  /** Ignore the attempt, now and in later starts. */
  | "dismiss"
  /** Send the key, because the attempt was certainly not charged. */
  | "send"
  /** The attempt may have been charged: send its key again if the service remembers it; otherwise send nothing. */
  | "send again";

type DecisionRow = Record<Mode, Action> & {
  states: readonly AttemptState[];
  leases?: readonly LeaseState[];
  /** Only for an attempt of `--no-wait` whose id was returned. */
  isIdHandedOver?: boolean;
};

/** The first matching row decides. */
const rows: readonly DecisionRow[] = [
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

export type Situation = { state: AttemptState; lease: LeaseState; isIdHandedOver?: boolean | undefined };

export function decide({ state, lease, isIdHandedOver = false }: Situation, mode: Mode): Action {
  const row = rows.find(
    ({ states, leases, isIdHandedOver: isRequired = false }) =>
      states.includes(state) && (leases === undefined || leases.includes(lease)) && (isIdHandedOver || !isRequired),
  );
  if (row === undefined) throw new Error(`no row for ${state}`);
  return row[mode];
}

/** An attempt whose generation has an id. */
export type StartedEntry = Entry & { id: string };

/** What a start does next. */
export type Choice =
  /** `isJoined` is set while a live process has the attempt. */
  | { kind: "resume"; entry: StartedEntry; isJoined: boolean }
  | Stop
  | {
      kind: "new";
      /** Attempts to dismiss. */
      dismissed: Entry[];
      /** The key to send again, because that request may have been charged. */
      resends?: KeptKey;
    };

/** Why nothing is sent now. */
type Stop =
  /** A process is starting the attempt, or a process on another machine may have ended: try again later. */
  | { kind: "wait"; entry: Entry }
  /** `key` is the Idempotency-Key of an attempt that may be sent again, if the service remembers it. */
  | { kind: "refuse"; entry: Entry; because: "unknown" | "lost" | "removed"; key?: string | undefined }
  | ChangedLine;

/** The same typed line has an unfinished attempt or run, with other values than it has now: see `IntentLine.untyped`. */
export type ChangedLine = {
  kind: "refuse";
  entry: Entry;
  because: "changed";
  /** The ids of its run, if the attempt is done and another position of the run is not. */
  runIds?: readonly string[] | undefined;
  /** The names of these values. */
  differing: readonly string[];
  key?: undefined;
};

/** An Idempotency-Key that the service remembers. `firstSentAt` is the start of the oldest attempt with it; ISO 8601, UTC. */
export type KeptKey = { key: string; firstSentAt: string };

export type WantedGeneration = RecordedOutput & {
  /** The base URL of the service. */
  service: string;
  /** In the form that the journal keeps. */
  request: StartRequest;
  earlier: Earlier;
  /** The caller's key. With a key, only attempts with this key count, and `earlier` is ignored. */
  key?: string | undefined;
  /** Whether an AI agent starts the generation: agents and people do not resume each other's attempts. */
  mcp?: boolean | undefined;
  isPreview?: boolean | undefined;
  /** The generation whose request is repeated. Only attempts that repeat the same one count. */
  parent?: string | undefined;
  /** The position among several. Only attempts at that position count, and only those of the same run unless `earlier` is `again`. */
  take?: Take | undefined;
  now: Date;
  /** The key of an unclear start that the service remembers. */
  keptKey?: KeptKey | undefined;
  /** The hash of the typed command line, and what it does not determine: see `IntentLine`. */
  typed?: string | undefined;
  untyped?: readonly string[] | undefined;
};

type PolicyJournal = Pick<Journal, "scan" | "append" | "leaseOf">;

/**
 * Chooses between the earlier attempts at a service and a new one. Called under the journal's lock, or, for a dry run, without the lock,
 * which writes nothing. Reads the journal again if a process ended meanwhile, since that process may have written its outcome.
 */
export async function choose(wanted: WantedGeneration, journal: PolicyJournal, lock?: Lock): Promise<Choice> {
  const endedAttempts = new Set<string>();
  const leaseOf = async (attempt: string): Promise<LeaseState> => {
    const lease = endedAttempts.has(attempt) ? "dead" : await journal.leaseOf(attempt);
    if (lease === "dead") endedAttempts.add(attempt);
    return lease;
  };
  for (;;) {
    const endedBefore = endedAttempts.size;
    const candidates = await findCandidates(wanted, journal, lock);
    const ofService = candidates.filter(({ base_url }) => mayBeSameService(base_url, wanted.service));
    const context = { ...wanted, leaseOf };
    const choice = await chooseOnce(ofService, context);
    // For the takes of a run, `chooseRun` has considered the changed lines already, except with `again`. A key is sent again whatever else the line has.
    const isSettled = choice.kind !== "new" || choice.resends !== undefined;
    const isFinal = isSettled || (wanted.take !== undefined && wanted.earlier !== "again");
    const ofLine = async () => (wanted.take === undefined ? ofService : findAttemptsOfLine(journal, wanted));
    const finalChoice = isFinal ? choice : await considerChangedLine(choice, await ofLine(), context);
    if (endedAttempts.size === endedBefore) return finalChoice;
  }
}

/**
 * The attempts that a start must consider, newest first. `reuse` also considers `--no-wait` generations of any age, which are searched for by
 * their prompt.
 */
async function findCandidates(
  wanted: WantedGeneration,
  journal: PolicyJournal,
  lock: Lock | undefined,
): Promise<Entry[]> {
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

/** Merges two lists of entries in the order of the journal: entries of one list go before the next entry that both contain. */
function merge(entries: readonly Entry[], others: readonly Entry[]): Entry[] {
  const left = [...others];
  const merged = entries.flatMap((entry) => {
    const at = left.findIndex(({ attempt }) => attempt === entry.attempt);
    return [...left.splice(0, at + 1).slice(0, -1), entry];
  });
  return [...merged, ...left];
}

type ChooseContext = WantedGeneration & Pick<Journal, "leaseOf">;

async function chooseOnce(entries: readonly Entry[], wanted: ChooseContext): Promise<Choice> {
  if (wanted.key !== undefined) return chooseByKey(entries, wanted);
  if (wanted.take !== undefined) return chooseTake(entries, wanted);
  const same = datedEntries(entries, wanted.now).filter(({ entry }) => isCandidate(entry, wanted));
  if (wanted.earlier === "reuse") {
    // Only delivered generations can be too old.
    const recent = same.filter(({ entry, ageMs }) => ageMs < reusableMs || entry.state !== "delivered");
    return chooseFrom(
      recent.map(({ entry }) => entry),
      wanted,
    );
  }
  const fitting = same
    .map(({ entry }) => entry)
    .filter((entry) => fitsOutput(entry, isSameOutput(entry, wanted), wanted.earlier));
  return chooseFrom(fitting.reverse(), wanted);
}

/**
 * Each position of a run is started once, at any age, unless it failed. This is also true with `again`, which ignores only other runs, because another
 * process may have taken over this run while this process was suspended.
 */
async function chooseTake(entries: readonly Entry[], wanted: ChooseContext): Promise<Choice> {
  const isSameTake = (entry: Entry) => isCandidate(entry, wanted) && isSameOutput(entry, wanted);
  const same = entries.filter(isSameTake).toReversed();
  const ofThisRun = same.filter(({ run }) => run === wanted.take?.run);
  const choice = await chooseFrom(ofThisRun, { ...wanted, earlier: "reuse" });
  if (choice.kind !== "new" || wanted.earlier !== "again") return choice;
  const ofOtherRuns = same.filter((entry) => !ofThisRun.includes(entry));
  return chooseFrom(ofOtherRuns, wanted);
}

/** Whether an attempt is at this position of the run, or of any run of the same size. */
function isAtPosition(entry: Partial<Take>, take: Take, { isAnyRun }: { isAnyRun: boolean }): boolean {
  const isSameTake = entry.position === take.position && entry.count === take.count;
  return isSameTake && (isAnyRun || entry.run === take.run);
}

function isCandidate(
  entry: Entry,
  { request, mcp = false, isPreview, parent, take }: Omit<WantedGeneration, "take"> & { take?: unknown },
): boolean {
  // A deleted video is resumed by nobody, but it still holds its position in a run.
  if (entry.dismissed || (entry.removed && !(take !== undefined && isTakeDone(entry)))) return false;
  // Rows of a batch are in their results file, and attempts with a caller's key are found by that key only.
  if (entry.batch !== undefined || entry.key !== undefined) return false;
  if ((entry.mcp ?? false) !== mcp || differsInPreview(entry.is_preview, isPreview)) return false;
  if (parent !== undefined && entry.parent !== parent) return false;
  return isDeepStrictEqual(entry.request, request);
}

/** Whether a start with this output path considers an attempt: a paid video that is not delivered may be saved to any path. */
function fitsOutput({ state }: Entry, hasSameOutput: boolean, earlier: Earlier): boolean {
  return hasSameOutput || (state === "ready" && earlier !== "again");
}

/** Whether an attempt has the same output path: as typed, or as another spelling of the same full path. */
export function isSameOutput(
  { place, path }: Pick<Entry, "place" | "path">,
  { outputPath, fullPath }: RecordedOutput,
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
 * Prefers an attempt that can be resumed, since its video was paid for; then the first that stops the start. A key is sent again only if no other
 * attempt at the same request may have been charged, because the service may have received that other attempt, and not the one with this key.
 */
async function chooseFrom(entries: readonly Entry[], wanted: ChooseContext): Promise<Choice> {
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
  // An attempt whose id is known is followed instead of sent again.
  const isOnlyKey = stops.every((stop) => "key" in stop && stop.key === first.key && stop.entry.id === undefined);
  return isOnlyKey ? resendIfKept(first, wanted) : { ...first, key: undefined };
}

/** Sends a key again that the service remembers; otherwise refuses. */
function resendIfKept(refusal: Stop & { kind: "refuse" }, { keptKey }: WantedGeneration): Choice {
  return keptKey && keptKey.key === refusal.key ? { kind: "new", dismissed: [], resends: keptKey } : refusal;
}

/**
 * A caller's key always identifies the same start, so the newest relevant attempt with the key decides. A dismissed attempt counts only if it has a
 * generation. Throws `usage` for another request.
 */
async function chooseByKey(entries: readonly Entry[], wanted: ChooseContext): Promise<Choice> {
  for (const entry of entries) {
    if (!isDeepStrictEqual(entry.request, wanted.request))
      throw usage(`The idempotency key ${wanted.key} was used for another request. Nothing was sent.`);
    if (entry.removed) return { kind: "refuse", entry, because: "removed" };
    // Whoever dismissed an attempt has checked that it was not charged.
    const isDismissed = entry.dismissed && blocksRestart(entry.state);
    const action = isDismissed ? "send" : await actionFor(entry, wanted);
    const choice = choiceOf(entry, action);
    if (choice) return choice.kind === "refuse" ? resendIfKept(choice, wanted) : choice;
  }
  return { kind: "new", dismissed: [] };
}

async function actionFor(
  entry: Entry,
  { key, earlier, leaseOf }: Pick<ChooseContext, "key" | "earlier" | "leaseOf">,
): Promise<Action> {
  const { state, attempt } = entry;
  const lease = isWorkedOn(state) ? await leaseOf(attempt) : "dead";
  return decide({ state, lease, isIdHandedOver: isIdHandedOver(entry) }, key === undefined ? earlier : "key");
}

/** All attempts of a typed line, so that the positions of its runs can be counted at any age. */
async function findAttemptsOfLine(
  journal: PolicyJournal,
  { typed }: Pick<WantedGeneration, "typed">,
): Promise<Entry[]> {
  return typed === undefined ? [] : findByTypedLine(journal, typed);
}

/**
 * Considers a new start of a typed line that has unfinished attempts or runs with other values, from an earlier vidgen.json or stdin. The new start
 * could be a second charge by accident. `again` dismisses the attempts. Otherwise the start is refused because of the first attempt that a start with
 * the same values would not ignore; attempts with an id come first.
 */
async function considerChangedLine(
  choice: Choice & { kind: "new" },
  entries: readonly Entry[],
  wanted: ChooseContext,
): Promise<Choice> {
  if (wanted.key !== undefined) return choice;
  const changed = findChangedAttempts(entries, wanted, [wanted.request]);
  if (wanted.earlier !== "again") return (await findChangedStop(changed, wanted.leaseOf)) ?? choice;
  const dismissed = [...choice.dismissed];
  for (const { entry } of changed) {
    const isListed = dismissed.some(({ attempt }) => attempt === entry.attempt);
    if (!isListed && (await actionForChanged(entry, wanted)) === "dismiss") dismissed.push(entry);
  }
  return { ...choice, dismissed };
}

type ChangedAttempt = { entry: Entry; differing: readonly string[] };

/**
 * The attempts of a typed line that are unfinished, or belong to an unfinished run, and differ from one of these requests only in what the line does
 * not determine. Unfinished attempts come first, then the oldest.
 */
function findChangedAttempts(
  entries: readonly Entry[],
  wanted: Omit<WantedGeneration, "request">,
  requests: readonly StartRequest[],
): ChangedAttempt[] {
  const { typed, untyped = [], service, parent, isPreview, earlier } = wanted;
  if (typed === undefined) return [];
  const isOfLine = (entry: Entry) =>
    entry.typed === typed &&
    (isUnfinished(entry) || isOfUnfinishedRun(entry, entries)) &&
    mayBeSameService(entry.base_url, service) &&
    entry.parent === parent &&
    !differsInPreview(entry.is_preview, isPreview);
  const ofLine = entries.filter(isOfLine).reverse();
  ofLine.sort((one, other) => Number(isUnfinished(other)) - Number(isUnfinished(one)));
  return ofLine.flatMap((entry) => {
    const undetermined = new Set([...untyped, ...(entry.untyped ?? [])]);
    const hasSameOutput = isSameOutput(entry, wanted);
    if (undetermined.size === 0) return [];
    if (!undetermined.has("output") && !fitsOutput(entry, hasSameOutput, earlier)) return [];
    const request = requests.find((each) => isSameExcept(undetermined, each, entry.request));
    const differing = request ? differencesOf(request, entry.request) : [];
    if (!hasSameOutput) differing.push("output");
    return request && differing.length > 0 ? { entry, differing } : [];
  });
}

/** Whether two requests are equal without these fields. */
export function isSameExcept(names: ReadonlySet<string>, one: StartRequest, other: StartRequest): boolean {
  const without = (request: StartRequest) =>
    Object.fromEntries(Object.entries(request).filter(([name]) => !names.has(name)));
  return isDeepStrictEqual(without(one), without(other));
}

function differencesOf(one: Record<string, unknown>, other: Record<string, unknown>): string[] {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names].filter((name) => !isDeepStrictEqual(one[name], other[name]));
}

async function findChangedStop(
  changed: readonly ChangedAttempt[],
  leaseOf: Journal["leaseOf"],
): Promise<(Stop & { kind: "wait" }) | ChangedLine | undefined> {
  const stops: ((Stop & { kind: "wait" }) | ChangedLine)[] = [];
  for (const { entry, differing } of changed) {
    const action = await actionForChanged(entry, { earlier: "resume", leaseOf });
    const ids = changed.flatMap(({ entry: { run, id } }) => (run === entry.run && id !== undefined ? [id] : []));
    const runIds = isUnfinished(entry) ? undefined : ids;
    if (action === "wait") stops.push({ kind: "wait", entry });
    else if (action !== "pass") stops.push({ kind: "refuse", entry, because: "changed", runIds, differing });
  }
  const isFollowable = ({ kind, entry }: Stop) => kind === "refuse" && isStarted(entry) && isUnfinished(entry);
  return stops.find(isFollowable) ?? stops[0];
}

/** The action for an attempt of a changed line. An attempt that is done counts as running while its run is unfinished. */
async function actionForChanged(
  entry: Entry,
  { earlier, leaseOf }: Pick<ChooseContext, "earlier" | "leaseOf">,
): Promise<Action> {
  if (isUnfinished(entry) || entry.run === undefined) return actionFor(entry, { key: undefined, earlier, leaseOf });
  return decide({ state: "running", lease: await leaseOf(entry.run) }, earlier);
}

/** The generations of one command: one for each request. */
export type WantedRun = Omit<WantedGeneration, "request" | "key" | "take" | "keptKey"> & {
  requests: readonly StartRequest[];
};

/** What a command for several generations does next. */
export type RunChoice =
  /** A process on another machine may have ended; `entry` is one of its attempts. */
  | { kind: "wait"; entry: Entry }
  | ChangedLine
  /** `positions` has one for each request, in the same order. */
  | { kind: "run"; name: string | undefined; positions: readonly RunPosition[] };

/** A position of a run, from 1, and its running or completed attempt, if any. */
export type RunPosition = { position: number; attempt: Entry | undefined };

/** The positions of requests in their run: sorted by model, so that the order in which the models were typed does not matter. */
function positionsOf(requests: readonly StartRequest[]): number[] {
  const isBefore = (one: number, other: number) => {
    const [a, b] = [requests[one]?.model ?? "", requests[other]?.model ?? ""];
    return a < b || (a === b && one <= other);
  };
  const indexes = requests.map((_, index) => index);
  return indexes.map((index) => indexes.filter((each) => isBefore(each, index)).length);
}

/**
 * Chooses the run that a command for several generations continues: the newest incomplete run of the same requests, in any order of their
 * models, that no live process has. A result without a name is a new run. Must be called under the journal's lock.
 */
export async function chooseRun(wanted: WantedRun, journal: PolicyJournal): Promise<RunChoice> {
  const { requests, earlier, service } = wanted;
  const count = requests.length;
  const positions = positionsOf(requests);
  const requestAt = new Map(requests.map((request, index) => [positions[index], request]));
  const isAtSamePosition = (entry: Entry) => {
    const request = requestAt.get(entry.position);
    if (request === undefined || entry.count !== count || !mayBeSameService(entry.base_url, service)) return false;
    return (
      entry.parent === wanted.parent &&
      isSameOutput(entry, wanted) &&
      isCandidate(entry, { ...wanted, request, take: entry })
    );
  };
  const entries = await findByPrompt(journal, requests[0]?.prompt ?? "", ({ run }) => run !== undefined);
  // Another command's run may have equal requests at some positions only, such as `-n 2` and two models.
  const otherRuns = new Set(
    entries.flatMap(({ run, position, request }) => (isDeepStrictEqual(request, requestAt.get(position)) ? [] : run)),
  );
  const runs = new Map<string, Entry[]>();
  for (const entry of entries.filter(isAtSamePosition)) {
    const { run = "" } = entry;
    if (!otherRuns.has(run)) runs.set(run, [...(runs.get(run) ?? []), entry]);
  }
  for (const [name, takes] of earlier === "again" ? [] : runs) {
    const found = positions.map((position) => ({
      position,
      attempt: takes.find((each) => each.position === position && isMade(each.state)),
    }));
    if (found.every(({ attempt }) => attempt && isTakeDone(attempt))) continue;
    const lease = await journal.leaseOf(name);
    const [entry] = takes;
    if (lease === "unsure" && entry) return { kind: "wait", entry };
    if (lease === "dead") return { kind: "run", name, positions: found };
  }
  if (earlier !== "again") {
    const changed = findChangedAttempts(await findAttemptsOfLine(journal, wanted), wanted, requests);
    const stop = await findChangedStop(changed, journal.leaseOf);
    if (stop) return stop;
  }
  const emptyPositions = positions.map((position) => ({ position, attempt: undefined }));
  return { kind: "run", name: undefined, positions: emptyPositions };
}

type WantedLine = Pick<WantedGeneration, "earlier" | "now"> & {
  /** Whether an attempt has the output path of the command. */
  isOutputOf(entry: Entry): boolean;
};

/**
 * From the attempts of one typed command, newest first, returns the attempt that the same command would resume or be stopped by; `undefined` if the
 * command would start a new generation. Follows the rules of a start: the oldest candidate first, and a completed video may be saved to any path.
 */
export function findResumable(entries: readonly Entry[], { earlier, now, isOutputOf }: WantedLine): Entry | undefined {
  const isResumable = ({ entry, ageMs }: DatedEntry) => {
    if (entry.run !== undefined) return !entry.dismissed && isOutputOf(entry) && !isRunDone(entry, entries);
    if (isClosed(entry)) return false;
    if (earlier === "reuse" && (isIdHandedOver(entry) || (entry.state === "delivered" && ageMs < reusableMs)))
      return true;
    return isUnfinished(entry) && (earlier === "reuse" || fitsOutput(entry, isOutputOf(entry), earlier));
  };
  const resumable = datedEntries(entries, now).filter(isResumable);
  return (earlier === "reuse" ? resumable[0] : resumable.at(-1))?.entry;
}

/** Whether all positions of an attempt's run are done: see `isTakeDone`. */
export function isRunDone({ run, count = 0 }: Pick<Entry, "run" | "count">, entries: readonly Entry[]): boolean {
  const done = entries.filter((each) => each.run === run && !each.dismissed && isTakeDone(each));
  return new Set(done.map(({ position }) => position)).size >= count;
}

/** Whether an attempt is done, and another position of its run is not. */
function isOfUnfinishedRun(entry: Entry, entries: readonly Entry[]): boolean {
  return entry.run !== undefined && !entry.dismissed && isTakeDone(entry) && !isRunDone(entry, entries);
}

function isMade(state: AttemptState): boolean {
  return state === "running" || state === "ready" || state === "delivered";
}

/**
 * Whether an attempt is done for its command: its result, or with `--no-wait` its id, was returned. It stays done when the service deletes its video,
 * or when its file is missing.
 */
export function isTakeDone(entry: Entry): boolean {
  const wasTold = entry.told === true && entry.removed === true && isMade(entry.state);
  return entry.state === "delivered" || isIdHandedOver(entry) || wasTold;
}

/** Whether a process may be working on an attempt; otherwise its lease does not matter. */
function isWorkedOn(state: AttemptState): boolean {
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

/** Whether the attempt's generation has an id. */
export function isStarted(entry: Entry): entry is StartedEntry {
  return entry.id !== undefined;
}

/** Whether one is a preview and the other a real video; false if either is unknown. */
export function differsInPreview(one: boolean | null | undefined, other: boolean | null | undefined): boolean {
  return typeof one === "boolean" && typeof other === "boolean" && one !== other;
}

/**
 * The error when a start sends nothing: `unknown`, `not_found` if the service has lost the generation or deleted its video, or `usage` if an
 * unfinished generation or run of the same line has other values.
 */
export function refusalError(refusal: Choice & { kind: "refuse" }): VidgenError {
  const { entry, because } = refusal;
  if (because === "changed") return changedError(refusal);
  if (because === "removed") return removedError(entry);
  return because === "lost" ? lostError(entry) : unclearError(entry);
}

function changedError({ entry, differing, runIds }: ChangedLine): VidgenError {
  const { id, attempt, at, count } = entry;
  const values = `with another ${differing.join(", ")} (from vidgen.json or stdin)`;
  if (id === undefined) {
    const message = `The same command line was sent at ${at.slice(0, 16)}Z ${values} and got no usable response: it may have been charged (attempt ${attempt}). Nothing was sent now.`;
    return new VidgenError("unknown", message, { attempt, hint: unclearHint(attempt, undefined) });
  }
  if (runIds)
    return new VidgenError(
      "usage",
      `The same command line was typed at ${at.slice(0, 16)}Z ${values}, and has ${runIds.length} of its ${count} generations: ${runIds.join(", ")}. Nothing was sent now.`,
      {
        id,
        attempt,
        hint: `\`vidgen wait ${id}\` takes that video. --again starts ${count} new generations, and is charged.\nIf you restore the earlier ${differing.join(", ")}, the same command starts only the missing generations.`,
      },
    );
  return new VidgenError(
    "usage",
    `The same command line has started generation ${id} at ${at.slice(0, 16)}Z ${values}, and its video was not delivered yet. Nothing was sent now.`,
    {
      id,
      attempt,
      hint: `\`vidgen wait ${id}\` takes that video. --again starts a new generation, and is charged.`,
    },
  );
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
    hint: unclearHint(attempt, id),
  });
}

function unclearHint(attempt: string, id: string | undefined): string {
  return [
    `Check your account for a generation from that time; \`vidgen wait ${id ?? "<id>"}\` fetches it.`,
    `If there is none, run \`vidgen list --dismiss ${attempt}\` and try again. --again starts a new generation in any case, and is charged.`,
  ].join("\n");
}

function lostError({ at, id }: Entry): VidgenError {
  const message = `The same request was accepted at ${at.slice(0, 16)}Z as generation ${id} and was charged, but the service no longer knows it. Nothing was sent now.`;
  const hint = `\`vidgen wait ${id}\` asks the service again. --again starts a new one, and is charged.`;
  return new VidgenError("not_found", message, { id, hint });
}
