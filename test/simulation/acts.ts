import type { Random } from "../faults/random.ts";
import { type DeleteName, slowName } from "./answers.ts";
import type { CallKind, Mishap } from "./machine.ts";
import { type Command, otherFolder, projectFolder, type Spelling, spellings, work } from "./people.ts";
import type { Act, Plan } from "./plan.ts";
import { finePlan, otherPath, type StartPlan } from "./service.ts";

export type CommandAct = Act & { what: "command" };
type GenerateCommand = Command & { type: "generate" };
type Settings = NonNullable<GenerateCommand["settings"]>;
type BatchCommand = Command & { type: "batch" };

/** A story about one way to pay twice: its acts, and what else it needs of its plan. */
type Story = Partial<Omit<Plan, "seed" | "acts">> & { acts: Act[] };

/** Between these and the next call most can go wrong. */
export const momentous = [
  "intent",
  "intent",
  "accepted",
  "downloaded",
  "delivered",
  "request",
  "answer",
  "print",
] as const;

export const hourMs = 3_600_000;

const plain: CommandAct = {
  what: "command",
  name: "A",
  command: { type: "list --dismiss" },
  computer: 0,
  namespace: "1",
  key: 0,
  callMs: 1,
  starts: [],
  mishaps: [],
  gapMs: 1_000,
  waits: true,
};

const fox: GenerateCommand = {
  type: "generate",
  prompt: "a fox",
  place: `${work}/a.mp4`,
  earlier: "resume",
  noWait: false,
  overwrite: false,
  timeoutMs: 900_000,
};

const shots: BatchCommand = {
  type: "batch",
  rows: 2,
  shard: undefined,
  file: `${work}/shots.csv`,
  retryUnknown: false,
  retryFailed: false,
  maxCredits: undefined,
  jobs: 1,
};

/** The service may have charged it, and its answer cannot be used. */
const unclearNames = [
  "charges, and resets the connection",
  "charges, and answers 502 in HTML",
  "charges, and answers 503",
  "resets the connection",
  "answers 502 in HTML",
] as const;

function unclear(random: Random): StartPlan {
  return { ...finePlan, does: random.pick(unclearNames) };
}

function killed(on: CallKind, nth = 1, isAfter = true): Mishap {
  return { on, nth, isAfter, what: "killed", ms: 0 };
}

/** A process that ends before its video is saved: its outcome is unclear, or it is killed at one of its steps. */
function leaves(random: Random): Pick<CommandAct, "starts" | "mishaps"> {
  const starts = [{ ...finePlan, rendersMs: 8_000 }];
  if (random.next() < 0.25) return { starts: [unclear(random)], mishaps: [] };
  const on = random.pick(["request", "sent", "accepted", "accepted", "downloaded", "delivered", "print"] as const);
  return { starts, mishaps: [killed(on, 1, random.next() < 0.7)] };
}

/** Several results of one line, or one. */
function countOf(random: Random): Pick<GenerateCommand, "count" | "models" | "place"> {
  const place = random.pick([`${work}/`, `${work}/{n}.mp4`]);
  return random.pick([
    { place: fox.place },
    { place: undefined },
    { count: 2, place },
    { count: 2, models: ["wan-2.5", "ray-3"], place: `${work}/` },
  ]);
}

function deletion(random: Random, isSure = true): CommandAct {
  const does: DeleteName = isSure || random.next() < 0.7 ? "deletes it" : "deletes it, and the first answer is lost";
  return { ...plain, command: { type: "delete", does, files: random.next() < 0.5 } };
}

