import { isDeepStrictEqual } from "node:util";
import { usage } from "../../errors.ts";
import type { Disk } from "../../io.ts";
import { readRatio } from "../../protocol/fields.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { readVariable } from "../../protocol/text.ts";
import { type AttemptState, blocksRestart } from "./attempt.ts";
import {
  type DatedEntry,
  datedEntries,
  type Entry,
  groupBy,
  isClosed,
  isIdHandedOver,
  isUnfinished,
  keyOf,
  reusableMs,
  type Take,
  withoutImage,
} from "./history.ts";
import type { RecordedOutput } from "./identity.ts";
import type { Journal, LeaseState } from "./journal.ts";
import { type CommandLine, isSameLine, isSameProject } from "./line.ts";
import { isSameService, mayBeSameService } from "./same-service.ts";
import { findByCommand, findByKey } from "./search.ts";
import { firstSendOf, sharesKey } from "./shared-key.ts";

/**
 * What a start does about earlier attempts at the same request: `resume` continues an interrupted attempt;
 * `reuse` takes any generation of the same request that did not fail; `again` starts a new generation, and
 * dismisses unfinished attempts.
 */
export type Earlier = "resume" | "reuse" | "again";

/** The column of the table that applies to a start: `key` if the caller set one. */
export type Mode = Earlier | "key";

/** What a start does about one earlier attempt. */
export type Action =
  /** Ignore the attempt, and start a new generation. */
  | "pass"
  /** Try again later: a live process works on the attempt. */
  | "wait"
  /** Look again until it is known whether the attempt's process, on another machine, is alive. */
  | "watch"
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
  { states: ["running"], isIdHandedOver: true, resume: "pass", reuse: "resume", again: "pass", key: "resume" },
  {
    states: ["sending", "unknown", "running", "ready"],
    leases: ["unsure"],
    resume: "watch",
    reuse: "watch",
    again: "watch",
    key: "watch",
  },
  { states: ["sending"], leases: ["alive"], resume: "pass", reuse: "wait", again: "pass", key: "wait" },
  { states: ["unknown"], leases: ["alive"], resume: "wait", reuse: "wait", again: "pass", key: "wait" },
  {
    states: ["sending", "unknown"],
    resume: "send again",
    reuse: "send again",
    again: "dismiss",
    key: "send again",
  },
  { states: ["running", "ready"], leases: ["alive"], resume: "pass", reuse: "join", again: "pass", key: "join" },
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
      /** When the caller's key was first sent, if an earlier attempt has sent it. */
      firstSentAt?: string | undefined;
    };

/**
 * Try again later, because a live process is starting the attempt; or it got no usable response to it and
 * still works on it ("unknown"); or it is not known yet whether its process, on another machine, is alive
 * ("unsure"). `lease` is the name of that process's lease.
 */
export type WaitChoice = { kind: "wait"; entry: Entry; because: "starting" | "unknown" | "unsure"; lease: string };

/** Why nothing is sent now. */
type Stop = WaitChoice | RefusedChoice;

export type RefusedChoice =
  | {
      kind: "refuse";
      entry: Entry;
      because: "unknown" | "lost" | "removed";
      /** The Idempotency-Key of an attempt that may be sent again, if the service remembers it. */
      key?: string | undefined;
      /** The process that still works on the attempt, such as "Process 4711". */
      worker?: string | undefined;
    }
  | StopElsewhere
  | ChangedLine;

/**
 * An attempt at another path of the same origin, which may be the same service. It is not delivered, or may
 * have been charged. It stops the start, and is not resumed, dismissed or sent again here.
 */
export type StopElsewhere = { kind: "refuse"; entry: Entry; because: "elsewhere"; key?: undefined };

/** The same command line has an unfinished attempt or run, with other values than it has now: see `CommandLine`. */
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

/** An Idempotency-Key that the service remembers, and when it was first sent; ISO 8601, UTC. */
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
  /** The generation whose last frame the request begins with. */
  from?: string | undefined;
  /**
   * The position among several. Only attempts at that position count, and only those of the same run unless
   * `earlier` is `again`.
   */
  take?: Take | undefined;
  now: Date;
  /** The key of an unclear start that the service remembers. */
  keptKey?: KeptKey | undefined;
  /** The keys of the unknown attempts that the start has waited for. If they have a generation now, it is resumed or joined. */
  waitedFor?: ReadonlySet<string> | undefined;
  /** The typed command line, by which an attempt is recognized whose values from elsewhere have changed since. */
  line?: CommandLine | undefined;
};

