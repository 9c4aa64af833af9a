import { expect, test } from "vitest";
import type { Entry } from "../../../src/client/ledger/history.ts";
import { isComparable, readBalance } from "../../../src/client/ledger/price.ts";
import type { StartRequest } from "../../../src/protocol/schema.ts";

const wan = { model: "wan-2.5", prompt: "a red fox" };

/** Starts of an account, the newest first, with what the service has told at each. */
const starts = (...told: (Partial<Entry> & { request?: StartRequest })[]): Entry[] =>
  told.map((each, i) => ({
    attempt: `attempt-${told.length - i}`,
    at: `2026-11-22T0${told.length - i}:00:00.000Z`,
    base_url: "https://video.example",
    account: "mine",
    request: wan,
    state: "delivered",
    status: "completed",
    ...each,
  }));

test("the balance is that of the account's newest start with a balance, and is valid for an hour", () => {
  const entries = starts({}, { remaining_credits: 5, account: "other" }, { remaining_credits: 90 });

  const balance = readBalance(entries, "mine");
  expect(balance).toEqual({ credits: 90, at: "2026-11-22T01:00:00.000Z" });
  const isNew = (time: string) => balance && isComparable(balance, new Date(time));
  expect([isNew("2026-11-22T01:59:59.000Z"), isNew("2026-11-22T02:00:00.000Z")]).toEqual([true, false]);
  expect(readBalance(starts({}), "mine")).toBeUndefined();
});
