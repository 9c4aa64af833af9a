import { expect, test } from "vitest";
import {
  type DeliveryEvent,
  deliveryLine,
  isGivenUp,
  isReported,
  newDelivery,
} from "../../../src/server/callbacks/delivery.ts";
import type { StoredGeneration } from "../../../src/server/store/generations.ts";

const event: DeliveryEvent = {
  account: "local",
  generation: "1-2-3",
  url: "https://receiver.example:8443/hook?token=secret#part",
  attempt: 1,
  outcome: "HTTP 204",
  isDelivered: true,
  isForbidden: false,
  nextMs: null,
};
const failed = { isDelivered: false, outcome: "HTTP 500" };
const start = "callback for 1-2-3 to https://receiver.example:8443/hook:";

test.each([
  [{}, "HTTP 204"],
  [{ attempt: 3 }, "HTTP 204 at attempt 3"],
  [{ ...failed, nextMs: 1_180 }, "HTTP 500, attempt 1, next in 1 s"],
  [{ ...failed, attempt: 4, nextMs: 96_000 }, "HTTP 500, attempt 4, next in 96 s"],
  [{ ...failed, attempt: 6, nextMs: 3_600_000 }, "HTTP 500, attempt 6, next in 60 min"],
  [{ ...failed, attempt: 7 }, "HTTP 500, given up after 7 attempts"],
  [failed, "HTTP 500, given up after 1 attempt"],
])("%o has one line, without the query", (fields, line) => {
  expect(deliveryLine({ ...event, ...fields })).toBe(`${start} ${line}`);
});

test("a callback that was given up is neither delivered nor tried again", () => {
  expect([event, { ...event, ...failed }, { ...event, ...failed, nextMs: 5 }].map(isGivenUp)).toEqual([
    false,
    true,
    false,
  ]);
});

test("the owner is told of a callback that was given up, and of a forbidden target at its first attempt", () => {
  const again = { ...event, ...failed, nextMs: 5 };
  const forbidden = { ...again, isForbidden: true };
  const events = [event, { ...event, ...failed }, again, forbidden, { ...forbidden, attempt: 2 }];
  expect(events.map(isReported)).toEqual([false, true, false, true, false]);
});

test("a log line stays one line, without control characters", () => {
  const outcome = "bad\r\n\u001b[2Jthing\u0085\u202Egnp\u2028x";
  const line = deliveryLine({ ...event, url: "https://me:pw@receiver.example/a\nb?c", outcome });
  expect(line).toBe("callback for 1-2-3 to https://receiver.example/ab: bad [2Jthing gnp x");
});

test("an invalid URL is not shown in the message", () => {
  expect(deliveryLine({ ...event, url: "no address?token=1" })).not.toContain("token");
});

const generation: StoredGeneration = {
  id: "1-2-3",
  account: "local",
  status: "completed",
  error: null,
  media: null,
  cost: null,
  checkpoint: null,
  created_at: "2026-01-01T00:00:00.000Z",
  completed_at: "2026-01-01T00:01:00.000Z",
  callback_url: event.url,
  request: { prompt: "a fox", model: "veo-3.1" } as StoredGeneration["request"],
};

test("a new callback is due at once and has its own id", () => {
  const date = new Date("2026-01-01T00:01:00.007Z");
  const deliveries = [1, 2].map(() => newDelivery(generation, "https://media.example", date));
  for (const delivery of deliveries)
    expect(delivery).toMatchObject({
      url: event.url,
      next_at: date.toISOString(),
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
    });
  expect(deliveries[0]?.id).not.toBe(deliveries[1]?.id);
});

test("there is no callback without an address", () => {
  expect(newDelivery({ ...generation, callback_url: null }, "https://media.example", new Date(0))).toBeUndefined();
});
