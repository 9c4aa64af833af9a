import { setMaxListeners } from "node:events";
import { createBoundedMap } from "../bounded-map.ts";
import { type Capacity, createCapacity } from "../capacity.ts";
import type { Engine } from "../engines/engine.ts";
import { createLoop } from "../loop.ts";
import { isUnavailable } from "../observe/problem.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { Change, Progress } from "../store/change.ts";
import type { Claim, NamedNeeds, Waiting, Wanted } from "../store/claims.ts";
import type { StoredGeneration } from "../store/generations.ts";
import { needsOf } from "../store/needs.ts";
import type { Store } from "../store/store.ts";
import type { Outage } from "./breaker.ts";
import type { EndOptions } from "./end.ts";
import { limitFailing } from "./image-fetch.ts";
import { type Plan, runJob } from "./job.ts";
import { createRetired, type Retired } from "./retired.ts";
import { groupEngines, listAvoided, nextToFetch, nextToMake } from "./scheduler.ts";
import {
  askTaken,
  canMake,
  createSlots,
  type EngineSlots,
  engineStateOf,
  isAsked,
  occupy,
  slotNameOf,
} from "./slots.ts";
import { createUnservableFinder, findMissingReason } from "./unservable.ts";

export type Queue = {
  /** Begins to process the generations of the store: all, or only those started or polled from now on. */
  start(resume: "all" | "polled"): void;
  /** Resumes a generation that was polled. */
  resume(id: string): void;
  /** Must be called for each change of any process. */
  onChange(change: Change): void;
  /** How much of a video is made; `undefined` if its engine has not reported any progress. */
  progressOf(id: string): Progress | undefined;
  /** Why a generation was not submitted to an engine yet; `undefined` if it was or may have been, and for a preview. */
  whyNotSubmitted(generation: WaitingGeneration): string | undefined;
  /** Why an engine accepts no generations; `undefined` if it does. */
  outageOf(engine: Engine): Outage | undefined;
  /** How many jobs each engine runs for all processes that share the store (a preview: for this process), and how many more it can take. */
  loads(): { engine: Engine; running: number; free: number }[];
  /** Applies the current `engines`. An engine that is no longer in the list drains: its generations end, and it gets no others. */
  updateEngines(): void;
  /** Finds an engine by its name, including draining engines. */
  engineOf(name: string): Engine | undefined;
  /** The draining engines, and the engines with generations that no process uses. */
  retiredEngines(): Promise<Retired[]>;
  /** The names of the engines with generations that no process uses. */
  missingEngines(): string[];
  /** The waiting generations that no process makes, of all models. */
  waitingGenerations(): Promise<Waiting[]>;
  /** Stops the jobs that run. They stay unfinished in the store, and the next process resumes them. */
  close(): Promise<void>;
};

type WaitingGeneration = Pick<StoredGeneration, "status" | "request" | "checkpoint" | "imageFetch">;

export type QueueOptions = Omit<EndOptions, "signal" | "confirm" | "loading"> &
  Pick<ServiceParts, "engines" | "reopen" | "isCommand" | "onNote" | "onTaken" | "onCreate">;

/** The maximum number of generations that have their request and images in memory at once. */
const maxLoading = 4;
/** How often to poll for generations that another process left unfinished. */
const sharedPollMs = 1_000;
/** All processes are notified of each start, and would otherwise query the database at the same time. */
const sharedPauseMs = 50;
const storeRetryMs = 10_000;
/** How often to check for generations that no engine makes. A command checks more often, because a person waits for the result. */
const defaultCheckMs = 60_000;
const commandCheckMs = 1_000;
/** How often a command retries an engine that does not answer. */
const commandRetryMs = 8_000;
/** The maximum number of submitted generations to claim at once. */
const maxClaimed = 100;
/** The maximum number of generations whose progress is kept. */
const maxProgresses = 10_000;

/** A generation that this process makes. */
type Job = {
  account: string;
  kind: Plan["kind"];
  cancelled: AbortController;
  done: Promise<void>;
};

