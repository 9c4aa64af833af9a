import { createRandom, type Random } from "../../faults/random.ts";
import { type Image, lastingFaults, passingFaults } from "./images.ts";
import { callKinds, type DiskFault, type Mishap } from "./process.ts";
import {
  type Content,
  type CreateReply,
  createReplies,
  type JobEnd,
  type ReadTrouble,
  readTroubles,
  type Stops,
} from "./replies.ts";

/** What happens when, in milliseconds since the story began. */
export type Act =
  | { what: "start"; at: number; generation: Generation }
  | { what: "cancel"; at: number; name: string; when: CancelState | undefined }
  /** Once it has ended as unclear, it is deleted, with or without the word that this is known. */
  | { what: "delete"; at: number; name: string; isAcknowledged: boolean }
  | { what: "kill" | "stop"; at: number; process: number }
  | { what: "freeze"; at: number; process: number; ms: number }
  | { what: "clock"; at: number; machine: number; aheadMs: number }
  /** The owner changes which engines are used: each process reads it, one `apartMs` after the other. */
  | { what: "reload"; at: number; used: number[]; apartMs: number };

/** What is to be so when it is cancelled: its create is out; its job waits, runs or has ended. */
export const cancelStates = ["submitting", "queued", "running", "ready"] as const;
export type CancelState = (typeof cancelStates)[number];

/** Creates, and what becomes of them at the provider. */
export type Generation = {
  /** Its prompt too. */
  name: string;
  account: "local" | "other";
  hasCallback: boolean;
  /** How the provider answers each create for it; from then on it accepts. */
  replies: { reply: CreateReply; isTaken: boolean; answersAfterMs: number }[];
  waitsMs: number;
  rendersMs: number;
  end: JobEnd;
  content: Content;
  stops: Stops;
  image?: Image | undefined;
};

/** For a while, this share of the reads of the provider, or all of its connections, are in trouble. */
export type Trouble = { from: number; to: number; share: number; kind: ReadTrouble | "nobody listens" };

export type DiskTrouble = { from: number; to: number; machine: number; kind: DiskFault };

export type EnginePlan = {
  seed: string;
  /** Processes that share a database, or that wait for the folder of the one that has it. */
  store: "folder" | "shared";
  kind: "openrouter" | "vllm-omni" | "vidgen" | "sglang" | "litellm";
  processes: number;
  /** How far the clock of each machine is ahead in the beginning, where processes share a database, in milliseconds; 0 without one. */
  aheadMs?: number[];
  /** Whether each process has a machine, or a container, of its own. */
  isApart: boolean;
  /** Whether it runs inside a command. */
  isCommand: boolean;
  hasRefunds: boolean;
  /** How many jobs each engine makes at once. All are of this kind, and make the same model. */
  engines: number[];
  /** Which of them are used in the beginning. */
  used: number[];
  /** Whether the key of an engine that is used no more is gone until the faults are over. */
  isKeyLost: boolean;
  callMs: number;
  /** After so long a process that has ended is started again. */
  restartsMs: number;
  /** Of each life of each process: index by `process`, then by life. */
  mishaps: Mishap[][][];
  acts: Act[];
  troubles: Trouble[];
  diskTroubles: DiskTrouble[];
  /** How often the receiver of callbacks fails first. */
  callbackFailures: number;
  /** The database is copied, and the copy takes its place later: made by `serve --backup`, or by a program that knows nothing of vidgen. */
  restore: { copyAt: number; at: number; by: "serve --backup" | "cp" } | undefined;
};

const minute = 60_000;

