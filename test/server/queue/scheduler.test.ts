import { expect, test } from "vitest";
import {
  type AheadJob,
  canMake,
  type EngineState,
  groupEngines,
  isOut,
  listAvoided,
  nextToFetch,
  nextToMake,
  partOf,
  pickEngine,
  roomOf,
} from "../../../src/server/queue/scheduler.ts";

/** An engine of real models that has room for two more. */
const engine = (changes: Partial<EngineState> = {}): EngineState => ({
  models: ["ray-3"],
  maxImages: 1,
  isSimulation: false,
  concurrency: 4,
  most: 4,
  jobs: 2,
  creates: Number.POSITIVE_INFINITY,
  isPaused: false,
  denied: [],
  isDenying: false,
  ...changes,
});

const job = (id: string, changes: Partial<AheadJob> = {}): AheadJob => ({
  id,
  account: "a",
  number: 1,
  model: "ray-3",
  images: 1,
  isReal: true,
  engine: null,
  ...changes,
});

test.each<[string, Partial<EngineState>, number]>([
  ["what it makes at once, less what it makes", {}, 2],
  ["none, when it makes as many as it can", { jobs: 4 }, 0],
  ["none, when another process left less to this one", { most: 1 }, 0],
  ["no more than it turned out to make at once", { concurrency: 3 }, 1],
  ["one create, which shows whether the engine works", { creates: 1 }, 1],
  ["none, while creates fail", { creates: 0 }, 0],
  ["none, while more creates are open than it may get", { creates: -1 }, 0],
  ["all of a preview, whose creates cost nothing", { isSimulation: true, creates: 0 }, 2],
])("room of an engine: %s", (_, changes, room) => expect(roomOf(engine(changes))).toBe(room));

test.each<[string, Partial<AheadJob>, boolean]>([
  ["its model", {}, true],
  ["another model", { model: "veo-3.1" }, false],
  ["more images than it takes", { images: 2 }, false],
])("an engine can make a generation of %s: %o %s", (_, changes, isAble) =>
  expect(canMake(engine(), job("1", changes))).toBe(isAble),
);

test("a preview stands in for no real model", () => {
  expect(canMake(engine({ isSimulation: true }), job("1"))).toBe(false);
  expect(canMake(engine({ isSimulation: true }), job("1", { isReal: false }))).toBe(true);
});

test("the parts of all processes add up to what the engine makes at once", () => {
  const parts = (processes: number) =>
    Array.from({ length: processes }, (_, index) => partOf({ concurrency: 5 }, { processes, index }));
  expect([parts(1), parts(2), parts(3), parts(7)]).toEqual([[5], [3, 2], [2, 2, 1], [1, 1, 1, 1, 1, 0, 0]]);
});

test("engines that make the same are one group", () => {
  const [a, b, other] = [engine(), engine({ jobs: 0 }), engine({ maxImages: 4 })];
  expect(groupEngines([a, other, b])).toEqual([[a, b], [other]]);
});

test.each<[string, EngineState[], number | undefined]>([
  ["the one with less to do", [engine(), engine({ jobs: 1 })], 1],
  ["by how much each makes at once", [engine({ jobs: 2 }), engine({ concurrency: 2, jobs: 1, most: 2 })], 0],
  ["not one without room", [engine(), engine({ jobs: 1, creates: 0 })], 0],
  ["one that has denied this generation comes last", [engine({ jobs: 0, denied: ["1"] }), engine()], 1],
  ["and gets it when no other one has room", [engine({ denied: ["1"] }), engine({ creates: 0 })], 0],
  ["none, without room", [engine({ jobs: 4 })], undefined],
])("which engine gets a generation: %s", (_, group, index) =>
  expect(pickEngine(group, "1")).toBe(index === undefined ? undefined : group[index]),
);

test("a group that denies a generation tries another one first, then those before the last, then all", () => {
  expect(listAvoided([engine({ denied: ["1", "2"], isDenying: true })])).toEqual([["1", "2"], ["2"], []]);
  expect(listAvoided([engine({ denied: ["1", "2"] })])).toEqual([[]]);
});

const capabilities = { models: ["ray-3"], maxImages: 1, isSimulation: false };

test.each<[string, Partial<EngineState>, AheadJob[], string[], object | undefined]>([
  ["as many as there is room for", {}, [], [], { limit: 2, before: undefined, otherwise: undefined }],
  ["nothing without room", { creates: 0 }, [job("1")], [], undefined],
  [
    "what comes before the job with its images, else that job",
    {},
    [job("1")],
    [],
    { limit: 1, before: { turn: -1, number: 1 }, otherwise: "1" },
  ],
  [
    "of two such jobs the older one",
    {},
    [job("2", { number: 2 }), job("1")],
    [],
    { limit: 1, before: { turn: -1, number: 1 }, otherwise: "1" },
  ],
  [
    "but first the one whose account had no turn, or had it longer ago",
    {},
    [job("1", { account: "late" }), job("2", { account: "early", number: 2 })],
    [],
    { limit: 1, before: { turn: 0, number: 2 }, otherwise: "2" },
  ],
  [
    "not one that another engine is to make",
    {},
    [job("1", { model: "veo-3.1" })],
    [],
    { limit: 2, before: undefined, otherwise: undefined },
  ],
  ["not one that is avoided", {}, [job("1")], ["1"], { limit: 2, before: undefined, otherwise: undefined }],
])("what a group gets next: %s", (_, changes, fetched, avoided, expected) => {
  const turns = ["early", "late"];
  const next = nextToMake([engine(changes)], { fetched, turns, avoided });
  if (!expected) return expect(next).toBeUndefined();
  const { before, ...rest } = expected as { before: unknown };
  expect(next && { ...next, otherwise: next.otherwise?.id }).toEqual({
    ...rest,
    wanted: { ...capabilities, kind: "new", isFetched: false, turns, before },
  });
});

test.each<[string, Partial<EngineState>, AheadJob[], string[] | undefined]>([
  ["the next one", {}, [], []],
  ["also without room", { jobs: 4, creates: 0 }, [], []],
  ["not of an account that has two", {}, [job("1"), job("2"), job("3", { account: "b" })], ["a", "a"]],
  ["none beyond four", {}, ["1", "2", "3", "4"].map((id) => job(id, { account: id })), undefined],
  ["none while the engine is out", { isPaused: true }, [], undefined],
  ["none for an engine that is left to other processes", { most: 0 }, [], undefined],
])("whose images are fetched next: %s", (_, changes, ahead, exceptAccounts) =>
  expect(nextToFetch([engine(changes)], { ahead, turns: ["b"] })).toEqual(
    exceptAccounts && { ...capabilities, kind: "new", isFetched: true, turns: ["b"], exceptAccounts },
  ),
);

test("a group is out when each of its engines is", () => {
  expect(isOut([engine({ isPaused: true }), engine({ most: 0 })])).toBe(true);
  expect(isOut([engine({ isPaused: true }), engine()])).toBe(false);
});