const stories = {
  /** A dismissal, while the process of the attempt asks the service about its key; and the same line. */
  dismissed: (random) => asked({ type: "list --dismiss" }, random),

  /** The same with --forget; or a key whose first send was forgotten, and that the service forgets meanwhile. */
  forgotten(random) {
    if (random.next() < 0.6) return asked({ type: "list --forget", which: "the newest unclear one" }, random);
    const starts = [unclear(random), unclear(random)];
    const first = { ...plain, command: fox, starts: [unclear(random)], mishaps: [killed("answer")] };
    const forget: Command = { type: "list --forget", which: "the oldest one" };
    const hours = random.between(18, 22);
    return {
      keepsKeys: true,
      acts: [
        first,
        { ...plain, name: "B", command: fox, starts, gapMs: hours * hourMs },
        { ...plain, name: "C", command: forget },
        { ...plain, name: "D", command: fox, gapMs: random.between(2, 6) * hourMs },
      ],
    };
  },

  /** `config set` between two runs of one line. */
  settings(random) {
    const several = random.next() < 0.4;
    const output = (name: string) => `${work}/${several ? "" : name}`;
    const pairs: [Settings, Settings][] = [
      [{ model: "wan-2.5" }, { model: "ray-3" }],
      [{ output: output("a.mp4") }, { output: several ? `${work}/{n}.mp4` : output("b.mp4") }],
      [
        { model: "wan-2.5", output: output("a.mp4") },
        { model: "ray-3", output: output("b.mp4") },
      ],
    ];
    const [before, after] = random.pick(pairs);
    const line: GenerateCommand = { ...fox, ...(several && { count: 2, place: `${work}/` }) };
    const typed = (set: Settings): GenerateCommand => ({
      ...line,
      settings: set,
      place: set.output === undefined ? line.place : undefined,
    });
    const third = random.pick([typed(before), typed(after), { ...typed(after), earlier: "again" as const }]);
    return {
      acts: [
        { ...plain, command: typed(before), ...leaves(random) },
        { ...plain, name: "B", command: typed(after) },
        { ...plain, name: "C", command: third },
      ],
    };
  },

  /** Positions of a run whose videos are deleted at the service; and the same line. */
  deleted(random) {
    const count = random.pick([2, 3]);
    const command: GenerateCommand = { ...fox, ...countOf(random), count };
    const line = { ...command, models: undefined, place: command.place && `${work}/` };
    const bad = random.between(0, count);
    const starts = Array.from({ length: count }, (_, index) => ({
      ...finePlan,
      ends: index === bad ? ("failed" as const) : ("completed" as const),
    }));
    const isLeft = random.next() < 0.4;
    const mishaps = isLeft
      ? [killed(random.pick(["accepted", "downloaded", "delivered"]), random.between(1, count))]
      : [];
    const deletions = Array.from({ length: random.between(1, count) }, (_, index) => ({
      ...deletion(random),
      name: `D${index}`,
    }));
    return {
      acts: [
        { ...plain, command: line, starts, mishaps },
        ...deletions,
        { ...plain, name: "E", command: line },
        { ...plain, name: "F", command: line },
      ],
    };
  },

  /** A redo that is unclear or left, and a results file that goes back to before it. */
  redone(random) {
    const back = random.pick([
      "somebody restores the results files from git",
      "somebody restores the results files from git",
      "somebody deletes the results files",
    ]);
    const redo: BatchCommand = { ...shots, redo: random.pick(["r1", "all"]) };
    const next = [redo, shots].toSorted(() => random.next() - 0.5);
    return {
      acts: [
        { ...plain, command: shots },
        { what: "edit", how: "somebody commits the results files to git", gapMs: 0, waits: true },
        { ...plain, name: "B", command: redo, ...(random.next() < 0.8 ? leaves(random) : {}) },
        { what: "edit", how: back, gapMs: 0, waits: true },
        ...next.map((command, index) => ({ ...plain, name: `C${index}`, command })),
        { ...plain, name: "D", command: redo },
      ],
    };
  },

  /** One command in two spellings, of which the first is left. */
  spelled(random) {
    const spelled = (): Spelling[] => spellings.filter(() => random.next() < 0.4);
    const count = countOf(random);
    const isAgain = random.next() < 0.35;
    const first: Act[] = isAgain ? [{ ...plain, name: "O", command: { ...fox, place: `${work}/o.mp4` } }] : [];
    const command: GenerateCommand = {
      ...fox,
      ...count,
      seed: 7,
      ...(isAgain && { again: "id", keepsPrompt: random.next() < 0.5, models: undefined }),
    };
    const left = leaves(random);
    const nth = count.count === undefined ? 1 : random.between(1, 2);
    const mishaps = left.mishaps.map((mishap) => ({ ...mishap, nth }));
    return {
      keepsKeys: random.next() < 0.3,
      acts: [
        ...first,
        { ...plain, command: { ...command, spellings: spelled() }, ...left, mishaps },
        { ...plain, name: "B", command: { ...command, spellings: spelled() } },
        { ...plain, name: "C", command: { ...command, spellings: spelled() } },
      ],
    };
  },

  /** A process that is stopped for minutes, with an answer in its socket when it goes on. */
  stopped(random) {
    const ms = random.pick([121_000, 130_000, 300_000]);
    const frozen: Mishap = { on: "sent", nth: 1, isAfter: true, what: "frozen", ms };
    const starts = [{ ...finePlan, answersAfterMs: random.pick([50, 500, 5_000, 50_000]) }];
    const command: GenerateCommand = { ...fox, place: random.pick([fox.place, undefined]) };
    return {
      acts: [
        { ...plain, command, starts, mishaps: [frozen] },
        { ...plain, name: "B", command, waits: random.next() < 0.7, gapMs: random.pick([1_000, 60_000]) },
      ],
    };
  },

  /** Two projects, each with a vidgen.json, and one line. */
  projects(random) {
    const several = random.next() < 0.3;
    const line: GenerateCommand = { ...fox, ...(several && { count: 2, place: `${work}/` }) };
    const one: GenerateCommand = { ...line, folder: projectFolder, project: "ink" };
    const two: GenerateCommand = { ...line, folder: otherFolder, project: random.pick(["oil", "oil", "ink"]) };
    const elsewhere = several ? two : { ...two, place: `${work}/b.mp4` };
    const own = random.pick([two, elsewhere]);
    return {
      acts: [
        { ...plain, command: one, ...leaves(random) },
        { ...plain, name: "B", command: own },
        ...(random.next() < 0.7 ? [{ ...plain, name: "C", command: { ...own, earlier: "again" as const } }] : []),
        { ...plain, name: "D", command: one },
      ],
    };
  },

  /** Two base URLs of one host, and one line or one batch, whose results file may be gone. */
  paths(random) {
    const isBatch = random.next() < 0.6;
    const edit: Act = { what: "edit", how: "somebody deletes the results files", gapMs: 0, waits: true };
    const command: Command = isBatch ? shots : fox;
    const [first, second] = random.next() < 0.5 ? [undefined, otherPath] : [otherPath, undefined];
    return {
      keepsKeys: random.next() < 0.3,
      acts: [
        { ...plain, command: { ...command, path: first }, ...leaves(random) },
        ...(isBatch && random.next() < 0.8 ? [edit] : []),
        { ...plain, name: "B", command: { ...command, path: second } },
        { ...plain, name: "C", command: { ...command, path: random.next() < 0.5 ? first : second } },
      ],
    };
  },
} satisfies Record<string, (random: Random) => Story>;

export type StoryName = keyof typeof stories;

export const storyNames = Object.keys(stories) as StoryName[];

export function storyOf(name: StoryName, random: Random): Story {
  return stories[name](random);
}

/** A start without a usable answer, a service that answers late whether it keeps keys, and a command in between. */
function asked(command: Command, random: Random): Story {
  const line: GenerateCommand = { ...fox, ...countOf(random), models: undefined };
  const from = { computer: 0, namespace: random.pick(["1", "1", "2"]) };
  return {
    keepsKeys: true,
    troubles: [{ does: slowName, from: 0, until: 60_000 }],
    acts: [
      { ...plain, command: line, starts: [unclear(random), finePlan, finePlan] },
      { ...plain, name: "B", command, ...from, waits: false, gapMs: random.between(500, 14_000) },
      { ...plain, name: "C", command: line, gapMs: random.pick([0, 100, 1_000]) },
    ],
  };
}