/** Draws the story of a seed: each has a few kinds of faults of its own, so that some meet many of one kind. */
export function planOf(seed: string): EnginePlan {
  const random = createRandom(seed);
  const has = (chance: number) => random.next() < chance;
  const store = has(0.5) ? "folder" : "shared";
  const kind = random.pick(["openrouter", "vllm-omni", "vidgen", "sglang", "litellm"] as const);
  const processes = store === "shared" ? random.between(1, 3) : random.between(1, 2);
  const replies = subset(createReplies, random);
  const trouble = subset(readTroubles, random);
  const [faulty, killing, freezing] = [has(0.8) ? random.next() : 0, has(0.6), processes > 1 && has(0.5)];
  const spanMs = random.pick([20_000, minute, 4 * minute]);
  const engines = random.pick([[1], [2], [4], [1, 1], [1, 3], [2, 1, 1]]);
  const someEngines = () => {
    const drawn = [...engines.keys()].filter(() => has(0.6));
    return drawn.length > 0 ? drawn : [random.between(0, engines.length - 1)];
  };
  const used = someEngines();
  const generations = Array.from({ length: random.pick([1, 1, 2, 3, 5]) }, (_, index) =>
    generationOf(index, { random, replies, faulty, kind }),
  );
  const acts: Act[] = generations.map((generation) => ({
    what: "start",
    at: random.between(0, has(0.5) ? 2_000 : spanMs),
    generation,
  }));
  if (has(0.35)) {
    const { name } = random.pick(generations);
    const when = random.pick([undefined, ...cancelStates]);
    // One for a state waits for it.
    acts.push({ what: "cancel", at: when && has(0.7) ? 0 : random.between(500, spanMs), name, when });
  }
  for (let index = 0; index < processes; index++) {
    if (killing && has(0.3)) acts.push({ what: "kill", at: random.between(100, spanMs), process: index });
    if (has(0.1)) acts.push({ what: "stop", at: random.between(100, spanMs), process: index });
    if (freezing && has(0.4))
      acts.push({ what: "freeze", at: random.between(100, spanMs), process: index, ms: freezeMs(random) });
  }
  if (has(0.2))
    acts.push({
      what: "clock",
      at: random.between(0, spanMs),
      machine: random.between(0, processes - 1),
      aheadMs: random.pick([-1, 1]) * random.pick([5_000, minute, 60 * minute, 40 * 24 * 60 * minute]),
    });
  // A command reads no file.
  const isCommand = processes === 1 && has(0.2);
  for (let count = engines.length > 1 && !isCommand ? random.between(0, 3) : 0; count > 0; count--) {
    const at = random.between(100, spanMs / 2);
    acts.push({ what: "reload", at, used: someEngines(), apartMs: random.pick([1, 2_000, 20_000]) });
    // The process that has used an engine is gone, and another one finds its jobs.
    const process = random.between(0, processes - 1);
    if (has(0.5)) acts.push({ what: "kill", at: at + random.pick([1, 5_000, 30_000]), process });
    const { name } = random.pick(generations);
    if (has(0.2)) acts.push({ what: "cancel", at: at + random.between(30_000, 3 * minute), name, when: undefined });
  }
  for (const { name } of generations)
    if (has(0.3)) acts.push({ what: "delete", at: 0, name, isAcknowledged: has(0.3) });
  const hasTrouble = has(0.5);
  return {
    seed,
    store,
    kind,
    processes,
    ...(store === "shared" && has(0.4) && { aheadMs: Array.from({ length: processes }, () => aheadMsOf(random)) }),
    isApart: has(0.5),
    isCommand,
    hasRefunds: has(0.8),
    engines,
    used,
    isKeyLost: has(0.5),
    callMs: random.pick([0, 1, 20]),
    restartsMs: random.pick([1, 1_000, 30_000]),
    mishaps: Array.from({ length: processes }, () =>
      Array.from({ length: 2 }, () =>
        mishapsOf({ random, killing, freezing, cutting: store === "shared" && has(0.3) }),
      ),
    ),
    acts: acts.sort((a, b) => a.at - b.at),
    troubles: hasTrouble ? some(random, 3, () => troubleOf(random, { kinds: trouble, spanMs })) : [],
    diskTroubles: has(0.25)
      ? some(random, 2, () => ({
          ...windowOf(random, spanMs),
          machine: random.between(0, processes - 1),
          kind: random.pick(["full", "no descriptors", "I/O errors"] as const),
        }))
      : [],
    callbackFailures: has(0.3) ? random.between(1, 3) : 0,
    restore: store === "folder" && has(0.2) ? restoreOf(random, spanMs) : undefined,
  };
}

