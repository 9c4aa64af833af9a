import { expect, test } from "vitest";
import type { Entry } from "../../src/client/history.ts";
import { readPrices } from "../../src/client/price.ts";

/** Starts of an account, the newest first, each with the balance that it left. */
const starts = (...told: [model: string, remaining_credits: number | undefined, account?: string][]): Entry[] =>
  told.map(([model, remaining_credits, account = "mine"], i) => ({
    attempt: `attempt-${told.length - i}`,
    at: "2026-11-22T00:00:00.000Z",
    base_url: "https://video.example",
    account,
    request: { model, prompt: "a red fox" },
    status: "completed",
    remaining_credits,
  }));

test("what the next start costs is told when its model has cost the same before", () => {
  const prices = readPrices(starts(["wan-2.5", 70], ["wan-2.5", 80], ["veo-3.1", 100]), "mine");

  expect(prices.next("wan-2.5", 60)).toBe(10);
  expect(prices.next("wan-2.5", 45)).toBeUndefined();
  expect(prices.next("veo-3.1", 60)).toBeUndefined();
  expect(prices.next("wan-2.5", undefined)).toBeUndefined();
});

test("a balance that another account or no reply told says nothing of a price", () => {
  const prices = readPrices(
    starts(["wan-2.5", undefined], ["wan-2.5", 5, "other"], ["wan-2.5", 90], ["wan-2.5", 100]),
    "mine",
  );

  expect(prices.next("wan-2.5", 80)).toBe(10);
  expect(prices.typical("wan-2.5")).toBe(10);
});

test("credits that were bought are no price", () => {
  const prices = readPrices(starts(["wan-2.5", 1_000], ["wan-2.5", 10], ["wan-2.5", 20]), "mine");

  expect(prices.typical("wan-2.5")).toBe(10);
  expect(prices.of("attempt-3")).toBeUndefined();
});

test("of an attempt: only a fall that its model has had twice", () => {
  const prices = readPrices(
    starts(["wan-2.5", 50], ["wan-2.5", 60], ["veo-3.1", 70], ["wan-2.5", 95], ["wan-2.5", 105]),
    "mine",
  );

  expect(prices.of("attempt-5")).toBe(10);
  expect(prices.of("attempt-3")).toBeUndefined();
});