type PolicyJournal = Pick<Journal, "scan" | "leaseOf">;
type PolicyDisk = Pick<Disk, "stat">;

/**
 * Chooses between the earlier attempts at a service and a new one. Called under the journal's lock, or
 * without it for a dry run. Writes nothing. Reads the journal again if a process ended meanwhile, since that
 * process may have written its outcome.
 */
export async function choose(wanted: WantedGeneration, journal: PolicyJournal, disk: PolicyDisk): Promise<Choice> {
  const endedAttempts = new Set<string>();
  const leaseOf = async (attempt: string): Promise<LeaseState> => {
    const lease = endedAttempts.has(attempt) ? "dead" : await journal.leaseOf(attempt);
    if (lease === "dead") endedAttempts.add(attempt);
    return lease;
  };
  for (;;) {
    const endedBefore = endedAttempts.size;
    const entries = await findEarlier(wanted, journal);
    const foreign = await findForeign(entries, wanted, disk);
    const choice = await chooseOnce(entries, { ...wanted, leaseOf, foreign, entries });
    if (endedAttempts.size === endedBefore) return choice;
  }
}

/**
 * The attempts that may be at this service and have the caller's key, or else the prompt or the hash of the
 * line; newest first.
 */
async function findEarlier(
  { request, key, line, service }: Pick<WantedGeneration, "request" | "key" | "line" | "service">,
  journal: PolicyJournal,
): Promise<Entry[]> {
  const hashes = line ? [line.hash, line.olderHash ?? []].flat() : [];
  const found = await (key === undefined
    ? findByCommand(journal, { prompt: request.prompt, hashes })
    : findByKey(journal, key));
  return found.filter(({ base_url }) => mayBeSameService(base_url, service));
}

/**
 * The attempts, by name, that belong to another project: with other values than the line has now, they are
 * other videos; --again dismisses none of them.
 */
async function findForeign(
  entries: readonly Entry[],
  { line }: Pick<WantedGeneration, "line">,
  disk: PolicyDisk,
): Promise<ReadonlySet<string>> {
  const foreign = new Set<string>();
  for (const entry of entries) if (line && !(await isSameProject(entry, line, disk))) foreign.add(entry.attempt);
  return foreign;
}

/** `entries` has all attempts that may share a key. */
type LeaseContext = Pick<Journal, "leaseOf"> & { entries: readonly Entry[] };

type DecisionContext = Pick<WantedGeneration, "earlier" | "waitedFor"> & {
  key?: unknown;
  take?: Take | undefined;
} & LeaseContext;

type ChooseContext = WantedGeneration & LeaseContext & Pick<CompareContext, "foreign">;

/**
 * Attempts at the same request decide first. If none of them does, those of the same line with other values,
 * and those at another path, can stop it.
 */
async function chooseOnce(entries: readonly Entry[], wanted: ChooseContext): Promise<Choice> {
  const here = entries.filter(({ base_url }) => isSameService(base_url, wanted.service));
  const choice = await chooseSame(here, wanted);
  // A key is sent again whatever else the line has.
  if (choice.kind !== "new" || choice.resends !== undefined) return choice;
  if (wanted.earlier === "again" && wanted.key === undefined) return dismissChanged(choice, here, wanted);
  // For the takes of a run, `chooseRun` has looked for stops.
  if (wanted.take !== undefined) return choice;
  const stop = wanted.key === undefined ? await findChangedStop(findOpen(here, wanted), wanted) : undefined;
  return stop ?? (await findStopElsewhere(entries, wanted)) ?? choice;
}

async function chooseSame(entries: readonly Entry[], wanted: ChooseContext): Promise<Choice> {
  if (wanted.key !== undefined) return chooseByKey(entries, wanted);
  if (wanted.take !== undefined) return chooseTake(entries, wanted);
  const same = entries.filter((entry) => isCandidate(entry, wanted) && isSame(entry, wanted));
  if (wanted.earlier !== "reuse") return chooseFrom(same.reverse(), wanted);
  // Only delivered generations can be too old.
  const recent = datedEntries(same, wanted.now).filter(
    ({ entry, ageMs }) => ageMs < reusableMs || entry.state !== "delivered",
  );
  return chooseFrom(
    recent.map(({ entry }) => entry),
    wanted,
  );
}

