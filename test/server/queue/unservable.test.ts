import { expect, test } from "vitest";
import { createSlots, type EngineSlots } from "../../../src/server/queue/slots.ts";
import { createUnservableFinder } from "../../../src/server/queue/unservable.ts";
import { createVirtualClock } from "../../clock.ts";
import { fakeEngine } from "../service.ts";

const waiting = {
  model: "ray-3",
  images: 0,
  isReal: true,
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
  const findUnservable = createUnservableFinder({ allSlots: [], store: { isShared }, isCommand, clock, reportProblem });
  expect(findUnservable(waiting)).toBeUndefined();
  await clock.sleep(29 * 60_000);
  expect(findUnservable(waiting)).toBeUndefined();
  await clock.sleep(60_000);
  if (given) expect(findUnservable(waiting)).toMatchObject(given);
  else expect(findUnservable(waiting)).toBeUndefined();
  expect(troubles).toEqual([`Error: ${reason}${isCommand ? "; name it with --engine" : ""}`]);
});

test("an engine that a reload has brought back, and another has removed, has half an hour again", async () => {
  const clock = createVirtualClock();
  const allSlots: EngineSlots[] = [];
  const finder = { allSlots, store: { isShared: false }, clock, reportProblem: () => {} };
  const findUnservable = createUnservableFinder(finder);
  expect(findUnservable(waiting)).toBeUndefined();
  allSlots.push(createSlots(fakeEngine({ models: ["ray-3"], isSimulation: false }), { clock, onChange: () => {} }));
  await clock.sleep(40 * 60_000);
  expect(findUnservable(waiting)).toBeUndefined();
  allSlots.pop();
  expect(findUnservable(waiting)).toBeUndefined();
  await clock.sleep(30 * 60_000);
  expect(findUnservable(waiting)).toMatchObject({ error: reason });
});
