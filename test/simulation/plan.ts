import { createRandom, type Random } from "../faults/random.ts";
import { type CommandAct, hourMs, momentous, type StoryName, storyNames, storyOf } from "./acts.ts";
import {
  type CancelName,
  cancelBehaviours,
  type DeleteName,
  deleteBehaviours,
  type StartName,
  slowName,
  startBehaviours,
  statusBehaviours,
} from "./answers.ts";
import { diskFailureNames, diskPartNames } from "./disk.ts";
import { editNames, longEditName, videoEditNames } from "./edits.ts";
import { callKinds, type Mishap } from "./machine.ts";
import { mediaBehaviours } from "./media.ts";
import { type Command, idKey, type LibraryCall, type Prints, pastedKey, work } from "./people.ts";
import { finePlan, type StartPlan, type Trouble } from "./service.ts";

/** A story before it is played: who does what when, and what goes wrong. What then happens follows from it alone. */
export type Plan = {
  seed: string;
  computers: { aheadMs: number }[];
  hasStartTimes: boolean;
  /** Each machine has a journal of its own; they share the work folder alone. */
  hasOwnJournals: boolean;
  /** The share of calls of a process that take no time. */
  instant: number;
  troubles: Trouble[];
  /** The service states what each start costs, and the rows of a batch differ in length, and so in price. */
  statesPrices?: boolean;
  /** Whether the service keeps idempotency keys. */
  keepsKeys?: boolean;
  acts: Act[];
};

export type Act = {
  /** How long after the act before, in milliseconds; after its end when that is waited for. */
  gapMs: number;
  waits: boolean;
} & (
  | {
      what: "command";
      name: string;
      command: Command;
      computer: number;
      namespace: string;
      key: number;
      callMs: number;
      starts: StartPlan[];
      mishaps: Mishap[];
    }
  | { what: "clock"; computer: number; aheadMs: number }
  | { what: "reboot"; computer: number }
  /** See `edits.ts`. */
  | { what: "edit"; how: string }
);

const prompts = ["a fox", "waves"];

/** Of vidgen.json. */
const styles = ["ink", "oil"];

/** In a PNG that is piped in. */
const times = ["10:00", "10:01"];

/** The story that a seed stands for. One that begins with the name of a story in `acts.ts` is about that. */
export function planOf(seed: string): Plan {
  const random = createRandom(seed);
  const typed = storyNames.find((name) => seed.startsWith(`${name}-`));
  const name = typed ?? (random.next() < 0.25 ? random.pick(storyNames) : undefined);
  const plan = planFrom(seed, random);
  return name === undefined ? plan : withStory(plan, name, random);
}

/** With the acts of a story, on one machine, in place of those that were drawn, or of some of them. */
function withStory(plan: Plan, name: StoryName, random: Random): Plan {
  const { acts, ...needs } = storyOf(name, random);
  const { instant } = plan;
  const callMs = 10 ** (random.next() * 3 - 2);
  return {
    ...plan,
    computers: [{ aheadMs: 0 }],
    hasOwnJournals: false,
    troubles: [],
    keepsKeys: false,
    instant,
    ...needs,
    acts: acts.map((act) => (act.what === "command" ? { ...act, callMs } : act)),
  };
}