/**
 * Each position of a run is started once, at any age, unless it failed. This is also true with `again`, which
 * ignores only other runs, because another process may have taken over this run while this process was
 * suspended.
 */
async function chooseTake(entries: readonly Entry[], wanted: ChooseContext): Promise<Choice> {
  const isSameTake = (entry: Entry) =>
    entry.position === wanted.take?.position &&
    entry.count === wanted.take?.count &&
    isCandidate(entry, wanted) &&
    isSameOutput(entry, wanted) &&
    isSame(entry, wanted);
  const same = entries.filter(isSameTake).toReversed();
  const ofThisRun = same.filter(({ run }) => run === wanted.take?.run);
  const choice = await chooseFrom(ofThisRun, { ...wanted, earlier: "reuse" });
  if (choice.kind !== "new" || wanted.earlier !== "again") return choice;
  const ofOtherRuns = same.filter((entry) => !ofThisRun.includes(entry));
  return chooseFrom(ofOtherRuns, wanted);
}

/** Whether a start may consider an attempt at all: whoever started it, and of whatever request. */
function isCandidate(
  entry: Entry,
  { mcp = false, isPreview, take }: Pick<WantedGeneration, "mcp" | "isPreview"> & { take?: unknown },
): boolean {
  // A deleted video is resumed by nobody, but it still holds its position in a run.
  if (entry.dismissed || (entry.removed && !(take !== undefined && isTakeDone(entry)))) return false;
  // Rows of a batch are in their results file, and attempts with a program's key are found by that key only;
  // those with an agent's key by both.
  if (entry.batch !== undefined || (entry.key !== undefined && !entry.mcp)) return false;
  return (entry.mcp ?? false) === mcp && !differsInPreview(entry.is_preview, isPreview);
}

type CompareContext = Pick<WantedGeneration, "outputPath" | "fullPath" | "earlier" | "parent"> &
  RequestContext & {
    /** The attempts, by name, that belong to another project. */
    foreign: ReadonlySet<string>;
  };

function isSame(entry: Entry, wanted: CompareContext): boolean {
  return compare(entry, wanted)?.length === 0;
}

/**
 * What differs between an attempt and a start: nothing if the request and the output path are the same, and
 * `undefined` if it is another command. Otherwise the command line is the same, and these fields of the
 * request, or "output", have other values, because it does not say them.
 */
function compare(entry: Entry, wanted: CompareContext): string[] | undefined {
  const { outputPath, earlier, line, parent } = wanted;
  const differing = differencesFrom(entry, wanted);
  // A paid video that is not delivered may be saved to any path.
  const isSamePlace = isSameOutput(entry, wanted) || (entry.state === "ready" && earlier !== "again");
  const isRequest = differing.length === 0 && (parent === undefined || entry.parent === parent);
  if (isRequest && (isSamePlace || earlier === "reuse")) return [];
  if (!line || !isSameLine(entry, line) || line.isAnswered) return undefined;
  if (entry.parent !== parent || wanted.foreign.has(entry.attempt)) return undefined;
  // At another output path that was typed, it is another video.
  if (!isSamePlace && (line.isPlaceTyped || entry.place_typed)) return undefined;
  const named = entry.typed === line.hash ? differing : differing.filter((name) => name !== "model");
  if (!isSamePlace && outputPath !== undefined) named.push("output");
  return named.length > 0 ? named : undefined;
}

/** Whether an attempt has the same output path: as typed, or as another spelling of the same full path. */
export function isSameOutput(
  { place, path }: Pick<Entry, "place" | "path">,
  { outputPath, fullPath }: RecordedOutput,
): boolean {
  if (place === outputPath || (place !== undefined && readVariable(place) === outputPath)) return true;
  if (fullPath === undefined) return false;
  const spell = (full: string) => {
    const name = full.replace(/[/\\]+$/, "");
    return fullPath.foldsCase ? name.normalize().toLowerCase().replaceAll("\\", "/") : name;
  };
  // Older versions did not replace the `~` of a setting, a row or vidgen.json by the home folder.
  const [, inHome] = /^(?:\.\.[/\\])*~([/\\].*)$/.exec(place ?? "") ?? [];
  if (inHome !== undefined && spell(fullPath.path).endsWith(spell(inHome))) return true;
  return path !== undefined && spell(path) === spell(fullPath.path);
}

