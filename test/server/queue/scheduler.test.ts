import { expect, test } from "vitest";
import {
  type EngineState,
  groupEngines,
  listAvoided,
  nextToFetch,
  nextToMake,
  roomOf,
} from "../../../src/server/queue/scheduler.ts";
import { canMake } from "../../../src/server/queue/slots.ts";
import type { Needs } from "../../../src/server/store/claims.ts";
import { fakeEngine } from "../service.ts";

/** An engine of real models that has room for two more. */
const engine = (changes: Partial<EngineState> = {}): EngineState => ({
  models: ["ray-3"],
  maxImages: 1,
  isSimulation: false,
  slotName: "http://gpu-1",
  concurrency: 4,
  jobs: 2,
  creates: Number.POSITIVE_INFINITY,
  denied: [],
  isDenying: false,
  named: [],
  ...changes,
});

const capabilities = { models: ["ray-3"], maxImages: 1, isSimulation: false };
const taken = new Map([["ray-3", { names: ["elements", "lora"] }]]);

const needs = (changes: Partial<Needs> = {}): Needs => ({
  model: "ray-3",
  images: 1,
  isReal: true,
  names: [],
  engine: null,
  ...changes,
});

test.each<[string, Partial<EngineState>, number]>([
  ["what it makes at once, less what it makes", {}, 2],
  ["none, when it makes as many as it can", { jobs: 4 }, 0],
  ["no more than it turned out to make at once", { concurrency: 3 }, 1],
  ["one create, which shows whether the engine works", { creates: 1 }, 1],
  ["none, while creates fail", { creates: 0 }, 0],
  ["none, while more creates are open than it may get", { creates: -1 }, 0],
  ["all of a preview, whose creates cost nothing", { isSimulation: true, creates: 0 }, 2],
])("room of an engine: %s", (_, changes, room) => expect(roomOf(engine(changes))).toBe(room));

test.each<[string, Partial<Needs>, boolean]>([
  ["its model", {}, true],
  ["another model", { model: "veo-3.1" }, false],
  ["more images than it takes", { images: 2 }, false],
  ["fields that it takes", { names: ["elements", "lora/scale"] }, true],
  ["a field that it does not take", { names: ["elements", "style"] }, false],
])("an engine can make a generation of %s: %o %s", (_, changes, isAble) =>
  expect(canMake({ engine: fakeEngine({ ...capabilities }), taken }, needs(changes))).toBe(isAble),
);

test("what an engine has not said that it takes, it gets no generation for", () => {
  const named = needs({ names: ["elements"] });
  expect(canMake({ engine: fakeEngine({ ...capabilities }), taken: new Map() }, named)).toBe(false);
});

test("the preview engine does not replace a real model, and takes all fields", () => {
  const preview = { engine: fakeEngine({ ...capabilities, isSimulation: true }), taken: new Map() };
  expect(canMake(preview, needs())).toBe(false);
  expect(canMake(preview, needs({ isReal: false, names: ["style"] }))).toBe(true);
});

test("engines of the same models and fields are one group", () => {
  const [a, b, other] = [engine(), engine({ jobs: 0 }), engine({ maxImages: 4 })];
  const taking = engine({ named: [{ model: "ray-3", names: ["elements"] }] });
  expect(groupEngines([a, other, b, taking])).toEqual([[a, b], [other], [taking]]);
});

test.each<[string, EngineState[], { index: number; limit: number; denied?: string[] } | undefined]>([
  ["as many as it has room for", [engine()], { index: 0, limit: 2 }],
  ["none, without room", [engine({ jobs: 4 })], undefined],
  ["the one with less to do, one at a time", [engine(), engine({ jobs: 1 })], { index: 1, limit: 1 }],
  [
    "by how much each makes at once",
    [engine({ jobs: 2 }), engine({ concurrency: 3, jobs: 2 })],
    { index: 0, limit: 1 },
  ],
  ["not one without room", [engine(), engine({ jobs: 1, creates: 0 })], { index: 0, limit: 2 }],
  [
    "one that has denied a generation leaves it to another one",
    [engine({ jobs: 0, denied: ["1", "2"] }), engine({ denied: ["2"] })],
    { index: 0, limit: 1, denied: ["1"] },
  ],
  [
    "and gets it when no other one has room",
    [engine({ denied: ["1"] }), engine({ creates: 0 })],
    { index: 0, limit: 2 },
  ],
])("which engine of a group gets the next ones: %s", (_, group, expected) => {
  const next = nextToMake(group);
  if (!expected) return expect(next).toBeUndefined();
  const { index, denied = [], ...rest } = expected;
  expect(next && { ...next, engine: group.indexOf(next.engine) }).toEqual({
    ...rest,
    engine: index,
    denied,
    wanted: {
      ...capabilities,
      kind: "new",
      named: [],
      slot: { engine: "http://gpu-1", max: group[index]?.concurrency },
    },
  });
});

test("a preview takes no slot that the processes share", () => {
  expect(nextToMake([engine({ isSimulation: true })])?.wanted.slot).toBeUndefined();
});

test("a group that refused a generation tries another one first, then those before the last, then all", () => {
  expect(listAvoided([engine({ denied: ["1", "2"], isDenying: true })])).toEqual([["1", "2"], ["2"], []]);
  expect(listAvoided([engine({ denied: ["1", "2"] })])).toEqual([[]]);
});

test.each<[string, string[], string[] | undefined]>([
  ["the next one", [], []],
  ["not of an account that has two", ["a", "a", "b"], ["a", "a"]],
  ["none beyond four", ["1", "2", "3", "4"], undefined],
])("whose images are fetched next: %s", (_, accounts, exceptAccounts) => {
  const date = new Date("2026-01-01T00:00:00.000Z");
  const wanted = nextToFetch([engine({ jobs: 4, creates: 0 })], { accounts, date });
  const times = { at: "2026-01-01T00:00:00.000Z", until: "2026-01-01T00:05:00.000Z" };
  expect(wanted).toEqual(exceptAccounts && { ...capabilities, kind: "fetch", times, exceptAccounts });
});

test("images are fetched for all engines of a process, and for real models unless it has previews alone", () => {
  const preview = engine({ isSimulation: true, models: ["sora-2"], maxImages: 4 });
  const next = { accounts: [], date: new Date(0) };
  expect(nextToFetch([engine(), preview], next)).toMatchObject({
    ...{ models: ["ray-3", "sora-2"], maxImages: 4, isSimulation: false },
  });
  expect(nextToFetch([preview], next)).toMatchObject({ isSimulation: true });
});
