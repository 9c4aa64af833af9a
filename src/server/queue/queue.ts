import { setMaxListeners } from "node:events";
import { type Capacity, createCapacity } from "../capacity.ts";
import type { Engine } from "../engines/engine.ts";
import { createLoop } from "../loop.ts";
import { isUnavailable } from "../observe/trouble.ts";
import { createRecent } from "../recent.ts";
import type { Change, Progress } from "../store/change.ts";
import type { Claim, Waiting, Wanted } from "../store/claims.ts";
import type { StoredGeneration } from "../store/generations.ts";
import { needsOf } from "../store/needs.ts";
import type { Store } from "../store/store.ts";
import type { Created, Outage } from "./breaker.ts";
import type { EndOptions } from "./end.ts";
import { type Plan, runJob } from "./job.ts";
import { createLackFinder } from "./lacks.ts";
import { canMake, groupEngines, isOut, listAvoided, nextToFetch, nextToMake, partOf, pickEngine } from "./scheduler.ts";
import { createSlots, type EngineSlots, engineStateOf, occupy, type Slot } from "./slots.ts";
import { createTurns } from "./turns.ts";
import { createWaitlist } from "./waitlist.ts";

export type Queue = {
  /** Begins to make what is in the store: all of it, or only what is started or polled from now on. */
  start(resume: "all" | "polled"): void;
  /** Goes on with a generation that was polled. */
  resume(id: string): void;
  /** Is to be called for each change of any process. */
  onChange(change: Change): void;
  /** How much of a video is made; `undefined` when its engine has not told. */
  progressOf(id: string): Progress | undefined;
  /** Why a generation was submitted to no engine yet; `undefined` when it was, when that is unclear, and for a preview. */
  notSubmitted(generation: Pick<StoredGeneration, "status" | "request" | "checkpoint">): string | undefined;
  /** Why an engine takes no generations; `undefined` when it does. */
  outageOf(engine: Engine): Outage | undefined;
  /** What waits and is not being made, of all models. */
  waiting(): Promise<Waiting[]>;
  /** Stops the jobs that run. They stay unfinished in the store: the next process resumes them. */
  close(): Promise<void>;
};

export type QueueOptions = Omit<EndOptions, "signal" | "confirm"> & {
  store: Pick<Store, "claim" | "release" | "divide" | "waiting" | "isShared" | "publish">;
  engines: readonly Engine[];
  /** Whether the service runs inside a command. */
  isCommand?: boolean | undefined;
  /** Called with a line for the owner. */
  onNote(text: string): void;
  /** Called with what came of a create. */
  onCreate?: ((engine: Engine, created: Created) => void) | undefined;
};

/** So many generations have their request and images in memory at the same time, however many are made at once. */
const maxLoading = 4;
/** What another process has left is found so soon. */
const sharedPollMs = 1_000;
/** All processes hear of each start. */
const sharedPauseMs = 50;
const storeRetryMs = 10_000;
/** What no engine makes is looked for this often; a person waits for a command. */
const usualLacksMs = 60_000;
const commandLacksMs = 1_000;
/** A command tries an engine that does not answer this often. */
const commandRetryMs = 8_000;
/** So many are claimed at once of those that go on elsewhere. */
const maxClaimed = 100;
/** So many generations are remembered by how much of them is made. */
const maxProgresses = 10_000;

/** A generation that this process makes. */
type Job = {
  cancelled: AbortController;
  done: Promise<void>;
};

/** What this process makes, and what with. */
type State = {
  options: QueueOptions;
  allSlots: readonly EngineSlots[];
  /** The engines that can make the same. */
  groups: readonly EngineSlots[][];
  /** The turns at the engines; and those at fetching images, each taken before the fetch. */
  turns: ReturnType<typeof createTurns>;
  fetchTurns: ReturnType<typeof createTurns>;
  jobs: Map<string, Job>;
  /** Those of them without a slot whose images are fetched, or wait with them for a slot. */
  waitlist: ReturnType<typeof createWaitlist>;
  /** The only ones that are made; all without it. */
  wanted: Set<string> | undefined;
  loading: Capacity;
  findLack: ReturnType<typeof createLackFinder>;
  /** When this process last looked for what no engine makes, and when it last divided the engines with the others. */
  lacksAt: number;
  divideAt: number;
  stop: AbortController;
  /** Lets the queue look again. */
  wake(): void;
};

/**
 * Makes generations (interface section 3: processing to completed or failed). When an engine has room, it claims one that this engine can make:
 * the accounts take turns, each with its oldest one.
 */