/**
 * Prefers an attempt that can be resumed, since its video was paid for; then the first that stops the start.
 * A key is sent again only if no other attempt at the same request may have been charged, because the service
 * may have received that other attempt, and not the one with this key.
 */
async function chooseFrom(entries: readonly Entry[], wanted: ChooseContext): Promise<Choice> {
  const dismissed: Entry[] = [];
  const stops: Stop[] = [];
  for (const entry of entries) {
    const decision = await decideFor(entry, wanted);
    if (decision.action === "dismiss" && !wanted.foreign.has(entry.attempt)) dismissed.push(entry);
    const choice = choiceOf(entry, decision);
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

/** Sends a key again that the service remembers, with the frame that it was sent with; otherwise refuses. */
function resendIfKept(refusal: Stop & { kind: "refuse" }, { keptKey, request }: WantedGeneration): Choice {
  const isSent = keptKey && keptKey.key === refusal.key && isSameRequest(refusal.entry, { request });
  return isSent ? { kind: "new", dismissed: [], resends: keptKey } : refusal;
}

/**
 * A caller's key always identifies the same start, so the newest relevant attempt with the key decides. A
 * dismissed attempt counts only if it has a generation. Throws `usage` for another request.
 */
async function chooseByKey(entries: readonly Entry[], wanted: ChooseContext): Promise<Choice> {
  for (const entry of entries) {
    if (!isSameRequest(entry, wanted))
      throw usage(`The idempotency key ${wanted.key} was used for another request. Nothing was sent.`);
    if (entry.removed) return { kind: "refuse", entry, because: "removed" };
    // Whoever dismissed an attempt has checked that it was not charged.
    const isDismissed = entry.dismissed && blocksRestart(entry.state);
    const choice = isDismissed ? undefined : choiceOf(entry, await decideFor(entry, wanted));
    if (choice) return choice.kind === "refuse" ? resendIfKept(choice, wanted) : choice;
  }
  return { kind: "new", dismissed: [], firstSentAt: firstSendOf(entries) };
}

type Decision = { action: Action; state: AttemptState; lease: string };

type FoundLease = { name: string; state: LeaseState };

/**
 * What a start does about an attempt. Attempts that share a key are one: whichever has an id decides, and any
 * process that has one has all.
 */
async function decideFor(
  entry: Entry,
  { key, earlier, waitedFor, take, entries, leaseOf }: DecisionContext,
): Promise<Decision> {
  const { attempt } = entry;
  let lease: FoundLease = { name: attempt, state: isWorkedOn(entry.state) ? await leaseOf(attempt) : "dead" };
  let { state } = entry;
  if (isOpen(entry)) {
    const others = entries.filter((each) => each.attempt !== attempt && sharesKey(each, entry));
    if (others.some(hasGeneration)) return { action: "pass", state, lease: attempt };
    // A process that ended, or another attempt with the key, leaves open whether the key was charged.
    if (lease.state === "dead" || others.some(isOpen)) state = "unknown";
    // This process has the lease of its own run.
    const run = entry.run === take?.run ? undefined : entry.run;
    const names = [attempt, ...others.map((each) => each.attempt), ...(run === undefined ? [] : [run])];
    if (state === "unknown") lease = await findSharedLease(names, leaseOf);
  }
  const mode = waitedFor?.has(keyOf(entry)) ? "reuse" : earlier;
  const situation = { state, lease: lease.state, isIdHandedOver: isIdHandedOver(entry) };
  return { action: decide(situation, key === undefined ? mode : "key"), state, lease: lease.name };
}

/** The lease that decides about attempts that share a key: that of a live process, if any has one of them or their run. */
async function findSharedLease(names: readonly string[], leaseOf: Journal["leaseOf"]): Promise<FoundLease> {
  const leases: FoundLease[] = [];
  for (const name of names) leases.push({ name, state: await leaseOf(name) });
  const [first] = ["alive", "unsure", "dead"].flatMap((state) => leases.filter((lease) => lease.state === state));
  return first as FoundLease;
}

/** Whether the attempt may have been charged, and nobody knows its generation. */
function isOpen({ state, dismissed = false }: Entry): boolean {
  return !dismissed && (state === "sending" || state === "unknown");
}

function hasGeneration({ id, state, dismissed = false }: Entry): boolean {
  return !dismissed && id !== undefined && state !== "unknown" && state !== "refused";
}

/**
 * With `again`, also dismisses unfinished attempts of the same command with other values, and the generations
 * of its unfinished run.
 */
async function dismissChanged(
  choice: Choice & { kind: "new" },
  entries: readonly Entry[],
  wanted: ChooseContext,
): Promise<Choice> {
  const { take } = wanted;
  const atPosition = ({ run, position }: Entry) =>
    take === undefined || (run !== take.run && position === take.position);
  const dismissed = new Set(choice.dismissed);
  for (const { entry } of findOpen(entries, { ...wanted, count: take?.count })) {
    if (!atPosition(entry) || wanted.foreign.has(entry.attempt)) continue;
    const decision = await decideForChanged(entry, wanted);
    if (decision.action === "watch") return waitFor(entry, decision);
    if (decision.action === "dismiss") dismissed.add(entry);
  }
  return { ...choice, dismissed: [...dismissed] };
}

/** `differing` is empty for the same request and output path. */
type OpenAttempt = { entry: Entry; differing: readonly string[] };

type OpenContext = CompareContext & Pick<WantedGeneration, "mcp" | "isPreview"> & { count?: number | undefined };
/** The request that a command has now for an attempt: for one of several, that at its position. */
type RequestOf = (entry: Entry) => StartRequest | undefined;

/**
 * The attempts of the same command that are unfinished, or done while their run of `count` is not. Unfinished
 * attempts come first, then the oldest.
 */
function findOpen(
  entries: readonly Entry[],
  wanted: OpenContext,
  requestOf: RequestOf = () => wanted.request,
): OpenAttempt[] {
  const { count, isPreview } = wanted;
  const ofRuns = entries.filter((entry) => count !== undefined && entry.count === count);
  const open = entries.toReversed().flatMap((entry) => {
    if (!isUnfinished(entry) && !(ofRuns.includes(entry) && isOfUnfinishedRun(entry, ofRuns))) return [];
    const request = differsInPreview(entry.is_preview, isPreview) ? undefined : requestOf(entry);
    const differing = request && compare(entry, { ...wanted, request });
    return differing ? { entry, differing } : [];
  });
  return open.sort((one, other) => Number(isUnfinished(other.entry)) - Number(isUnfinished(one.entry)));
}

/**
 * The first attempt at another path of the same origin by which the start would be resumed or stopped if it
 * were at this service.
 */
async function findStopElsewhere(
  entries: readonly Entry[],
  wanted: OpenContext & DecisionContext & Pick<WantedGeneration, "service">,
  requestOf: RequestOf = () => wanted.request,
): Promise<WaitChoice | StopElsewhere | undefined> {
  const { key, service } = wanted;
  for (const entry of entries.toReversed()) {
    if (isSameService(entry.base_url, service) || isClosed(entry)) continue;
    const request = requestOf(entry);
    const isOfCommand = isCandidate(entry, wanted) && request && compare(entry, { ...wanted, request });
    if (key === undefined && !isOfCommand) continue;
    const choice = choiceOf(entry, await decideFor(entry, { ...wanted, earlier: "resume", key: undefined }));
    if (choice?.kind === "wait") return choice;
    if (choice) return { kind: "refuse", entry, because: "elsewhere" };
  }
  return undefined;
}

/**
 * A request as this version reads it: older versions did not trim the model of VIDGEN_MODEL and of settings
 * or remove its quotes, and sent 16:09 for 16:9.
 */
export function asRead(request: StartRequest): StartRequest {
  const read: StartRequest = { ...request, model: readVariable(request.model) };
  return typeof read.aspectRatio === "string" ? { ...read, aspectRatio: readRatio(read.aspectRatio) } : read;
}

/**
 * The request of a key that is sent again: the fields that older versions read in another way are those of
 * the recorded request.
 */
export function asSent(request: StartRequest, { model, aspectRatio }: StartRequest): StartRequest {
  return { ...request, model, ...(aspectRatio !== undefined && { aspectRatio }) };
}

type RequestContext = Pick<WantedGeneration, "from" | "line"> & { request: StartRequest | undefined };

function isSameRequest(entry: Entry, wanted: RequestContext): boolean {
  return differencesFrom(entry, wanted).length === 0;
}

/**
 * The names of the fields in which a request differs from that of an attempt. If both begin with the last frame
 * of the same video, the frame does not count: it may not be extracted yet, or by another version of ffmpeg.
 */
function differencesFrom(entry: Entry, { request, from, line }: RequestContext): string[] {
  const isSameFile = line?.isFromFile === true && isSameLine(entry, line);
  const isSameVideo = isSameFile || (from !== undefined && entry.from === from);
  const read = (each: StartRequest) => asRead(isSameVideo ? withoutImage(each) : each);
  return differencesOf(request ? read(request) : {}, read(entry.request));
}

/** The names of the fields in which two requests differ. */
export function differencesOf(one: Record<string, unknown>, other: Record<string, unknown>): string[] {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names].filter((name) => !isDeepStrictEqual(one[name], other[name]));
}

async function findChangedStop(
  open: readonly OpenAttempt[],
  context: DecisionContext,
): Promise<WaitChoice | ChangedLine | undefined> {
  const stops: (WaitChoice | ChangedLine)[] = [];
  const changed = open.filter(({ differing }) => differing.length > 0);
  for (const { entry, differing } of changed) {
    const decision = await decideForChanged(entry, { ...context, earlier: "resume" });
    const { action } = decision;
    const ids = changed.flatMap(({ entry: { run, id } }) => (run === entry.run && id !== undefined ? [id] : []));
    const runIds = isUnfinished(entry) ? undefined : ids;
    if (action === "wait" || action === "watch") stops.push(waitFor(entry, decision));
    else if (action !== "pass") stops.push({ kind: "refuse", entry, because: "changed", runIds, differing });
  }
  const isFollowable = ({ kind, entry }: Stop) => kind === "refuse" && isStarted(entry) && isUnfinished(entry);
  return stops.find(isFollowable) ?? stops[0];
}

/**
 * What a start does about an attempt of a changed line. An attempt that is done counts as running while its
 * run is unfinished.
 */
async function decideForChanged(entry: Entry, context: DecisionContext): Promise<Decision> {
  const { run } = entry;
  if (isUnfinished(entry) || run === undefined) return decideFor(entry, { ...context, key: undefined });
  const lease = await context.leaseOf(run);
  return { action: decide({ state: "running", lease }, context.earlier), state: "running", lease: run };
}

/** The generations of one command: one for each request. */
export type WantedRun = Omit<WantedGeneration, "request" | "key" | "take" | "keptKey"> & {
  requests: readonly StartRequest[];
};

/** What a command for several generations does next. */
export type RunChoice =
  /** `entry` is one of its attempts. */
  | WaitChoice
  | ChangedLine
  | StopElsewhere
  /** `positions` has one for each request, in the same order. `isJoined` is set while a live process has the run. */
  | { kind: "run"; name: string | undefined; positions: readonly RunPosition[]; isJoined?: boolean };

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
 * Chooses the run that a command for several generations continues: the newest incomplete run of the same
 * requests, in any order of their models, that no live process has. A result without a name is a new run.
 * Must be called under the journal's lock.
 */
export async function chooseRun(wanted: WantedRun, journal: PolicyJournal, disk: PolicyDisk): Promise<RunChoice> {
  const { requests, service } = wanted;
  const positions = positionsOf(requests);
  const emptyPositions = positions.map((position) => ({ position, attempt: undefined }));
  const newRun: RunChoice = { kind: "run", name: undefined, positions: emptyPositions };
  if (wanted.earlier === "again") return newRun;
  const requestAt = new Map(requests.map((request, index) => [positions[index], request]));
  const [request] = requests as [StartRequest];
  const found = await findEarlier({ ...wanted, request, key: undefined }, journal);
  const entries = found.filter(({ run, count }) => run !== undefined && count === requests.length);
  const foreign = await findForeign(entries, wanted, disk);
  const { leaseOf } = journal;
  const context = { ...wanted, request, key: undefined, foreign, leaseOf, entries: found, count: requests.length };
  const requestOf = ({ position }: Entry) => requestAt.get(position);
  const here = entries.filter(({ base_url }) => isSameService(base_url, service));
  // Newest first.
  for (const [name, takes] of groupBy(here, ({ run = "" }) => run)) {
    // Another command's run may have equal requests at some positions only, such as `-n 2` and two models.
    if (!takes.every((take) => isSameRequest(take, { ...wanted, request: requestOf(take) }))) continue;
    const own = takes.filter(
      (take) => take.parent === wanted.parent && isSameOutput(take, wanted) && isCandidate(take, { ...wanted, take }),
    );
    const [entry] = own;
    if (entry === undefined) continue;
    const runPositions = positions.map((position) => ({
      position,
      attempt: own.find((each) => each.position === position && isMade(each.state)),
    }));
    const hasWaited = own.some((take) => wanted.waitedFor?.has(keyOf(take)));
    if (!hasWaited && runPositions.every(({ attempt }) => attempt && isTakeDone(attempt))) continue;
    const lease = await leaseOf(name);
    if (lease === "unsure") return { kind: "wait", entry, because: "unsure", lease: name };
    const unknown = lease === "alive" ? await findUnknownTake(own, leaseOf) : undefined;
    if (unknown) return { kind: "wait", entry: unknown, because: "unknown", lease: name };
    if (lease === "dead" || hasWaited)
      return { kind: "run", name, positions: runPositions, isJoined: lease === "alive" };
  }
  const stop = await findChangedStop(findOpen(here, context, requestOf), context);
  return stop ?? (await findStopElsewhere(entries, context, requestOf)) ?? newRun;
}

/** An attempt of a run that may have been charged: it got no usable response, or its process ended before. */
async function findUnknownTake(takes: readonly Entry[], leaseOf: Journal["leaseOf"]): Promise<Entry | undefined> {
  for (const take of takes) {
    const isGone = take.state === "sending" && (await leaseOf(take.attempt)) === "dead";
    const isAnswered = takes.some((each) => sharesKey(each, take) && hasGeneration(each));
    if ((take.state === "unknown" || isGone) && !isAnswered) return take;
  }
  return undefined;
}

type WantedLine = Pick<WantedGeneration, "earlier" | "now"> & {
  /** Whether an attempt has the output path of the command. */
  isOutputOf(entry: Entry): boolean;
};

/**
 * From the attempts of one typed command, newest first, returns the attempt that the same command would
 * resume or be stopped by; `undefined` if the command would start a new generation. Follows the rules of a
 * start: the oldest candidate first, and a completed video may be saved to any path.
 */
export function findResumable(entries: readonly Entry[], { earlier, now, isOutputOf }: WantedLine): Entry | undefined {
  const isResumable = ({ entry, ageMs }: DatedEntry) => {
    if (entry.run !== undefined) return !entry.dismissed && isOutputOf(entry) && !isRunDone(entry, entries);
    if (isClosed(entry)) return false;
    if (earlier === "reuse" && (isIdHandedOver(entry) || (entry.state === "delivered" && ageMs < reusableMs)))
      return true;
    const fitsAnywhere = earlier === "reuse" || (entry.state === "ready" && earlier !== "again");
    return isUnfinished(entry) && (fitsAnywhere || isOutputOf(entry));
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
 * Whether an attempt is done for its command: its result, or with `--no-wait` its id, was returned. It stays
 * done when the service deletes its video, or when its file is missing.
 */
export function isTakeDone(entry: Entry): boolean {
  const wasTold = entry.told === true && entry.removed === true && isMade(entry.state);
  return entry.state === "delivered" || isIdHandedOver(entry) || wasTold;
}

/** Whether a process may be working on an attempt; otherwise its lease does not matter. */
function isWorkedOn(state: AttemptState): boolean {
  return state === "sending" || state === "unknown" || state === "running" || state === "ready";
}

function waitFor(entry: Entry, { action, state, lease }: Decision): WaitChoice {
  const reason = state === "unknown" ? "unknown" : "starting";
  return { kind: "wait", entry, because: action === "watch" ? "unsure" : reason, lease };
}

function choiceOf(entry: Entry, decision: Decision): Exclude<Choice, { kind: "new" }> | undefined {
  const { action } = decision;
  if (action === "wait" || action === "watch") return waitFor(entry, decision);
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