type QueueState = {
  options: QueueOptions;
  /** Draining engines come last. */
  allSlots: EngineSlots[];
  /** The lists of names of the waiting generations, as of the last poll. */
  named: readonly NamedNeeds[];
  retired: ReturnType<typeof createRetired>;
  jobs: Map<string, Job>;
  /** The generations whose images this process could not fetch, until it may try again. */
  givenBack: Set<string>;
  /** The ids of the only generations to process; `undefined` for all. */
  wantedIds: Set<string> | undefined;
  loading: Capacity;
  unservable: ReturnType<typeof createUnservableFinder>;
  /** When this process last checked for generations that no engine makes. */
  checkedAt: number;
  stop: AbortController;
  /** Makes the queue poll again. */
  wake(): void;
};

/**
 * Processes generations until they are completed or failed. When an engine has room, the queue claims a generation that this engine can make;
 * accounts take turns, each with its oldest generation.
 */
export function createQueue(given: QueueOptions): Queue {
  const options = { ...given, get: limitFailing(given.get) };
  const { store, clock, reportProblem, onNote, isCommand } = options;
  const stop = new AbortController();
  // Every job listens to this signal; Node would warn of a leak at the eleventh.
  setMaxListeners(0, stop.signal);
  const addSlots = (engine: Engine) => {
    const slots: EngineSlots = createSlots(engine, {
      clock,
      onCreate: (created) => options.onCreate?.(slots.engine, created),
      onChange: (outage) => onNote(outageLine(slots, outage, options)),
      maxUnreachableRetryMs: isCommand ? commandRetryMs : undefined,
    });
    return slots;
  };
  const allSlots = usedEngines(options).map(addSlots);
  let isStarted = false;
  const state: QueueState = {
    options,
    allSlots,
    named: [],
    retired: createRetired({
      ...options,
      isMaking: () => usedEngines(options).length > 0,
      usedNames: () => [...options.engines, ...allSlots.map(({ engine }) => engine)].map(({ name }) => name),
      onOpen(engine) {
        allSlots.push(addSlots(toDraining(engine)));
        state.wake();
      },
      signal: stop.signal,
    }),
    jobs: new Map(),
    givenBack: new Set(),
    wantedIds: undefined,
    loading: createCapacity(maxLoading),
    unservable: createUnservableFinder({ allSlots, store, isCommand, clock, reportProblem }),
    checkedAt: Number.NEGATIVE_INFINITY,
    stop,
    wake: () => void (isStarted && loop.wake()),
  };
  const loop = createLoop(() => poll(state), { clock, pauseMs: store.isShared ? sharedPauseMs : 0 });
  /** Bounded, because the ends of generations are missed during an outage of the database. */
  const progresses = createBoundedMap<Progress>(maxProgresses);

  return {
    start(resume) {
      if (resume === "polled") state.wantedIds = new Set();
      isStarted = true;
      state.wake();
    },
    resume(id) {
      if (!state.wantedIds || state.wantedIds.has(id)) return;
      state.wantedIds.add(id);
      state.wake();
    },
    onChange(change) {
      if (change.kind === "cancelled")
        state.jobs.get(change.id)?.cancelled.abort(new Error("the generation was cancelled"));
      if (change.kind === "progress") progresses.set(change.id, change);
      if (change.kind === "servable") state.unservable.noteServable(change.needs);
      if (change.kind === "missed") state.unservable.noteServable();
      if (change.kind !== "generation") return;
      progresses.delete(change.id);
      state.wantedIds?.add(change.id);
      state.wake();
    },
    progressOf: (id) => progresses.get(id),
    whyNotSubmitted: (generation) => findWaitReason(generation, allSlots, store),
    loads: () =>
      allSlots.map(({ engine, jobs }) => ({ engine, running: jobs, free: Math.max(0, engine.concurrency - jobs) })),
    outageOf: (engine) => allSlots.find((slots) => slots.engine === engine)?.breaker.outage(),
    updateEngines() {
      const nextEngines = usedEngines(options);
      const slotNames = nextEngines.map(slotNameOf);
      const unmatched = [...allSlots];
      const usedSlots = nextEngines.map((engine, index) => {
        const name = slotNames[index];
        // An engine whose models have changed keeps its jobs.
        const candidates = unmatched.filter((slots) => isSameEngine(slots.engine, engine));
        const match =
          candidates.find((slots) => slots.name === name) ??
          candidates.find((slots) => !slotNames.includes(slots.name));
        if (!match) return addSlots(engine);
        unmatched.splice(unmatched.indexOf(match), 1);
        return Object.assign(match, { engine, name, taken: new Map(), askedAt: new Map() });
      });
      // Another engine with the same address follows what was submitted to this one.
      const isDropped = ({ engine }: EngineSlots) =>
        !engine.isSimulation && !usedSlots.some((slots) => slots.engine.name === engine.name);
      const draining = unmatched.filter(isDropped);
      for (const slots of draining) slots.engine = toDraining(slots.engine);
      allSlots.splice(0, allSlots.length, ...usedSlots, ...draining);
      state.checkedAt = Number.NEGATIVE_INFINITY;
      state.wake();
    },
    engineOf: (name) => allSlots.find(({ engine }) => engine.name === name)?.engine,
    async retiredEngines() {
      const names = allSlots.flatMap(({ engine }) => (isDraining(engine) ? [engine.name] : []));
      return state.retired.list(await store.begun(), names);
    },
    missingEngines: () => state.retired.missingEngines(),
    waitingGenerations: () => store.waiting(claimFilter(state)),
    async close() {
      stop.abort(new Error("the service is stopping"));
      await loop.close();
      await Promise.all([...state.jobs.values()].map(({ done }) => done));
    },
  };
}