export function createQueue(options: QueueOptions): Queue {
  const { store, clock, onTrouble, onNote, isCommand } = options;
  const stop = new AbortController();
  // Every job listens to this signal; Node would warn of a leak at the eleventh.
  setMaxListeners(0, stop.signal);
  const allSlots = options.engines
    .filter(({ concurrency }) => concurrency > 0)
    .map((engine) => {
      const slots: EngineSlots = createSlots(engine, {
        clock,
        onCreate: (created) => options.onCreate?.(engine, created),
        onChange: (outage) => onNote(outageLine(slots, outage, options)),
        maxUnreachableRetryMs: isCommand ? commandRetryMs : undefined,
      });
      return slots;
    });
  let isStarted = false;
  const state: State = {
    options,
    allSlots,
    groups: groupEngines(allSlots.map(engineStateOf)).map((group) => group.map(({ slots }) => slots)),
    turns: createTurns(),
    fetchTurns: createTurns(),
    jobs: new Map(),
    waitlist: createWaitlist(),
    wanted: undefined,
    loading: createCapacity(maxLoading),
    findLack: createLackFinder({ allSlots, store, isCommand, clock, onTrouble }),
    lacksAt: Number.NEGATIVE_INFINITY,
    divideAt: Number.NEGATIVE_INFINITY,
    stop,
    wake: () => void (isStarted && loop.wake()),
  };
  const loop = createLoop(() => look(state), { clock, pauseMs: store.isShared ? sharedPauseMs : 0 });
  /** Bounded, since the end of a generation is not heard of while the database is away. */
  const progresses = createRecent<Progress>(maxProgresses);

  return {
    start(resume) {
      if (resume === "polled") state.wanted = new Set();
      isStarted = true;
      state.wake();
    },
    resume(id) {
      if (!state.wanted || state.wanted.has(id)) return;
      state.wanted.add(id);
      state.wake();
    },
    onChange(change) {
      if (change.kind === "cancelled")
        state.jobs.get(change.id)?.cancelled.abort(new Error("the generation was cancelled"));
      if (change.kind === "progress") progresses.set(change.id, { percent: change.percent, node: change.node });
      if (change.kind !== "generation") return;
      progresses.delete(change.id);
      state.wanted?.add(change.id);
      state.wake();
    },
    progressOf: (id) => progresses.get(id),
    notSubmitted: (generation) => whyNotSubmitted(generation, allSlots),
    outageOf: (engine) => allSlots.find((slots) => slots.engine === engine)?.breaker.outage(),
    waiting: () => store.waiting(among(state)),
    async close() {
      stop.abort(new Error("the service is stopping"));
      await loop.close();
      await Promise.all([...state.jobs.values()].map(({ done }) => done));
    },
  };
}

/** Takes what can be made now. Resolves with the milliseconds until it is to look again. */
async function look(state: State): Promise<number> {
  const { options, allSlots, groups } = state;
  const { store, onTrouble } = options;
  // A process that makes no videos leaves all of it to the others.
  if (allSlots.length === 0 && options.engines.length > 0) return Number.POSITIVE_INFINITY;
  let nextMs: number;
  try {
    await takeBegun(state);
    await divide(state);
    for (const group of groups) await takeNew(state, group);
    for (const group of groups) await fetchAhead(state, group);
    nextMs = await failWaiting(state);
  } catch (error) {
    // A database on another machine tells of its outage itself.
    if (!isUnavailable(error)) onTrouble("The queue could not be read", error);
    return store.isShared ? sharedPollMs : storeRetryMs;
  }
  const pauses = allSlots.map(({ breaker }) => breaker.pauseMs()).filter((ms) => ms > 0);
  return Math.min(store.isShared ? sharedPollMs : nextMs, ...pauses);
}