function planFrom(seed: string, random: Random): Plan {
  const chance = (share: number) => random.next() < share;
  const isShared = chance(0.4);
  const computers = Array.from({ length: isShared ? random.between(2, 3) : 1 }, () => ({
    aheadMs: clockError(random),
  }));
  const kind = random.pick([
    ...["generate", "generate", "generate", "reuse", "batch", "batch", "mcp", "library", "mixed"],
    ...["again", "again", "several", "several", "project", "project", "piped", "piped"],
  ]);
  const faults = faultsOf(random, kind);
  const acts: Act[] = [];
  let last: Command | undefined;
  const commands = random.between(2, 5);
  /** So that many stories are about one request: then its runs are the same. */
  const range = chance(0.8) ? 1 : 2;
  for (let index = 0; index < commands; index++) {
    if (chance(0.2)) {
      const what = faults.event();
      const computer = random.between(0, computers.length - 1);
      const when = { gapMs: gap(random), waits: chance(0.5) };
      if (what === "clock") acts.push({ what, computer, aheadMs: clockError(random), ...when });
      else if (what === "reboot") acts.push({ what, computer, ...when });
      else acts.push({ what, how: faults.edit(), ...when });
    }
    // People type the same again.
    const isOften = last?.type === "generate" && (last.again ?? last.count) !== undefined;
    const isOther = chance(isOften ? 0.3 : 0.65);
    let command: Command = last === undefined || isOther ? commandOf(kind, random, range) : reordered(last, random);
    if (kind === "again" && last && command.type === "generate" && command.again === undefined && chance(0.7))
      command = repetitionOf(command, random);
    if (kind === "project" && command.type === "generate") command = { ...command, project: random.pick(styles) };
    if (kind === "piped" && command.type === "generate") command = { ...command, piped: random.pick(times) };
    last = command;
    acts.push({
      what: "command",
      name: String.fromCharCode(65 + index),
      command,
      computer: random.between(0, computers.length - 1),
      namespace: chance(0.8) ? "1" : "2",
      key: chance(0.93) ? 0 : 1,
      callMs: 10 ** (random.next() * 3 - 2),
      starts: Array.from({ length: random.between(0, 3) }, () => startOf(random, faults)),
      mishaps: chance(0.6) ? mishapsOf(random, faults, kind === "several") : [],
      gapMs: gap(random),
      waits: chance(0.55),
    });
  }
  const troubles = chance(0.35) ? [troubleOf(random, faults)] : [];
  if (chance(kind === "piped" ? 0.6 : 0.3)) addPair(acts, random, { kind, computers: computers.length });
  const statesPrices = chance(0.4);
  for (const act of acts)
    if (act.what === "command" && act.command.type === "batch") act.command.hasLengths = statesPrices;
  return {
    seed,
    computers,
    hasStartTimes: chance(0.85),
    hasOwnJournals: isShared && chance(kind === "batch" ? 0.6 : 0.3),
    instant: random.pick([0, 0.5, 0.8, 0.9]),
    troubles,
    statesPrices,
    keepsKeys: chance(0.4),
    acts,
  };
}

/**
 * What can go wrong in one story: some of all faults, each with a weight of its own. A few that happen often reach states that all of them, each
 * seldom, never do.
 */
type Faults = ReturnType<typeof faultsOf>;

function faultsOf(random: Random, kind: string) {
  const ofResults = editNames.filter((name) => name.includes("results"));
  return {
    acceptedShare: random.pick([0, 0.2, 0.4, 0.4, 0.7]),
    event: someOf(random, ["clock", "reboot", "edit"] as const),
    edit: someOf(random, kind === "batch" && random.next() < 0.5 ? ofResults : editNames),
    videoEdit: someOf(random, videoEditNames),
    start: someOf(random, startNames),
    status: someOf(random, [...Object.keys(statusBehaviours), slowName]),
    media: someOf(random, mediaNames),
    mishap: someOf(random, ["killed", "frozen", "Ctrl-C", "edit", "disk"] as const),
    diskFailure: someOf(random, diskFailureNames),
    diskPart: someOf(random, diskPartNames),
    line: someOf(random, momentous),
    call: someOf(random, callKinds),
  };
}

/** Draws some of the items, and returns what picks one of them by its weight. */
function someOf<Item>(random: Random, items: readonly Item[]): () => Item {
  const share = random.pick([0.15, 0.4, 1]);
  const some = items.filter(() => random.next() < share);
  const drawn = some.length > 0 ? some : [random.pick(items)];
  const weights = drawn.map(() => 8 ** random.next());
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return () => {
    let left = random.next() * sum;
    const index = weights.findIndex((weight) => {
      left -= weight;
      return left < 0;
    });
    return drawn.at(index) as Item;
  };
}

type Pair = (first: CommandAct, random: Random, computers: number) => Act[];

/**
 * A run that is killed, and the same line again after something that it does not type has changed, maybe after the holidays; then with --again, or
 * as it was, and then changed again.
 */