/** Begins the jobs for which there is room. Resolves with the milliseconds until the next poll. */
async function poll(state: QueueState): Promise<number> {
  const { options, allSlots } = state;
  const { store, reportProblem } = options;
  let nextMs: number;
  try {
    // With --jobs 0, this process makes no videos, and leaves all generations to the others.
    if (allSlots.length === 0 && options.engines.length > 0) {
      await state.retired.poll();
      return defaultCheckMs;
    }
    await resumeSubmitted(state);
    await readSlots(state);
    await readNamed(state);
    const states = allSlots.map((slots) => engineStateOf(slots, state.named));
    for (const group of groupEngines(states)) await claimNew(state, new Set(group.map(({ slots }) => slots)));
    await fetchImages(state);
    nextMs = await failWaiting(state);
  } catch (error) {
    // A database on another machine reports its outage itself.
    if (!isUnavailable(error)) reportProblem("The queue could not be read", error);
    return store.isShared ? sharedPollMs : storeRetryMs;
  }
  const pauses = allSlots.map(({ breaker }) => breaker.pauseMs()).filter((ms) => ms > 0);
  return Math.min(store.isShared ? sharedPollMs : nextMs, ...pauses);
}

/** Resumes generations that were submitted, even without room, because their engines already make them. Ends those whose submission is unclear. */
async function resumeSubmitted(state: QueueState): Promise<void> {
  const { allSlots } = state;
  const engines = allSlots.map(({ engine }) => engine.name);
  let found: Claim[];
  do {
    found = await claim(state, { kind: "begun", engines }, { limit: maxClaimed });
    for (const claimed of found) {
      const slots = allSlots.find(({ engine }) => engine.name === claimed.engine);
      begin(state, claimed, slots ? { kind: "make", slot: occupy(slots, claimed) } : { kind: "unclear" });
    }
  } while (found.length === maxClaimed);
}

/** Reads which slots the processes that share the store have taken. */
async function readSlots({ allSlots, options }: QueueState): Promise<void> {
  // Excludes previews, because each process has preview slots of its own.
  const sharedSlots = allSlots.filter(({ engine }) => !engine.isSimulation);
  const takenSlots = sharedSlots.length > 0 ? await options.store.slots?.() : undefined;
  if (takenSlots) for (const slots of sharedSlots) slots.jobs = takenSlots.get(slots.name) ?? 0;
}

