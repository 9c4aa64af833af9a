import { setMaxListeners } from "node:events";
import { createCapacity, createRecent } from "../capacity.ts";
import type { Engine } from "../engines/engine.ts";
import { createLoop } from "../loop.ts";
import { isUnavailable } from "../observe/trouble.ts";
import type { Change, Progress } from "../store/change.ts";
import type { Claim, Waiting, Wanted } from "../store/claims.ts";
import type { StoredGeneration } from "../store/generations.ts";
import { needsOf } from "../store/needs.ts";
import type { Store } from "../store/store.ts";
import type { Created, Outage } from "./breaker.ts";
import { type EndOptions, endGeneration } from "./end.ts";
import { createLackFinder } from "./lacks.ts";
import { loadTask, type Made, type MakeOptions, makeVideo, removeFiles, type Task } from "./make.ts";
import {
  canMake,
  createSlots,
  type EngineSlots,
  findLeastBusy,
  type Group,
  groupSlots,
  listAvoided,
  occupy,
  partOf,
  roomOf,
  type Slot,
} from "./slots.ts";
import { createTurns } from "./turns.ts";

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
/** So many have their images fetched, or wait with them for an engine. Apart from the others, which no slow server of images delays. */
const maxFetched = 4;
/** The maximum of these for one account: whose addresses do not respond, leaves the rest to others. */
const maxFetchedOfAccount = 2;
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
/** A generation that could not be finished is not tried again at once. */
const laterMs = 2_000;

/** The making of one generation. Those that are "fetching" or "fetched" have no slot yet; "making" have one, or end without it. */
type Job = {
  claimed: Claim;
  state: "fetching" | "fetched" | "making";
  /** Gives it a slot, when it is "fetched"; without one, it is left to other processes, or for later. */
  assign(slot: Slot | undefined): void;
  cancelled: AbortController;
  done: Promise<void>;
};

/**
 * Makes generations (interface section 3: processing to completed or failed). When an engine has room, it claims one that this engine can make:
 * the accounts take turns, each with its oldest one.
 */
