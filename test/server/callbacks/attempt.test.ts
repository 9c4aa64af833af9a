import { expect, test } from "vitest";
import { nextDelayMs } from "../../../src/server/callbacks/attempt.ts";

const date = new Date("2026-01-01T00:00:00.500Z");
const planned = [1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000];
const after = (attempts: number, retryAfter?: string, random = 0.5) =>
  nextDelayMs({ attempts, retryAfter, random, date });

test("attempts follow after 1 s, 5 s, 30 s, 2 min, 10 min and 1 h, then none", () => {
  expect([1, 2, 3, 4, 5, 6, 7].map((attempts) => after(attempts))).toEqual([...planned, null]);
  expect(after(7, "60")).toBe(null);
});

test.each(planned.map((ms, index) => ({ attempts: index + 1, ms })))(
  "$ms ms vary by at most a fifth",
  ({ attempts, ms }) => {
    expect(after(attempts, undefined, 0)).toBe(ms * 0.8);
    expect(after(attempts, undefined, 1 - Number.EPSILON)).toBe(ms * 1.2);
  },
);

test.each([
  ["120", 120_000],
  ["3600", 3_600_000],
  ["3601", 3_600_000],
  ["9".repeat(400), 3_600_000],
  ["Thu, 01 Jan 2026 00:10:00 GMT", 599_500],
  ["Fri, 02 Jan 2026 00:00:00 GMT", 3_600_000],
])("Retry-After: %s is a wait of %i ms", (retryAfter, ms) => {
  expect(after(1, retryAfter)).toBe(ms);
});

test.each([
  "0",
  "1",
  "",
  "-5",
  "1e9",
  "120.5",
  "0x100",
  "soon",
  "120, 240",
  "2027-01-01T00:00:00Z",
  "2027-01",
  "Thu, 99 Jan 2026 00:00:00 GMT",
  "Wed, 31 Dec 2025 00:00:00 GMT",
])("Retry-After: %s makes the wait neither longer nor shorter", (retryAfter) => {
  expect(after(2, retryAfter)).toBe(5_000);
});

test("Retry-After can double the longest planned wait, not more", () => {
  expect(after(6, "999999")).toBe(7_200_000);
  expect(after(6, "999999", 0)).toBe(2 * 3_600_000 * 0.8);
});