function changedLine(before: Partial<GenerateCommand>, after: Partial<GenerateCommand>): Pair {
  return (first, random) => {
    if (first.command.type !== "generate") return [first];
    const on = random.pick([...momentous, "write", "name", "sync"] as const);
    const nth = random.between(1, mostCalls[on]);
    const killed: Mishap = { on, nth, isAfter: random.next() < 0.5, what: "killed", ms: 0 };
    const command: GenerateCommand = { ...first.command, earlier: "resume", ...before };
    const changed: GenerateCommand = { ...command, ...after };
    const next = { ...first, gapMs: random.pick([1_000, 40 * 24 * hourMs]), waits: true, starts: [], mishaps: [] };
    const isOld = random.next() < 0.3;
    return [
      { ...first, command, mishaps: [killed] },
      { ...next, name: `${first.name}'`, command: changed },
      { ...next, name: `${first.name}"`, command: isOld ? command : { ...changed, earlier: "again" } },
      { ...next, name: `${first.name}+`, command: changed },
    ];
  };
}

const changedImage = changedLine({ piped: "10:00" }, { piped: "10:01" });

/** Faults that do little alone, and belong together. */
const pairs: readonly Pair[] = [
  // A download that breaks off, and goes on with the rest of another version.
  (first, random) => {
    const second = random.pick([
      "is another version from now on",
      "is another version from now on, whose parts have no ETag",
      "brings the rest of another version",
    ]);
    const media = [random.pick(["is cut half-way", "stalls half-way"]), second];
    return [{ ...first, mishaps: [], starts: [{ ...finePlan, media }] }];
  },
  // A holder that is frozen, and its neighbour, who takes over.
  (first, random, computers) => {
    const [on, isAfter] = [random.pick(momentous), random.next() < 0.5];
    const frozen: Mishap = { on, nth: 1, isAfter, what: "frozen", ms: random.pick([95_000, 200_000, 400_000]) };
    const gapMs = random.pick([20, 65_000, 130_000]);
    const computer = random.between(0, computers - 1);
    const namespace = random.pick(["1", "2"]);
    const next = { ...first, name: `${first.name}'`, gapMs, computer, namespace, waits: false, mishaps: [] };
    return [{ ...first, mishaps: [frozen] }, next];
  },
  // Power that is lost between a line and its fsync, and the same again.
  (first, random) => {
    const killed: Mishap = { on: random.pick(["intent", "accepted"]), nth: 1, isAfter: true, what: "killed", ms: 0 };
    const reboot: Act = { what: "reboot", computer: first.computer, gapMs: 0, waits: true };
    const next = { ...first, name: `${first.name}'`, waits: true, mishaps: [] };
    return [{ ...first, mishaps: [killed] }, reboot, next];
  },
  // A disk that fails while a line is written, and the same again.
  (first, random) => {
    const on = random.pick(["intent", "accepted", "downloaded", "delivered"] as const);
    const does = random.pick(["is full (ENOSPC)", "has errors (EIO)", "writes half"]);
    const fault = { does, where: random.pick(["everywhere", "in the home folder", "at the journal"]) };
    const [isAfter, ms] = [random.next() < 0.3, random.pick([0, 15_000, 63_000])];
    const fails: Mishap = { on, nth: 1, isAfter, what: "disk", fault, ms };
    return [
      { ...first, mishaps: [fails] },
      { ...first, name: `${first.name}'`, waits: random.next() < 0.7 },
    ];
  },
  // An intent whose fsync fails, and the same again.
  (first, random) => {
    const fault = { does: "keeps nothing (EDQUOT)", where: random.pick(["at the journal", "everywhere"]) };
    const fails: Mishap = { on: "intent", nth: 1, isAfter: true, what: "disk", fault, ms: random.pick([0, 500]) };
    const next = { ...first, name: `${first.name}'`, gapMs: 1_000, waits: true, mishaps: [] };
    return [{ ...first, mishaps: [fails] }, next];
  },
  // Rows that are made again, which is killed, and then the same line or one without --redo.
  (first, random) => {
    if (first.command.type !== "batch") return [first];
    const command = { ...first.command, shard: undefined, redo: undefined };
    const redo = { ...command, redo: random.pick(["r1", "all"]) };
    const on = random.pick([...momentous, "write", "name", "sync"] as const);
    const nth = random.between(1, mostCalls[on]);
    const killed: Mishap = { on, nth, isAfter: random.next() < 0.5, what: "killed", ms: 0 };
    const next = { ...first, gapMs: random.pick([1_000, 40 * 24 * hourMs]), waits: true, starts: [], mishaps: [] };
    return [
      { ...first, command, starts: [finePlan], mishaps: [] },
      { ...next, name: `${first.name}'`, command: redo, mishaps: [killed] },
      { ...next, name: `${first.name}"`, command: random.next() < 0.5 ? redo : command },
      { ...next, name: `${first.name}+`, command: redo },
    ];
  },
  // A video that is not finished when it is downloaded first.
  (first, random) => {
    const media = Array.from({ length: random.between(1, 4) }, () => "is not finished yet");
    return [{ ...first, mishaps: [], starts: [{ ...finePlan, media }] }];
  },
  // A run that is killed, and the same again with another spelling of its path.
  (first, random) => {
    if (first.command.type !== "generate") return [first];
    const place = first.command.place ?? `${work}/a.mp4`;
    const spelled = place.replace(work, random.pick([`${work}/.`, `${work}/..${work}`, `/${work}`]));
    const on = random.pick(["request", "accepted", "downloaded"] as const);
    const killed: Mishap = { on, nth: 1, isAfter: true, what: "killed", ms: 0 };
    const command = { ...first.command, noWait: false, place };
    const next = { ...first, name: `${first.name}'`, gapMs: 1_000, waits: true, mishaps: [] };
    return [
      { ...first, command, mishaps: [killed] },
      { ...next, command: { ...command, place: spelled } },
    ];
  },
  // Several models of which some run when it is killed, and the same in another order, maybe much later.
  (first, random) => {
    if (first.command.type !== "generate") return [first];
    const place = first.command.place && random.pick([`${work}/`, `${work}/{model}.mp4`]);
    const plain: GenerateCommand = { ...first.command, earlier: "resume", noWait: false, overwrite: false, place };
    const models = random.pick(modelLists);
    const command: GenerateCommand = { ...plain, models, count: models.length };
    const on = random.pick([...momentous, "write", "name", "sync", "request", "answer"] as const);
    const nth = random.between(1, 2 * mostCalls[on]);
    const killed: Mishap = { on, nth, isAfter: random.next() < 0.5, what: "killed", ms: 0 };
    const next = { ...first, gapMs: random.pick([1_000, 40 * 24 * hourMs]), waits: true, starts: [], mishaps: [] };
    const other = { ...command, models: models.toReversed() };
    return [
      { ...first, command, starts: [finePlan], mishaps: [killed] },
      { ...next, name: `${first.name}'`, command: other, mishaps: random.next() < 0.5 ? [killed] : [] },
      { ...next, name: `${first.name}"`, command },
    ];
  },
  // A repetition of the last one that is killed, another generation, and the same repetition again.
  (first, random) => {
    if (first.command.type !== "generate") return [first];
    const plain: GenerateCommand = {
      ...first.command,
      earlier: "resume",
      count: undefined,
      models: undefined,
      noWait: false,
    };
    const command: GenerateCommand = { ...plain, again: "last", keepsPrompt: random.next() < 0.5 };
    const on = random.pick(["request", "accepted", "downloaded"] as const);
    const killed: Mishap = { on, nth: 1, isAfter: true, what: "killed", ms: 0 };
    const next = { ...first, gapMs: 1_000, waits: true, starts: [], mishaps: [] };
    const place = plain.place && `${work}/b.mp4`;
    return [
      { ...first, command: plain, starts: [finePlan], mishaps: [] },
      { ...next, name: `${first.name}'`, command, mishaps: [killed] },
      { ...next, name: `${first.name}"`, command: { ...plain, prompt: "a train", place } },
      { ...next, name: `${first.name}+`, command },
    ];
  },
  changedLine({ project: "ink" }, { project: "oil" }),
  changedImage,
  // A lock or a lease that cannot be removed, and the same again.
  (first, random) => {
    const does = random.pick(["removes nothing (EPERM)", "removes nothing (EBUSY)"]);
    const fault = { does, where: "at locks and leases" };
    const [nth, ms] = [random.between(1, 40), random.pick([0, 500, 63_000])];
    const fails: Mishap = { on: "any", nth, isAfter: false, what: "disk", fault, ms };
    const next = { ...first, name: `${first.name}'`, waits: random.next() < 0.5, mishaps: [] };
    return [{ ...first, mishaps: [fails] }, next];
  },
  // A video whose partial file is on another device than its name.
  (first, random) => {
    const fault = { does: "is several devices (EXDEV)", where: random.pick(["in the work folder", "everywhere"]) };
    const fails: Mishap = { on: "downloaded", nth: 1, isAfter: true, what: "disk", fault, ms: 0 };
    const more: Mishap = { ...fails, fault: { does: "gives no permission (EACCES)", where: "at partial files" } };
    const next = { ...first, name: `${first.name}'`, waits: true, mishaps: [] };
    return [{ ...first, mishaps: random.next() < 0.5 ? [fails, fails] : [more, fails], starts: [finePlan] }, next];
  },
  // Results that a newer version has written, and a machine that knows the rows from them alone.
  (first, _, computers) => {
    if (first.command.type !== "batch") return [first];
    const edit: Act = { what: "edit", how: "a newer version rewrites the results files", gapMs: 0, waits: true };
    const elsewhere = { computer: (first.computer + 1) % computers, waits: true, mishaps: [] };
    return [{ ...first, mishaps: [], starts: [finePlan] }, edit, { ...first, name: `${first.name}'`, ...elsewhere }];
  },
  // A generation, and the replay of its answer to the start of another.
  (first) => {
    if (first.command.type !== "generate") return [first];
    const other = { ...first.command, prompt: "a train" };
    const does = "charges, and replays the answer of another request";
    const starts = [{ ...finePlan, does } as const];
    const next = { ...first, name: `${first.name}'`, command: other, starts, mishaps: [], waits: true };
    const again = { ...next, name: `${first.name}"`, starts: [] };
    return [{ ...first, starts: [finePlan] }, next, again];
  },
  // A generation that is cancelled while it runs, and the same again.
  (first, random) => {
    if (first.command.type !== "generate") return [first];
    const started: Command = { ...first.command, noWait: true, place: undefined };
    const cancel: Command = { type: "cancel", does: random.pick(Object.keys(cancelBehaviours) as CancelName[]) };
    const next = { ...first, gapMs: 100, waits: true };
    return [
      { ...first, command: started, starts: [{ ...finePlan, rendersMs: 60_000 }], mishaps: [] },
      { ...next, name: `${first.name}'`, command: cancel },
      { ...next, name: `${first.name}"`, starts: [], mishaps: [] },
    ];
  },
  // A generation that is deleted, maybe beside a wait for it, and the same again.
  (first, random) => {
    if (first.command.type !== "generate") return [first];
    const next = { ...first, waits: true, starts: [], mishaps: [] };
    const wait: Command = { type: "wait", place: `${work}/`, timeoutMs: timeoutOf(random), prints: "text" };
    const isBeside = random.next() < 0.5;
    const command = isBeside ? { ...first.command, noWait: true, place: undefined } : first.command;
    const media = isBeside ? ["stalls half-way"] : [];
    return [
      { ...first, command, starts: [{ ...finePlan, media }], mishaps: isBeside ? [] : first.mishaps },
      ...(isBeside ? [{ ...next, name: `${first.name}w`, command: wait, waits: false, gapMs: 60_000 }] : []),
      {
        ...next,
        name: `${first.name}'`,
        command: deletionOf(random),
        waits: !isBeside,
        gapMs: random.pick([0, 5, 50, 1_000]),
      },
      { ...next, name: `${first.name}"`, gapMs: 1_000 },
    ];
  },
  // A run that is killed, and --dry-run before the same again.
  (first, random) => {
    if (first.command.type !== "generate") return [first];
    const killed: Mishap = { on: random.pick(["accepted", "answer"]), nth: 1, isAfter: true, what: "killed", ms: 0 };
    const earlier = random.pick(["resume", "reuse", "reuse"] as const);
    const command: Command = { ...first.command, earlier, isDryFirst: true };
    const next = { ...first, name: `${first.name}'`, command, gapMs: 1_000, waits: true, starts: [], mishaps: [] };
    return [{ ...first, starts: [finePlan], mishaps: [killed] }, next];
  },
  // A run that may be killed once it has its id, and a program that resumes what is left while somebody types the same again.
  (first, random) => {
    if (first.command.type !== "generate") return [first];
    const killed: Mishap = { on: "accepted", nth: 1, isAfter: true, what: "killed", ms: 0 };
    const isKilled = random.next() < 0.7;
    const { prompt } = first.command;
    const resume: Command = { type: "library", calls: [{ does: "resume", prompt }], isAtOnce: false };
    const next = { ...first, starts: [], mishaps: [], waits: false };
    return [
      { ...first, starts: [{ ...finePlan, rendersMs: 20_000 }], mishaps: isKilled ? [killed] : [] },
      { ...next, name: `${first.name}'`, command: resume, gapMs: 1_000, waits: isKilled, callMs: 10 },
      { ...next, name: `${first.name}"`, gapMs: random.pick([5, 20, 50]) },
    ];
  },
  // A generation, another one that repeats it and is killed, and the same again.
  (first, random) => {
    if (first.command.type !== "generate") return [first];
    const command = repetitionOf({ ...first.command, earlier: "resume", count: undefined, models: undefined }, random);
    const on = random.pick(["request", "accepted", "answer", "downloaded", "print"] as const);
    const killed: Mishap = { on, nth: random.between(1, 2), isAfter: random.next() < 0.5, what: "killed", ms: 0 };
    const next = { ...first, command, gapMs: 1_000, waits: true };
    return [
      { ...first, starts: [finePlan], mishaps: [] },
      { ...next, name: `${first.name}'`, mishaps: [killed] },
      { ...next, name: `${first.name}"`, mishaps: [] },
    ];
  },
  // An attempt that is left, far back in a long journal, and the same again after the holidays.
  (first, random) => {
    const killed: Mishap = { on: random.pick(["accepted", "request"]), nth: 1, isAfter: true, what: "killed", ms: 0 };
    const edit: Act = { what: "edit", how: longEditName, gapMs: 0, waits: true };
    const next = { ...first, gapMs: 1_000, waits: true };
    return [
      { ...first, mishaps: [killed] },
      edit,
      { ...next, name: `${first.name}'`, gapMs: 40 * 24 * hourMs },
      { ...next, name: `${first.name}"`, mishaps: [] },
    ];
  },
  // A budget, and somebody who buys credits meanwhile.
  (first, random) => {
    if (!("maxCredits" in first.command)) return [first];
    const command = { ...first.command, maxCredits: random.pick([25, 40]) };
    if (command.type === "batch") command.rows = 3;
    const starts = [0, random.pick([10, 20]), 0].map((bought) => ({ ...finePlan, bought }));
    return [{ ...first, command, mishaps: [], starts }];
  },
];