function restoreOf(random: Random, spanMs: number): EnginePlan["restore"] {
  const copyAt = random.between(100, spanMs);
  const at = copyAt + random.pick([1_000, 20_000, 2 * minute, 10 * minute]);
  return { copyAt, at, by: random.pick(["serve --backup", "cp"] as const) };
}

type Drawing = { random: Random; replies: CreateReply[]; faulty: number; kind: EnginePlan["kind"] };

function generationOf(index: number, { random, replies, faulty, kind }: Drawing): Generation {
  const has = (chance: number) => random.next() < chance;
  const bad = has(0.25);
  // Of a provider that is paid, whose patience is a day, it would take most of the time of a search.
  // What never comes is asked for as long.
  const contents: Content[] = [
    ...(["late", "a page first", "elsewhere"] as const),
    ...(kind === "openrouter" ? [] : (["gone", "garbage"] as const)),
    ...(kind === "sglang" ? (["no path", "no path"] as const) : []),
  ];
  const ends: JobEnd[] = kind === "openrouter" ? ["fails", "is lost"] : ["fails", "is lost", "never ends"];
  return {
    name: `g${index}`,
    account: has(0.7) ? "local" : "other",
    hasCallback: has(0.6),
    // At a wrong path, a proxy answers all of them.
    replies: has(0.05)
      ? Array(40).fill({ reply: "404 with HTML", isTaken: false, answersAfterMs: 10 })
      : some(random, 2, () => ({
          reply: random.pick(replies),
          isTaken: has(0.5),
          answersAfterMs: random.pick([10, 500, 5_000, 9_500, 30_000]),
        })).filter(() => has(faulty)),
    waitsMs: has(0.3) ? random.between(0, 5 * minute) : 0,
    rendersMs: random.pick([100, 5_000, 30_000, 3 * minute]),
    end: bad && has(0.6) ? random.pick(ends) : "completes",
    content: random.next() < 0.6 ? "good" : random.pick([...contents, "good" as const]),
    stops: kind === "vllm-omni" && has(0.5) ? random.pick(["slowly", "never"] as const) : "at once",
    image: has(0.3) ? imageOf(random) : undefined,
  };
}

function aheadMsOf(random: Random): number {
  return random.pick([0, -1, 1]) * random.pick([2_000, minute, 5 * minute, 60 * minute]);
}

function imageOf(random: Random): Image {
  if (random.next() < 0.2) return { fault: random.pick(lastingFaults), failsMs: undefined };
  return { fault: random.pick(passingFaults), failsMs: random.pick([0, 0, 3_000, 40_000, 4 * minute, undefined]) };
}

/** Others take over after 12 s with a database, and after 60 s in a folder. */
function freezeMs(random: Random): number {
  return random.pick([3_000, 11_000, 13_000, 30_000, 65_000, 100_000, 5 * minute]);
}

type Drawn = { random: Random; killing: boolean; freezing: boolean; cutting: boolean };

function mishapsOf({ random, killing, freezing, cutting }: Drawn): Mishap[] {
  const whats = [
    ...(killing ? (["killed"] as const) : []),
    ...(freezing ? (["frozen"] as const) : []),
    ...(cutting ? (["cut"] as const) : []),
    ...(random.next() < 0.15 ? (["stopped"] as const) : []),
  ];
  if (whats.length === 0 || random.next() < 0.4) return [];
  return some(random, 2, () => {
    const what = random.pick(whats);
    return {
      on: random.pick(what === "cut" ? (["submitting", "submitted", "finish"] as const) : callKinds),
      nth: random.pick([1, 1, 1, 2, 3, 5]),
      isAfter: what !== "cut" && random.next() < 0.5,
      what,
      ms: freezeMs(random),
    };
  });
}

