import process from "node:process";
import { expect, test, vi } from "vitest";
import { freeFrames } from "../../../../src/server/engines/preview/garbage.ts";

test("frames that nobody has any more are given back, those that somebody has are kept", async () => {
  const frames = Array.from({ length: 30 }, () => new Uint8Array(3_000_000));
  const before = process.memoryUsage().arrayBuffers;
  frames.length = 4;
  freeFrames();
  // V8 gives them back from a thread of its own.
  await vi.waitFor(() => expect(before - process.memoryUsage().arrayBuffers).toBeGreaterThan(60_000_000));
  expect(frames.map(({ length }) => length)).toEqual([3_000_000, 3_000_000, 3_000_000, 3_000_000]);
});
