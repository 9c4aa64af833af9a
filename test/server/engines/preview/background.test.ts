import { describe, expect, test } from "vitest";
import { createBackground } from "../../../../src/server/engines/preview/background.ts";
import { createFrame, frameSize } from "../../../../src/server/engines/preview/frame.ts";
import { paletteOf, palettes } from "../../../../src/server/engines/preview/palette.ts";

const size = frameSize("4:3", "480p");

function paint(prompt: string, seconds: number): Uint8Array {
  const frame = createFrame(size);
  createBackground(size, prompt)(frame, seconds);
  return frame.bytes;
}

function meanDifference(a: Uint8Array, b: Uint8Array): number {
  return a.reduce((sum, value, i) => sum + Math.abs(value - (b[i] as number)), 0) / a.length;
}

const prompts = Array.from({ length: 200 }, (_, i) => `prompt number ${i}`);

describe("the background", () => {
  test("is the same for the same prompt and different for another", () => {
    expect(meanDifference(paint("a fox", 1), paint("a fox", 1))).toBe(0);
    expect(meanDifference(paint("a fox", 1), paint("a fix", 1))).toBeGreaterThan(2);
  });

  test("moves visibly within five seconds, and gently from one frame to the next", () => {
    expect(meanDifference(paint("a fox", 0), paint("a fox", 5))).toBeGreaterThan(4);
    expect(meanDifference(paint("a fox", 0), paint("a fox", 1 / 12))).toBeLessThan(1);
  });

  test("differs in shape, too, from another of the same palette", () => {
    const [first, second] = prompts.filter((prompt) => paletteOf(prompt).ground.y === paletteOf("a fox").ground.y);
    expect(meanDifference(paint(first ?? "", 1), paint(second ?? "", 1))).toBeGreaterThan(2);
  });

  test.each([
    ["across", 1],
    ["down", size.width],
  ])("has no sharp edge %s", (_, distance) => {
    const luma = paint("a fox", 3).subarray(0, size.width * size.height);
    const steps = luma.map((value, i) => (i % size.width === 0 ? 0 : Math.abs(value - (luma[i - distance] ?? value))));
    expect(steps.reduce((a, b) => Math.max(a, b))).toBeLessThanOrEqual(3);
  });

  test("stays within the value range of video", () => {
    for (const prompt of prompts.slice(0, 20)) {
      const luma = paint(prompt, 2).subarray(0, size.width * size.height);
      const [darkest, lightest] = luma.reduce(([low, high], y) => [Math.min(low, y), Math.max(high, y)], [255, 0]);
      expect(darkest).toBeGreaterThanOrEqual(16);
      expect(lightest).toBeLessThanOrEqual(235);
      expect(lightest - darkest).toBeGreaterThan(40);
    }
  });

  test("uses each of at least ten palettes", () => {
    const chosen = new Set(prompts.map((prompt) => JSON.stringify(paletteOf(prompt))));
    expect(Object.keys(palettes).length).toBeGreaterThanOrEqual(10);
    expect(chosen.size).toBe(Object.keys(palettes).length);
  });
});
