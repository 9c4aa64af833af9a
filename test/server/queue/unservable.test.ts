import { expect, test } from "vitest";
import { createUnservableFinder } from "../../../src/server/queue/unservable.ts";
import { createVirtualClock } from "../../clock.ts";

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