function addPair(acts: Act[], random: Random, { kind, computers }: { kind: string; computers: number }): void {
  const index = random.pick([...acts.keys()]);
  const first = acts[index];
  if (first?.what === "command") acts.splice(index, 1, ...pairOf(kind, random)(first, random, computers));
}

function pairOf(kind: string, random: Random): Pair {
  return kind === "piped" && random.next() < 0.6 ? changedImage : random.pick(pairs);
}

function deletionOf(random: Random): Command {
  const does = random.pick(Object.keys(deleteBehaviours) as DeleteName[]);
  return { type: "delete", does: random.next() < 0.6 ? "deletes it" : does, files: random.next() < 0.4 };
}

function clockError(random: Random): number {
  if (random.next() < 0.5) return 0;
  return random.pick([-180_000, -90_000, -5_000, 5_000, 90_000, 180_000, -Date.UTC(2026, 5, 1)]);
}

function gap(random: Random): number {
  // Somebody goes on in the evening, or after the holidays.
  if (random.next() < 0.05) return random.pick([13 * hourMs, 40 * 24 * hourMs]);
  return random.pick([0, 0, 1, 5, 20, 100, 1_000, 10_000, 65_000, 130_000, 200_000, 310_000]);
}

function commandOf(kind: string, random: Random, range: number): Command {
  const chance = (share: number) => random.next() < share;
  if (chance(0.1)) return { type: "list --dismiss" };
  if (chance(0.04)) return deletionOf(random);
  if (chance(0.05)) return { type: "cancel", does: random.pick(Object.keys(cancelBehaviours) as CancelName[]) };
  if (chance(0.14))
    return {
      type: "wait --all",
      place: chance(0.8) ? `${work}/` : undefined,
      timeoutMs: timeoutOf(random),
      prints: printsOf(random),
    };
  const isMixed = kind === "mixed";
  if (kind === "batch" || (isMixed && chance(0.3))) {
    const of = random.pick([0, 0, 0, 2, 3]);
    return {
      type: "batch",
      rows: random.between(1, 3),
      shard: of === 0 ? undefined : { index: random.between(1, of), of },
      file: `${work}/${random.pick(["shots.csv", "shots.csv", "shots.csv", "shots.csv", "shots.csv", "shots.csv", "link.csv", "hard.csv"])}`,
      retryUnknown: chance(0.1),
      retryFailed: chance(0.2),
      redo: chance(0.3) ? random.pick(["r1", "all"]) : undefined,
      maxCredits: chance(0.3) ? random.pick([10, 15, 25, 40]) : undefined,
      jobs: random.between(1, 3),
      prints: printsOf(random),
    };
  }
  const prompt = chance(0.03) ? `a fox at ${pastedKey}` : random.pick(prompts.slice(0, range));
  if (kind === "mcp" || (isMixed && chance(0.3))) {
    const maxCredits = chance(0.3) ? random.pick([10, 25, 40]) : undefined;
    const isAtOnce = chance(0.2);
    const calls = Array.from({ length: random.between(isAtOnce ? 2 : 1, 3) }, () => ({
      prompt: chance(0.7) ? prompt : random.pick(prompts),
      again: !isAtOnce && chance(maxCredits === undefined ? 0.15 : 0.5),
      cancels: chance(0.1),
      waits: chance(0.3),
      cancelsAtIntent: !isAtOnce && chance(0.1),
    }));
    return { type: "mcp", calls, isAtOnce, maxCredits };
  }
  if (kind === "library" || (isMixed && chance(0.2))) {
    const calls = Array.from({ length: random.between(1, 3) }, () => callOf(prompt, random));
    const [first] = calls;
    if (first && calls.length > 1 && chance(0.15)) return { type: "library", calls: calls.fill(first), isAtOnce: true };
    return { type: "library", calls, isAtOnce: false };
  }
  const noWait = chance(0.12);
  const again = chance(0.08);
  const reuse = kind === "reuse" ? chance(0.8) : chance(0.1);
  let earlier: (Command & { type: "generate" })["earlier"] = "resume";
  if (again) earlier = "again";
  else if (reuse) earlier = "reuse";
  const place = random.pick([
    `${work}/a.mp4`,
    `${work}/a.mp4`,
    `${work}/a.mp4`,
    `${work}/b.mp4`,
    `${work}/`,
    undefined,
  ]);
  return {
    type: "generate",
    prompt,
    place: noWait ? undefined : place,
    earlier,
    noWait,
    overwrite: chance(0.07),
    timeoutMs: timeoutOf(random),
    prints: printsOf(random),
    isDryFirst: chance(0.1),
    isFull: chance(0.04),
    isDryOnly: chance(0.06),
    ...(kind === "several" || (isMixed && chance(0.2)) ? severalOf({ noWait, earlier }, random) : {}),
  };
}