/** Reads which fields the waiting generations name, and asks the engines which they take. */
async function readNamed(state: QueueState): Promise<void> {
  const { allSlots, options, wake } = state;
  if (allSlots.every(({ engine }) => engine.isSimulation)) return;
  state.named = await options.store.named();
  const models = [...new Set(state.named.map(({ model }) => model))];
  for (const slots of allSlots) askTaken(slots, models, { clock: options.clock, onChange: wake });
}

/** Claims generations until the engines of a group have no room. */
async function claimNew(state: QueueState, group: ReadonlySet<EngineSlots>): Promise<void> {
  const statesOf = (slots: Iterable<EngineSlots>) => Array.from(slots, (each) => engineStateOf(each, state.named));
  for (const avoided of listAvoided(statesOf(group))) {
    const remaining = new Set(group);
    for (;;) {
      const next = nextToMake(statesOf(remaining));
      if (!next) break;
      const { engine, wanted, limit, denied } = next;
      const found = await claim(state, wanted, { limit, avoided: [...avoided, ...denied] });
      for (const claimed of found) begin(state, claimed, { kind: "make", slot: occupy(engine.slots, claimed) });
      if (found.length > 0) continue;
      // Nothing waits, or another process was faster and fills the other engines of the group.
      if (denied.length === 0) break;
      remaining.delete(engine.slots);
    }
  }
}

/** Fetches images before an engine has room, so that a slow image server delays no other generation. */
async function fetchImages(state: QueueState): Promise<void> {
  const engines = state.allSlots.map(({ engine }) => engine);
  for (;;) {
    const accounts = [...state.jobs.values()].flatMap(({ kind, account }) => (kind === "fetch" ? [account] : []));
    const wanted = nextToFetch(engines, { accounts, date: state.options.clock.date() });
    const [claimed] = wanted ? await claim(state, wanted, { limit: 1 }) : [];
    if (!claimed) return;
    begin(state, claimed, { kind: "fetch" });
  }
}

/** Ends generations that no engine can make. Resolves with the milliseconds until the next check. */
async function failWaiting(state: QueueState): Promise<number> {
  const { options, unservable } = state;
  const { clock, store } = options;
  const checkMs = options.isCommand ? commandCheckMs : defaultCheckMs;
  const leftMs = state.checkedAt + checkMs - clock.now();
  if (leftMs > 0) return leftMs;
  state.checkedAt = clock.now();
  if (!options.isCommand) await endDraining(state);
  const all = await store.waiting(claimFilter(state));
  for (const waiting of all) {
    const found = unservable.find(waiting);
    if (!found) continue;
    const { needs, startedBefore, ...end } = found;
    const failing = await claim(state, { ...needs, kind: "same", startedBefore }, { limit: maxLoading });
    for (const claimed of failing) begin(state, claimed, { kind: "failed", ...end, isNotSubmitted: true });
    // Only a few are loaded at once; the next poll ends the others.
    if (failing.length > 0) state.checkedAt = Number.NEGATIVE_INFINITY;
  }
  return all.length > 0 || state.allSlots.some(({ engine }) => isDraining(engine)) ? checkMs : Number.POSITIVE_INFINITY;
}

/** Forgets drained engines, and finds engines with generations that an earlier process left. */
async function endDraining({ retired, allSlots, options }: QueueState): Promise<void> {
  const begun = await retired.poll();
  const isDrained = ({ engine, jobs }: EngineSlots) =>
    isDraining(engine) && jobs === 0 && !begun.some((each) => each.engine === engine.name);
  for (const slots of allSlots.filter(isDrained)) {
    allSlots.splice(allSlots.indexOf(slots), 1);
    options.onNote(`${slots.engine.name} has finished what was submitted to it, and is no longer used.`);
  }
}

function usedEngines({ engines }: Pick<QueueOptions, "engines">): Engine[] {
  return engines.filter(({ concurrency }) => concurrency > 0);
}

