import { expect, test } from "vitest";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { askTaken, createSlots, type EngineSlots } from "../../../src/server/queue/slots.ts";
import { createUnservableFinder } from "../../../src/server/queue/unservable.ts";
import type { Change } from "../../../src/server/store/change.ts";
import { createVirtualClock } from "../../clock.ts";
import { fakeEngine } from "../service.ts";

const waiting = {
  model: "ray-3",
  images: 0,
  isReal: true,
  names: [],
  engine: null,
  count: 2,
  held: 0,
  oldest_at: "2026-01-01T00:00:00.000Z",
};
const reason = "no engine of the local service serves ray-3";

test.each([
  { where: "of a shared database are left to other processes for ever", isShared: true, given: undefined },
  {
    where: "of a database of one process fail after half an hour",
    isShared: false,
    given: { error: reason, error_code: "not_submitted" },
  },
  { where: "of a command are left to the next one for ever", isCommand: true, isShared: false, given: undefined },
])("generations without an engine $where", async ({ isShared, isCommand, given }) => {
  const clock = createVirtualClock();
  const troubles: string[] = [];
  const reportProblem = (_what: string, error: unknown) => void troubles.push(String(error));
  const { find } = createUnservableFinder({
    allSlots: [],
    store: { isShared, publish() {} },
    isCommand,
    clock,
    reportProblem,
  });
  expect(find(waiting)).toBeUndefined();
  await clock.sleep(29 * 60_000);
  expect(find(waiting)).toBeUndefined();
  await clock.sleep(60_000);
  if (given) expect(find(waiting)).toMatchObject(given);
  else expect(find(waiting)).toBeUndefined();
  expect(troubles).toEqual([`Error: ${reason}${isCommand ? "; name it with --engine" : ""}`]);
});

test("generations with a field of a shared database fail half an hour after a process last had an engine that takes it", async () => {
  const clock = createVirtualClock();
  const named = { ...waiting, names: ["elements"] };
  const published: Change[] = [];
  const troubles: string[] = [];
  const processOf = (engine: Engine) => {
    const slots = createSlots(engine, { clock, onChange: () => {} });
    const store = { isShared: true, publish: (change: Change) => void published.push(change) };
    const reportProblem = (_: string, error: unknown) => void troubles.push(String(error));
    return { slots, ...createUnservableFinder({ allSlots: [slots], store, clock, reportProblem }) };
  };
  const passes = (names: string[]) => fakeEngine({ isSimulation: false, passes: async () => ({ names }) });
  const [taking, other] = [processOf(passes(["elements"])), processOf(passes([]))];
  // The engines have not answered yet.
  expect([taking.find(named), other.find(named), published, troubles]).toEqual([undefined, undefined, [], []]);
  for (const { slots } of [taking, other]) askTaken(slots, ["ray-3"], { clock, onChange: () => {} });
  for (let minute = 0; minute < 90; minute++) {
    await clock.sleep(60_000);
    expect([taking.find(named), other.find(named)]).toEqual([undefined, undefined]);
    for (const change of published) if (change.kind === "servable") other.noteServable(change.needs);
    if (minute === 45) published.length = 0;
  }
  // The process with the engine is gone.
  for (let minute = 0; minute < 29; minute++) {
    await clock.sleep(60_000);
    expect(other.find(named)).toBeUndefined();
  }
  await clock.sleep(60_000);
  const error = "no engine that makes ray-3 takes elements";
  const startedBefore = new Date(clock.date().getTime() - 30 * 60_000).toISOString();
  expect(other.find(named)).toMatchObject({ error, error_code: "not_submitted", startedBefore });
  expect(troubles).toEqual([`Error: ${error}`]);
  // News that may have been missed give it another half hour.
  other.noteServable();
  expect(other.find(named)).toBeUndefined();
});

test("an engine that a reload has brought back, and another has removed, has half an hour again", async () => {
  const clock = createVirtualClock();
  const allSlots: EngineSlots[] = [];
  const finder = { allSlots, store: { isShared: false, publish() {} }, clock, reportProblem: () => {} };
  const { find } = createUnservableFinder(finder);
  expect(find(waiting)).toBeUndefined();
  allSlots.push(createSlots(fakeEngine({ models: ["ray-3"], isSimulation: false }), { clock, onChange: () => {} }));
  await clock.sleep(40 * 60_000);
  expect(find(waiting)).toBeUndefined();
  allSlots.pop();
  expect(find(waiting)).toBeUndefined();
  await clock.sleep(30 * 60_000);
  expect(find(waiting)).toMatchObject({ error: reason });
});