type GenerateCommand = Command & { type: "generate" };

/** `again`, mostly with one result. */
function repetitionOf(command: GenerateCommand, random: Random): GenerateCommand {
  const again = random.pick(["last", "last", "id"] as const);
  const repetition: GenerateCommand = { ...command, again, keepsPrompt: random.next() < 0.5 };
  return random.next() < 0.25 ? { ...repetition, ...severalOf(command, random) } : repetition;
}

/** What a line with `-n`, or with several models, has otherwise. */
function severalOf({ noWait, earlier }: Pick<GenerateCommand, "noWait" | "earlier">, random: Random) {
  const place = random.pick([`${work}/`, `${work}/{n}.mp4`, `${work}/{slug}-{id}.mp4`, undefined]);
  const models = random.next() < 0.4 ? random.pick(modelLists) : undefined;
  return {
    count: models?.length ?? random.pick([2, 2, 3]),
    models,
    place: noWait ? undefined : place,
    earlier: earlier === "reuse" ? ("resume" as const) : earlier,
    overwrite: false,
  };
}

const modelLists = [
  ["wan-2.5", "ray-3"],
  ["ray-3", "wan-2.5"],
  ["sora-2", "ray-3", "wan-2.5"],
];

/** The same line, with the models in another order. */
function reordered(command: Command, random: Random): Command {
  if (command.type !== "generate" || command.models === undefined || random.next() < 0.3) return command;
  return { ...command, models: [...command.models.slice(1), ...command.models.slice(0, 1)] };
}