/** Returns an engine that finishes what was submitted to it, and makes nothing else. */
function toDraining(engine: Engine): Engine {
  return { ...engine, models: [], concurrency: 0 };
}

function isDraining({ concurrency, models }: Engine): boolean {
  return concurrency === 0 && models.length === 0;
}

/** Whether an engine is the same as before; its jobs, key and models may differ. */
function isSameEngine(before: Engine, now: Engine): boolean {
  return before.name === now.name && before.upstreamModel === now.upstreamModel;
}

/** Begins a job, which runs until its generation has ended or is released. */
function begin(state: QueueState, claimed: Claim, plan: Plan): void {
  const { options, allSlots, loading, jobs, givenBack, stop, wake } = state;
  const { id, account, lost } = claimed;
  const cancelled = new AbortController();
  const signal = AbortSignal.any([stop.signal, lost, cancelled.signal]);
  const done = runJob(claimed, plan, {
    ...options,
    allSlots,
    loading,
    signal,
    cancelled: cancelled.signal,
    onGivenBack(retryMs) {
      givenBack.add(id);
      // Another process, which may have other rules for addresses, gets the next try if it wants it.
      const againMs = retryMs + (options.store.isShared ? 2 * sharedPollMs : 0);
      options.clock.sleep(againMs, stop.signal).then(
        () => {
          givenBack.delete(id);
          wake();
        },
        () => {},
      );
    },
    onRoom: wake,
  }).then((isEnded) => {
    if (isEnded) state.wantedIds?.delete(id);
    jobs.delete(id);
    wake();
  });
  jobs.set(id, { account, kind: plan.kind, cancelled, done });
}

function claimFilter({ jobs, givenBack, wantedIds }: QueueState) {
  return { except: [...jobs.keys(), ...givenBack], ids: wantedIds && [...wantedIds] };
}

function claim(
  state: QueueState,
  wanted: Wanted,
  { limit, avoided = [] }: { limit: number; avoided?: readonly string[] },
): Promise<Claim[]> {
  const { except, ids } = claimFilter(state);
  return state.options.store.claim(wanted, { except: [...except, ...avoided], ids, limit });
}

function findWaitReason(
  generation: WaitingGeneration,
  allSlots: readonly EngineSlots[],
  { isShared }: Pick<Store, "isShared">,
): string | undefined {
  const { status, checkpoint, imageFetch } = generation;
  if (status !== "processing" || checkpoint !== null) return undefined;
  if (imageFetch && "problem" in imageFetch)
    return `${imageFetch.problem}; it is asked for again at ${imageFetch.nextAt}`;
  const needs = needsOf(generation);
  const suitableSlots = allSlots.filter((slots) => canMake(slots, needs));
  // Another process of a shared store may have an engine for it.
  if (suitableSlots.length === 0)
    return isShared || allSlots.some((slots) => isAsked(slots, needs)) ? undefined : findMissingReason(needs, allSlots);
  if (suitableSlots.some(({ engine }) => engine.isSimulation)) return undefined;
  const outages = suitableSlots.flatMap(({ engine: { name }, breaker }) => {
    const reason = breaker.outage()?.reason.replace(/\.$/, "");
    return reason === undefined ? [] : [`${name}: ${reason}`];
  });
  const isWaiting = outages.length < suitableSlots.length;
  return isWaiting ? `it waits for ${suitableSlots.map(({ engine }) => engine.name).join(" or ")}` : outages.join("; ");
}

function outageLine(
  { engine: { name }, hasJobs }: EngineSlots,
  outage: Outage | undefined,
  { isCommand }: Pick<QueueOptions, "isCommand">,
): string {
  if (!outage) return `${name} accepts generations again.`;
  const waiting = `Waiting for ${name}: ${outage.reason.replace(/\.$/, "")}.`;
  if (isCommand) return hasJobs ? waiting : `${waiting} Nothing was submitted to it yet.`;
  const since = outage.since.toISOString();
  return `${name} has accepted no generations since ${since}: ${outage.reason}. New ones go to other engines that serve their model, or wait.`;
}
