import { expect, test } from "vitest";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { watchStore } from "../../../src/server/store/watch.ts";

test("a method of the store that takes a second is reported once a minute, and its result is unchanged", async () => {
  const troubles: unknown[] = [];
  let [now, tookMs] = [0, 1_200];
  const slow = {
    ...(await openStore(":memory:")),
    async balance() {
      now += tookMs;
      return 7;
    },
  };
  const reportProblem = (what: string, error: unknown) => troubles.push(`${what}: ${error}`);
  const store = watchStore(slow, { clock: { now: () => now }, reportProblem });
  expect([await store.balance("a"), await store.balance("a"), await store.accounts()]).toEqual([7, 7, []]);
  expect(troubles).toEqual(["The database is slow: balance took 1.2 s"]);
  [now, tookMs] = [now + 60_000, 900];
  await store.balance("a");
  expect(troubles).toHaveLength(1);
  tookMs = 2_000;
  await store.balance("a");
  expect(troubles).toHaveLength(2);
});