function printsOf(random: Random): Prints {
  return random.pick(["text", "text", "text", "text", "json", "events"]);
}

/** They resemble each other, and the id of a generation. */
const idempotencyKeys = ["order-1", "order-1", "order-10", "ORDER-1", idKey];

function callOf(prompt: string, random: Random): LibraryCall {
  const chance = (share: number) => random.next() < share;
  const does = random.pick(["start", "start", "generate", "generate", "generate", "resume"] as const);
  if (does === "resume") return { does, prompt };
  const key = chance(0.6) ? random.pick(idempotencyKeys) : undefined;
  const onExisting = chance(0.25) ? random.pick(["resume", "reuse", "new"] as const) : undefined;
  const place = does === "generate" && chance(0.6) ? random.pick([`${work}/a.mp4`, `${work}/l.mp4`]) : undefined;
  const throws = random.pick(["onStarted", "onState", "onProgress"] as const);
  return { does, prompt, key, onExisting, place, throws: does === "generate" && chance(0.15) ? throws : undefined };
}

function timeoutOf(random: Random): number {
  return random.pick([900_000, 900_000, 900_000, 20_000]);
}

const startNames = Object.keys(startBehaviours) as StartName[];

function startOf(random: Random, faults: Faults): StartPlan {
  const chance = (share: number) => random.next() < share;
  return {
    does: chance(faults.acceptedShare) ? "accepts it" : faults.start(),
    answersAfterMs: random.pick([1, 50, 50, 500, 5_000, 50_000, 119_000, 125_000]),
    rendersMs: random.pick([0, 1_000, 8_000, 20_000, 60_000]),
    bought: chance(0.75) ? 0 : random.pick([10, 10, 20, 500, -20]),
    ends: chance(0.9) ? "completed" : random.pick(["failed", "unclear"] as const),
    lagMs: chance(0.8) ? 0 : random.pick([2_000, 20_000, 50_000]),
    lostAfterMs: chance(0.94) ? undefined : random.pick([0, 5_000, 40_000]),
    media: chance(0.6) ? [] : Array.from({ length: random.between(1, 3) }, faults.media),
  };
}