export function createQueue(options: QueueOptions): Queue {
  const { store, clock, onTrouble, onNote } = options;
  const stop = new AbortController();
  // Every job listens to this signal; Node would warn of a leak at the eleventh.
  setMaxListeners(0, stop.signal);
  const allSlots = options.engines
    .filter(({ concurrency }) => concurrency > 0)
    .map((engine) => {
      const onCreate = (created: Created) => options.onCreate?.(engine, created);
      const onChange = (outage: Outage | undefined) => onNote(outageLine(slots, outage, options));
      const maxUnreachableRetryMs = options.isCommand ? commandRetryMs : undefined;
      const slots = createSlots(engine, { clock, onCreate, onChange, maxUnreachableRetryMs });
      return slots;
    });
  const groups = groupSlots(allSlots);
  const findLack = createLackFinder({ allSlots, store, isCommand: options.isCommand, clock, onTrouble });
  const turns = createTurns();
  /** The turns at fetching images, each taken before the fetch. */
  const fetchTurns = createTurns();
  const loading = createCapacity(maxLoading);
  const jobs = new Map<string, Job>();
  /** The only ones that are made; all without it. */
  let wanted: Set<string> | undefined;
  const lacksMs = options.isCommand ? commandLacksMs : usualLacksMs;
  let lacksAt = Number.NEGATIVE_INFINITY;
  let divideAt = Number.NEGATIVE_INFINITY;
  /** Bounded, since the end of a generation is not heard of while the database is away. */
  const progresses = createRecent<Progress>(maxProgresses);

  const among = (avoided: readonly string[] = []) => ({
    except: [...jobs.keys(), ...avoided],
    ids: wanted && [...wanted],
  });
  const claim = (what: Wanted, limit: number, avoided?: readonly string[]) =>
    store.claim(what, { ...among(avoided), limit });

  const jobsIn = (...states: Job["state"][]) => [...jobs.values()].filter(({ state }) => states.includes(state));

  /** Begins a job, which runs until its generation has ended or is left. The request is not kept: it may have 28 MB, and a job may take hours. */
  const begin = (claimed: Claim, state: Job["state"], make: (job: Job, own: MakeOptions) => Promise<Made>) => {
    const { id, lost, confirm } = claimed;
    const cancelled = new AbortController();
    const signal = AbortSignal.any([stop.signal, lost, cancelled.signal]);
    const own = { ...options, signal, confirm };
    const job: Job = { claimed, state, assign: () => {}, cancelled, done: Promise.resolve() };
    const work = async () => {
      signal.throwIfAborted();
      const made = await make(job, own);
      await removeFiles(id, { isMade: made.kind === "made" }, options);
      if (made.kind === "not taken") return store.release(id);
      const isEnded = await endGeneration(id, made, own);
      wanted?.delete(id);
      // Deleted upstream only after the end is stored.
      if (isEnded && made.kind === "made") await made.discard?.(signal);
    };
    const leave = async (error: unknown) => {
      if (!signal.aborted) {
        onTrouble(`The generation ${id} could not be finished`, error);
        await clock.sleep(laterMs, signal).catch(() => {});
      }
      // Its video stays, unless it was cancelled: another process may be writing it.
      await removeFiles(id, { isMade: !cancelled.signal.aborted }, options);
      if (!lost.aborted) await store.release(id).catch(() => {});
    };
    jobs.set(id, job);
    job.done = work()
      .catch(leave)
      .then(() => {
        jobs.delete(id);
        wake();
      });
  };
  /** Begins a job that has its slot; one without it fetches its images first, and then waits for it. */
  const beginMaking = (claimed: Claim, given?: Slot) =>
    begin(claimed, given ? "making" : "fetching", async (job, own) => {
      let slot = given;
      try {
        const load = () => loadTask(claimed, own);
        const task = await (slot ? loading(1, load) : load()).finally(() => {
          job.state = "making";
        });
        if ("kind" in task) return task;
        own.signal.throwIfAborted();
        slot ??= await waitForSlot(job, own.signal);
        own.signal.throwIfAborted();
        return slot ? await makeAt(task, { slot, claimed }, own) : { kind: "not taken", reason: "no engine" };
      } finally {
        slot?.free();
        wake();
      }
    });
  const waitForSlot = (job: Job, signal: AbortSignal) =>
    new Promise<Slot | undefined>((resolve) => {
      job.state = "fetched";
      job.assign = (slot) => {
        job.state = "making";
        resolve(slot);
      };
      signal.addEventListener("abort", () => job.assign(undefined), { once: true });
      wake();
    });
  const makeAt = async (task: Task, { slot, claimed }: { slot: Slot; claimed: Claim }, own: MakeOptions) => {
    const { id, account } = claimed;
    const made = await makeVideo(task, slot.engine, {
      ...own,
      progress: (percent, node) => store.publish({ kind: "progress", id, percent, node, account }),
      onSubmitted() {
        slot.onTaken();
        wake();
      },
      releaseSlot() {
        slot.free();
        wake();
      },
    });
    const isDeniedAlone = slot.onMade(made);
    const isDenied = allSlots.every(({ engine, denied }) => denied.has(id) || !canMake(engine, claimed));
    if (made.kind !== "not taken" || !isDeniedAlone || !isDenied) return made;
    return deniedEnd(slot.engine, made);
  };

  /** An engine that takes nothing from this process is left to the others; until it does again, it gets one at a time. */
  const divide = async () => {
    if (!store.divide || clock.now() < divideAt) return;
    const used = allSlots.filter(({ engine, breaker }) => !engine.isSimulation && !breaker.outage());
    const shares = await store.divide(used.map(({ engine }) => engine.name));
    divideAt = clock.now() + sharedPollMs;
    for (const slots of allSlots) {
      const { engine } = slots;
      const share = shares.get(engine.name);
      if (share) slots.most = partOf(engine, share);
      else if (!engine.isSimulation) slots.most = Math.min(engine.concurrency, slots.jobs + 1);
    }
  };
  /** What was submitted goes on whatever room there is: its engine makes it already. What is unclear ends. */
  const takeBegun = async () => {
    const engines = allSlots.map(({ engine }) => engine.name);
    let found: Claim[];
    do {
      found = await claim({ kind: "begun", engines }, maxClaimed);
      for (const claimed of found) {
        const slots = allSlots.find(({ engine }) => engine.name === claimed.engine);
        if (slots) beginMaking(claimed, occupy(slots, claimed));
        else begin(claimed, "making", (_, own) => loading(1, () => endUnclear(claimed, own)));
      }
    } while (found.length === maxClaimed);
  };
  const occupyInTurn = (slots: EngineSlots, claimed: Claim) => {
    turns.take(claimed.account);
    return occupy(slots, claimed);
  };
  const takeNew = async (group: Group) => {
    const roomIn = () => group.slots.reduce((sum, slots) => sum + roomOf(slots), 0);
    for (const avoided of listAvoided(group))
      for (let room = roomIn(); room > 0; room = roomIn()) if (!(await takeNext(group, room, avoided))) break;
  };
  /** Resolves with whether there was anything to take. */
  const takeNext = async (group: Group, room: number, avoided: readonly string[]): Promise<boolean> => {
    const order = turns.list();
    const turnOf = ({ claimed }: Job) => order.indexOf(claimed.account);
    const [first] = jobsIn("fetched")
      .filter(({ claimed }) => canMake(group, claimed) && !avoided.includes(claimed.id))
      .sort((a, b) => turnOf(a) - turnOf(b) || a.claimed.number - b.claimed.number);
    const before = first && { turn: turnOf(first), number: first.claimed.number };
    // One at a time then: what comes next is before or after the one with its images.
    const what = { ...group, kind: "new" as const, isFetched: false, turns: order, before };
    const found = await claim(what, first ? 1 : room, avoided);
    for (const claimed of found) {
      const slots = findLeastBusy(group.slots, claimed.id);
      if (slots) beginMaking(claimed, occupyInTurn(slots, claimed));
      else await store.release(claimed.id);
    }
    if (found.length > 0) return true;
    const slots = first && findLeastBusy(group.slots, first.claimed.id);
    if (!first || !slots) return false;
    first.assign(occupyInTurn(slots, first.claimed));
    return true;
  };
  /** Claims one that is not avoided, by the first of these lists that leaves any. */
  const claimFirst = async (what: Wanted, lists: readonly string[][]): Promise<Claim | undefined> => {
    for (const avoided of lists) {
      const [claimed] = await claim(what, 1, avoided);
      if (claimed) return claimed;
    }
    return undefined;
  };
  /** Images are fetched before there is room to render, so that a slow server of images delays no other generation. */
  const fetchAhead = async (group: Group) => {
    const isOut = group.slots.every(({ most, breaker }) => most === 0 || breaker.pauseMs() > 0);
    // Another engine, or another process, may take it.
    if (isOut) for (const job of jobsIn("fetched")) if (canMake(group, job.claimed)) job.assign(undefined);
    while (!isOut) {
      const accounts = jobsIn("fetching", "fetched").map(({ claimed }) => claimed.account);
      if (accounts.length >= maxFetched) return;
      const countOf = (account: string) => accounts.filter((each) => each === account).length;
      const exceptAccounts = accounts.filter((account) => countOf(account) >= maxFetchedOfAccount);
      const wanted = { ...group, kind: "new", isFetched: true, turns: fetchTurns.list(), exceptAccounts } as const;
      const claimed = await claimFirst(wanted, listAvoided(group));
      if (!claimed) return;
      fetchTurns.take(claimed.account);
      beginMaking(claimed);
    }
  };
  /** Resolves with the milliseconds until it is to look again. */
  const failWaiting = async (): Promise<number> => {
    const leftMs = lacksAt + lacksMs - clock.now();
    if (leftMs > 0) return leftMs;
    lacksAt = clock.now();
    const all = await store.waiting(among());
    for (const waiting of all) {
      const lack = findLack(waiting);
      if (!lack) continue;
      const { needs, startedBefore, error, error_code } = lack;
      const found = await claim({ ...needs, kind: "same", startedBefore }, maxLoading);
      for (const claimed of found) begin(claimed, "making", async () => ({ kind: "failed", error, error_code }));
      // Their requests are read, so the others come after them.
      if (found.length > 0) lacksAt = Number.NEGATIVE_INFINITY;
    }
    return all.length > 0 ? lacksMs : Number.POSITIVE_INFINITY;
  };
  const look = async (): Promise<number> => {
    // A process that makes no videos leaves all of it to the others.
    if (allSlots.length === 0 && options.engines.length > 0) return Number.POSITIVE_INFINITY;
    let nextMs: number;
    try {
      await takeBegun();
      await divide();
      for (const group of groups) await takeNew(group);
      for (const group of groups) await fetchAhead(group);
      nextMs = await failWaiting();
    } catch (error) {
      // A database on another machine tells of its outage itself.
      if (!isUnavailable(error)) onTrouble("The queue could not be read", error);
      return store.isShared ? sharedPollMs : storeRetryMs;
    }
    const pauses = allSlots.map(({ breaker }) => breaker.pauseMs()).filter((ms) => ms > 0);
    return Math.min(store.isShared ? sharedPollMs : nextMs, ...pauses);
  };
  const loop = createLoop(look, { clock, pauseMs: store.isShared ? sharedPauseMs : 0 });
  let isStarted = false;
  const wake = () => void (isStarted && loop.wake());

  return {
    start(resume) {
      if (resume === "polled") wanted = new Set();
      isStarted = true;
      wake();
    },
    resume(id) {
      if (!wanted || wanted.has(id)) return;
      wanted.add(id);
      wake();
    },
    onChange(change) {
      if (change.kind === "cancelled") jobs.get(change.id)?.cancelled.abort(new Error("the generation was cancelled"));
      if (change.kind === "progress") progresses.set(change.id, { percent: change.percent, node: change.node });
      if (change.kind !== "generation") return;
      progresses.delete(change.id);
      wanted?.add(change.id);
      wake();
    },
    progressOf: (id) => progresses.get(id),
    notSubmitted(generation) {
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
    },
    outageOf: (engine) => allSlots.find((slots) => slots.engine === engine)?.breaker.outage(),
    waiting: () => store.waiting(among()),
    async close() {
      stop.abort(new Error("the service is stopping"));
      await loop.close();
      await Promise.all([...jobs.values()].map(({ done }) => done));
    },
  };
}

/** What an engine refuses its key for, while it takes others with the same one. */
function deniedEnd({ name }: Engine, { reason }: Extract<Made, { kind: "not taken" }>): Made {
  return {
    kind: "failed",
    error: `${name} refused this generation: ${reason}; nothing was submitted`,
    error_code: "auth",
  };
}

/** An earlier process ended while it submitted this one. */
async function endUnclear(claimed: Claim, own: MakeOptions): Promise<Made> {
  const task = await loadTask(claimed, own);
  return "kind" in task ? task : { kind: "not taken", reason: "it was not submitted" };
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
