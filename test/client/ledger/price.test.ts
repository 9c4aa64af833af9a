import { expect, test } from "vitest";
import type { Entry } from "../../../src/client/ledger/history.ts";
import { isComparable, kindOfRequest, readBalance, readPrices } from "../../../src/client/ledger/price.ts";
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

test("a price is what the service has stated for the same model, length, resolution and sound, the newest first", () => {
  const long = { ...wan, duration: 60 };
  const prices = readPrices(
    starts(
      { credits: 500, request: long },
      { remaining_credits: 40 },
      { credits: 12, request: { ...wan, prompt: "an owl", aspectRatio: "1:1", seed: 7 } },
      { credits: 10 },
    ),
    "mine",
  );

  expect(prices.get(kindOfRequest(wan))).toMatchObject({ credits: 12, at: "2026-11-22T02:00:00.000Z" });
  expect(prices.get(kindOfRequest({ ...long, prompt: "a hare" }))?.credits).toBe(500);
  for (const other of [{ duration: 8 }, { resolution: "1080p" }, { generate_audio: true }, { model: "veo-3.1" }])
    expect(prices.get(kindOfRequest({ ...wan, ...other }))).toBeUndefined();
});

test("a drop of the balance is not a price, even if it happens twice, and neither is a price of another account", () => {
  const entries = starts(
    { remaining_credits: 960 },
    { remaining_credits: 980 },
    { remaining_credits: 1_000 },
    { credits: 5, account: "other", remaining_credits: 7 },
  );

  expect(readPrices(entries, "mine").size).toBe(0);
});

test("the balance is that of the account's newest start with a balance, and is valid for an hour", () => {
  const entries = starts({}, { remaining_credits: 5, account: "other" }, { remaining_credits: 90 });

  const balance = readBalance(entries, "mine");
  expect(balance).toEqual({ credits: 90, at: "2026-11-22T01:00:00.000Z" });
  const isNew = (time: string) => balance && isComparable(balance, new Date(time));
  expect([isNew("2026-11-22T01:59:59.000Z"), isNew("2026-11-22T02:00:00.000Z")]).toEqual([true, false]);
  expect(readBalance(starts({}), "mine")).toBeUndefined();
});