const mediaNames = Object.keys(mediaBehaviours);

/** `isSeveral` for a command that has several lines of each kind. */
function mishapsOf(random: Random, faults: Faults, isSeveral: boolean): Mishap[] {
  return Array.from({ length: random.next() < 0.75 ? 1 : 2 }, () => {
    const isAtLine = random.next() < 0.5;
    const on = isAtLine ? faults.line() : faults.call();
    const what = faults.mishap();
    const most = isSeveral && mostCalls[on] === 1 ? 3 : mostCalls[on];
    const [nth, isAfter] = [random.between(1, most), random.next() < 0.5];
    if (what === "disk") return { on, nth, isAfter, what, ...diskFaultOf(random, faults) };
    return {
      on,
      nth,
      isAfter,
      what,
      edit: faults.videoEdit(),
      ms: random.pick(isAtLine ? [63_000, 95_000, 200_000, 400_000] : [0, 10, 500, 15_000, 63_000, 95_000, 400_000]),
    };
  });
}

function diskFaultOf(random: Random, faults: Faults): Pick<Mishap, "fault" | "ms"> {
  const fault = { does: faults.diskFailure(), where: faults.diskPart() };
  return { fault, ms: random.pick([0, 0, 0, 500, 15_000, 63_000, 400_000]) };
}

/** About as many calls of each kind as a command makes. */
const mostCalls: Record<Mishap["on"], number> = {
  any: 250,
  read: 30,
  write: 40,
  sync: 12,
  name: 20,
  look: 60,
  request: 6,
  answer: 8,
  print: 1,
  intent: 1,
  accepted: 1,
  downloaded: 1,
  delivered: 1,
  sent: 1,
};

function troubleOf(random: Random, faults: Faults): Trouble {
  const from = random.pick([0, 0, 1_000, 10_000, 60_000]);
  return {
    does: faults.status(),
    from,
    until: from + random.pick([5_000, 30_000, 70_000, 200_000, 600_000]),
  };
}