function troubleOf(random: Random, { kinds, spanMs }: { kinds: ReadTrouble[]; spanMs: number }): Trouble {
  const kind = random.next() < 0.25 ? "nobody listens" : random.pick(kinds);
  const share = ["an error of the upstream", "404 with HTML"].includes(kind) ? 1 : random.pick([0.3, 0.7]);
  return { ...windowOf(random, spanMs), share, kind };
}

/** Shorter than anybody's patience. */
function windowOf(random: Random, spanMs: number): { from: number; to: number } {
  const from = random.between(0, spanMs);
  return { from, to: from + random.pick([3_000, 20_000, 2 * minute, 12 * minute]) };
}

function some<Item>(random: Random, most: number, draw: () => Item): Item[] {
  return Array.from({ length: random.between(1, most) }, draw);
}

/** One to four of them. */
function subset<Item>(items: readonly Item[], random: Random): Item[] {
  return some(random, 4, () => random.pick(items));
}

/** The plan with one thing less in it, or something plainer: each way that there is. */
export function* simplerEngine(plan: EnginePlan): Generator<EnginePlan> {
  for (const [index, act] of plan.acts.entries()) {
    const isLast = act.what === "start" && plan.acts.filter(({ what }) => what === "start").length === 1;
    if (!isLast) yield { ...plan, acts: plan.acts.toSpliced(index, 1) };
  }
  for (const index of plan.troubles.keys()) yield { ...plan, troubles: plan.troubles.toSpliced(index, 1) };
  for (const index of plan.diskTroubles.keys()) yield { ...plan, diskTroubles: plan.diskTroubles.toSpliced(index, 1) };
  for (const [process, lives] of plan.mishaps.entries())
    for (const [life, mishaps] of lives.entries())
      for (const index of mishaps.keys())
        yield { ...plan, mishaps: plan.mishaps.with(process, lives.with(life, mishaps.toSpliced(index, 1))) };
  if (plan.processes > 1) yield { ...plan, processes: plan.processes - 1 };
  if (plan.aheadMs) yield { ...plan, aheadMs: [] };
  if (plan.isKeyLost) yield { ...plan, isKeyLost: false };
  if (plan.engines.length > 1) {
    const engines = plan.engines.slice(0, -1);
    const left = (used: number[]) => used.filter((index) => index < engines.length);
    const acts = plan.acts.map((act) => (act.what === "reload" ? { ...act, used: left(act.used) } : act));
    const isAny = acts.every((act) => act.what !== "reload" || act.used.length > 0);
    if (isAny && left(plan.used).length > 0) yield { ...plan, engines, used: left(plan.used), acts };
  }
  if (plan.restore) yield { ...plan, restore: undefined };
  if (plan.callbackFailures > 0) yield { ...plan, callbackFailures: 0 };
  if (plan.callMs > 0) yield { ...plan, callMs: 0 };
  if (plan.isCommand) yield { ...plan, isCommand: false };
  for (const [index, act] of plan.acts.entries()) {
    if (act.what !== "start") continue;
    const { generation } = act;
    const plainer: Partial<Generation>[] = [
      { replies: generation.replies.slice(0, -1) },
      { content: "good" },
      { stops: "at once" },
      { end: "completes" },
      { waitsMs: 0 },
      { rendersMs: 5_000 },
      { hasCallback: false },
      { image: undefined },
    ];
    for (const each of plainer) {
      const next = { ...generation, ...each };
      if (JSON.stringify(next) !== JSON.stringify(generation))
        yield { ...plan, acts: plan.acts.with(index, { ...act, generation: next }) };
    }
  }
}
