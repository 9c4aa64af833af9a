import { expect, test } from "vitest";
import type { StartOutcome } from "../../../../src/server/store/generations.ts";
import { hashOfBody } from "../../../../src/server/store/idempotency.ts";
import { decideStart, rowsAfter, type Start, type StartRows } from "../../../../src/server/store/rules/start.ts";
import { newGeneration } from "../records.ts";

const generation = newGeneration();
const idempotency = { key: "attempt", body: "{}" };
const start: Start = { generation, cost: 10, idempotency };
const account = {
  name: "local",
  credits: 25,
  disabled_at: null,
  isDeleted: false,
  max_running: null,
  max_per_hour: null,
};
const use = { running: 2, starts: 3, oldest_at: generation.created_at };
const rows: StartRows = { account, use: undefined, keyUse: undefined };
const earlier = { kind: "started", generation: newGeneration(), remaining_credits: 90, replayed: true } as const;
const keyUse = { bodyHash: hashOfBody("{}", true), isSorted: true, outcome: earlier };
const otherBody = { ...keyUse, bodyHash: hashOfBody("[]", true) };
const isDeleted = { ...account, isDeleted: true };
const isDisabled = { ...account, disabled_at: "2026-01-01T00:00:00.000Z" };
const isPoor = { ...account, credits: 9 };
const isFull = { ...account, max_running: 2 };
const started = { kind: "started", generation, remaining_credits: 15, replayed: false } as const;
const full = { kind: "limited", limit: "max_running", max: 2, retryAfterSeconds: 5 } as const;
const often = { kind: "limited", limit: "max_per_hour", max: 3, retryAfterSeconds: 3_600 } as const;

test.each<[string, Partial<StartRows>, StartOutcome]>([
  ["an account with credits", {}, started],
  ["an account with just enough", { account: { ...account, credits: 10 } }, { ...started, remaining_credits: 0 }],
  ["an account with too few", { account: isPoor }, { kind: "no credits" }],
  ["a deleted account, also with its key", { account: isDeleted, keyUse }, { kind: "no account" }],
  ["a disabled account, also with its key", { account: isDisabled, keyUse }, { kind: "disabled" }],
  ["a repeated key, also without credits", { account: isPoor, keyUse }, earlier],
  ["a repeated key, also at a limit", { account: isFull, use, keyUse }, earlier],
  ["a repeated key with another body", { keyUse: otherBody }, { kind: "key reused" }],
  ["an account at a limit, also without credits", { account: { ...isFull, credits: 0 }, use }, full],
  ["an account below its limits", { account: { ...account, max_running: 3, max_per_hour: 4 }, use }, started],
  ["an account with too many starts in an hour", { account: { ...account, max_per_hour: 3 }, use }, often],
])("a start of %s", (_, given, outcome) => {
  expect(decideStart(start, { ...rows, ...given })).toEqual(outcome);
});

test("the next start of the account finds fewer credits, one more running generation, and the key", () => {
  const after = rowsAfter(start, { rows: { account: isFull, use, keyUse: undefined }, outcome: started });
  expect(after).toEqual({
    account: { ...isFull, credits: 15 },
    use: { ...use, running: 3, starts: 4 },
    keyUse: { bodyHash: hashOfBody("{}", true), isSorted: true, outcome: { ...started, replayed: true } },
  });
  expect(decideStart({ ...start, generation: newGeneration() }, after)).toEqual({ ...started, replayed: true });
  expect(decideStart({ ...start, idempotency: undefined }, { ...after, keyUse: undefined })).toEqual(full);
});
