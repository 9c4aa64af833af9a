import { expect, test } from "vitest";
import { createEstimates, type PricedEntry } from "../../../src/client/generation/cost.ts";
import type { StartRequest } from "../../../src/protocol/schema.ts";

const now = new Date("2026-11-22T12:00:00.000Z");
const wan = { model: "wan-2.5", prompt: "a red fox", duration: 8 };
const service = {
  account: "mine",
  engine: ["openrouter"],
  servedBy: undefined,
  name: "https://api.video.example",
  isFree: (model: string) => model === "free",
  isPreview: () => undefined,
  io: { date: () => now },
};
const list = new Map([
  ["listed", { credits: 10, usd: [{ source: "OpenRouter", prices: { duration_seconds: "0.40" } }] }],
]);

/** An earlier attempt of this account, with this engine, an hour ago. */
const entry = (each: Partial<PricedEntry>): PricedEntry => ({
  at: "2026-11-22T11:00:00.000Z",
  account: "mine",
  engine: ["openrouter"],
  request: wan,
  ...each,
});

/** What a start would cost after some earlier ones. */
const estimate = (request: StartRequest, entries: Partial<PricedEntry>[] = []) =>
  createEstimates(service, list, entries.map(entry))(request);

test("a price is what the newest start of the same model, length, resolution and sound has cost", () => {
  const entries = [
    { credits: 12, at: "2026-11-22T11:30:00.000Z", request: { ...wan, prompt: "an owl", aspectRatio: "1:1", seed: 7 } },
    { credits: 10, cost: 0.3 },
    { credits: 500, request: { ...wan, duration: 60 } },
  ];
  expect(estimate(wan, entries)).toMatchObject({ credits: { amount: 12 }, usd: { amount: 0.3 } });
  expect(estimate({ ...wan, duration: 60 }, entries).credits?.amount).toBe(500);
  for (const other of [{ duration: 4 }, { resolution: "1080p" }, { generate_audio: true }, { model: "veo-3.1" }])
    expect(estimate({ ...wan, ...other }, entries)).toEqual({ credits: undefined, usd: undefined });
});

test.each<[string, Partial<PricedEntry>, object?]>([
  ["another account", { credits: 5, cost: 0.3, account: "other" }],
  ["another engine", { credits: 5, cost: 0.3, engine: ["openrouter#other"] }],
  ["no engine", { credits: 5, cost: 0.3, engine: undefined }],
  ["the engine of another process", { credits: 5, cost: 0.3, engine: undefined, served_by: ["https://a.example#"] }],
  ["a cost of 0", { cost: 0 }],
  ["a negative cost", { cost: -1 }],
  ["a passed field", { credits: 5, cost: 0.3, request: { ...wan, mode: "pro" } }],
  [
    "a passed field, for the same request",
    { credits: 5, cost: 0.3, request: { ...wan, mode: "pro" } },
    { mode: "pro" },
  ],
  [
    "a reference video, for the same request",
    { cost: 0.3, request: { ...wan, video_reference: "a" } },
    { video_reference: "a" },
  ],
  ["only a balance", {}],
])("an earlier start with %s shows no price", (_, earlier, fields = {}) => {
  expect(estimate({ ...wan, ...fields }, [earlier])).toEqual({ credits: undefined, usd: undefined });
});

test.each([
  ["a day and a second ago", "2026-11-21T11:59:59.000Z", "old"],
  ["less than a day ago", "2026-11-21T12:00:01.000Z", "earlier"],
  ["in the future, by a wrong clock", "2026-11-24T12:00:00.000Z", "old"],
  ["at no readable time", "yesterday", "old"],
])("a price that was stated %s", (_, at, basis) => {
  expect(estimate(wan, [{ at, credits: 5, cost: 0.3 }])).toMatchObject({ credits: { basis }, usd: { basis } });
});

test("what a list says now counts in place of earlier prices, and names its source", () => {
  const request = { ...wan, model: "listed" };
  expect(estimate(request, [{ request, credits: 5, cost: 9 }])).toEqual({
    credits: { amount: 10, basis: "list" },
    usd: { amount: 3.2, basis: "list", source: "OpenRouter" },
  });
  // The credits of a model do not depend on the request; without a length, an earlier cost of the same kind is known.
  const { duration: _, ...open } = request;
  expect(estimate(open, [{ request: open, cost: 9 }])).toMatchObject({ credits: { amount: 10 }, usd: { amount: 9 } });
  expect(estimate({ ...request, model: "free" })).toMatchObject({ credits: { amount: 0 }, usd: { amount: 0 } });
});