/** What was submitted goes on whatever room there is: its engine makes it already. What is unclear ends. */
async function takeBegun(state: State): Promise<void> {
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

/** An engine that takes nothing from this process is left to the others; until it does again, it gets one at a time. */
async function divide(state: State): Promise<void> {
  const { allSlots, options } = state;
  const { store, clock } = options;
  if (!store.divide || clock.now() < state.divideAt) return;
  const used = allSlots.filter(({ engine, breaker }) => !engine.isSimulation && !breaker.outage());
  const shares = await store.divide(used.map(({ engine }) => engine.name));
  state.divideAt = clock.now() + sharedPollMs;
  for (const slots of allSlots) {
    const { engine } = slots;
    const share = shares.get(engine.name);
    if (share) slots.most = partOf(engine, share);
    else if (!engine.isSimulation) slots.most = Math.min(engine.concurrency, slots.jobs + 1);
  }
}

/** Fills the room of engines that can make the same. */
async function takeNew(state: State, group: readonly EngineSlots[]): Promise<void> {
  const { turns, waitlist, options } = state;
  const statesOf = () => group.map(engineStateOf);
  const occupyFor = (claimed: Pick<Claim, "id" | "account" | "engine">): Slot | undefined => {
    const picked = pickEngine(statesOf(), claimed.id);
    if (!picked) return undefined;
    turns.take(claimed.account);
    return occupy(picked.slots, claimed);
  };
  for (const avoided of listAvoided(statesOf()))
    for (;;) {
      const next = nextToMake(statesOf(), { fetched: waitlist.fetched(), turns: turns.list(), avoided });
      if (!next) break;
      const { wanted, limit, otherwise } = next;
      const found = await claim(state, wanted, { limit, avoided });
      for (const claimed of found) {
        const slot = occupyFor(claimed);
        if (slot) begin(state, claimed, { kind: "make", slot });
        else await options.store.release(claimed.id);
      }
      if (found.length > 0) continue;
      const slot = otherwise && occupyFor(otherwise);
      if (!otherwise || !slot) break;
      waitlist.give(otherwise.id, slot);
    }
}

/** Has images fetched for engines that can make the same. */
async function fetchAhead(state: State, group: readonly EngineSlots[]): Promise<void> {
  const { fetchTurns, waitlist } = state;
  const states = group.map(engineStateOf);
  if (isOut(states))
    for (const job of waitlist.fetched()) if (states[0] && canMake(states[0], job)) waitlist.give(job.id, undefined);
  for (;;) {
    const wanted = nextToFetch(states, { ahead: waitlist.all(), turns: fetchTurns.list() });
    const claimed = wanted && (await claimFirst(state, wanted, listAvoided(states)));
    if (!claimed) return;
    fetchTurns.take(claimed.account);
    waitlist.add(claimed);
    begin(state, claimed, { kind: "make" });
  }
}

/** Ends what no engine makes. Resolves with the milliseconds until it is to look again. */
async function failWaiting(state: State): Promise<number> {
  const { options, findLack } = state;
  const { clock, store } = options;
  const lacksMs = options.isCommand ? commandLacksMs : usualLacksMs;
  const leftMs = state.lacksAt + lacksMs - clock.now();
  if (leftMs > 0) return leftMs;
  state.lacksAt = clock.now();
  const all = await store.waiting(among(state));
  for (const waiting of all) {
    const lack = findLack(waiting);
    if (!lack) continue;
    const { needs, startedBefore, error, error_code } = lack;
    const found = await claim(state, { ...needs, kind: "same", startedBefore }, { limit: maxLoading });
    for (const claimed of found) begin(state, claimed, { kind: "failed", error, error_code });
    // Their requests are read, so the others come after them.
    if (found.length > 0) state.lacksAt = Number.NEGATIVE_INFINITY;
  }
  return all.length > 0 ? lacksMs : Number.POSITIVE_INFINITY;
}

/** Begins a job, which runs until its generation has ended or is left. */
function begin(state: State, claimed: Claim, plan: Plan): void {
  const { options, allSlots, loading, jobs, waitlist, stop, wake } = state;
  const { id, lost } = claimed;
  const cancelled = new AbortController();
  const signal = AbortSignal.any([stop.signal, lost, cancelled.signal]);
  const done = runJob(claimed, plan, {
    ...options,
    allSlots,
    loading,
    signal,
    cancelled: cancelled.signal,
    waitForSlot() {
      const slot = waitlist.wait(id, signal);
      wake();
      return slot;
    },
    onRoom() {
      waitlist.remove(id);
      wake();
    },
  }).then((isEnded) => {
    if (isEnded) state.wanted?.delete(id);
    jobs.delete(id);
    wake();
  });
  jobs.set(id, { cancelled, done });
}

function among({ jobs, wanted }: State, avoided: readonly string[] = []) {
  return { except: [...jobs.keys(), ...avoided], ids: wanted && [...wanted] };
}

function claim(
  state: State,
  wanted: Wanted,
  { limit, avoided }: { limit: number; avoided?: readonly string[] },
): Promise<Claim[]> {
  return state.options.store.claim(wanted, { ...among(state, avoided), limit });
}

/** Claims one that is not avoided, by the first of these lists that leaves any. */
async function claimFirst(state: State, wanted: Wanted, lists: readonly string[][]): Promise<Claim | undefined> {
  for (const avoided of lists) {
    const [claimed] = await claim(state, wanted, { limit: 1, avoided });
    if (claimed) return claimed;
  }
  return undefined;
}

function whyNotSubmitted(
  generation: Pick<StoredGeneration, "status" | "request" | "checkpoint">,
  allSlots: readonly EngineSlots[],
): string | undefined {
  if (generation.status !== "processing" || generation.checkpoint !== null) return undefined;
  const needs = needsOf(generation);
  const able = allSlots.filter(({ engine }) => canMake(engine, needs));
  if (able.length === 0 || able.some(({ engine }) => engine.isSimulation)) return undefined;
  const outages = able.flatMap(({ engine: { name }, breaker }) => {
    const reason = breaker.outage()?.reason.replace(/\.$/, "");
    return reason === undefined ? [] : [`${name}: ${reason}`];
  });
  const isWaiting = outages.length < able.length;
  return isWaiting ? `it waits for ${able.map(({ engine }) => engine.name).join(" or ")}` : outages.join("; ");
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
  return `${name} has accepted no generations since ${since}: ${outage.reason}. They go to other engines that serve their model, or wait.`;
}
