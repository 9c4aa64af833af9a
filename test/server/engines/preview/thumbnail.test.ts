import { expect, test } from "vitest";
import { createClip } from "../../../../src/server/engines/preview/render.ts";
import { drawThumbnail } from "../../../../src/server/engines/preview/thumbnail.ts";
import { readPng } from "../../jobs/pictures.ts";
import { aRequest } from "./requests.ts";

/** A clip whose frames are of one luma each: 20 times the index; its left half is red. */
const aClip = (frameCount: number, width = 64, height = 48) => ({
  ...{ width, height, frameRate: 12, frameCount },
  paint: (frame: { y: Uint8Array; u: Uint8Array; v: Uint8Array }, index: number) => {
    frame.y.fill(20 * index);
    frame.u.fill(128);
    frame.v.forEach((_, i) => {
      frame.v[i] = i % (width / 2) < width / 4 ? 160 : 128;
    });
  },
});

test.each([
  [1, 0],
  [2, 1],
  [9, 4],
  [10, 5],
])("the thumbnail of %i frames is that of index %i, in its colours", (frameCount, index) => {
  const { width, height, colorAt } = readPng(drawThumbnail(aClip(frameCount)));
  expect([width, height]).toEqual([64, 48]);
  const grey = Math.max(0, Math.round(1.164383 * (20 * index - 16)));
  expect(colorAt(60, 40)).toEqual([grey, grey, grey, 255]);
  const [red, green, blue] = colorAt(3, 5);
  expect(red).toBeGreaterThan(grey + 30);
  expect([green, blue]).toEqual([Math.max(0, Math.round(1.164383 * (20 * index - 16) - 26.015)), grey]);
});

test.each([
  [480, 480, 480, 480],
  [854, 480, 427, 240],
  [1280, 720, 426, 240],
  [1920, 1080, 480, 270],
  [480, 1920, 120, 480],
])("the thumbnail of %i x %i has %i x %i", (width, height, ...expected) => {
  const png = readPng(drawThumbnail(aClip(1, width, height)));
  expect([png.width, png.height]).toEqual(expected);
});

test("the thumbnail of a preview shows the caption and half a bar, and is small", async () => {
  const png = drawThumbnail(await createClip(aRequest({ duration: 2 }), []));
  const { width, height, colorAt } = readPng(png);
  const bar = Array.from({ length: width }, (_, x) => colorAt(x, height - 1)[1]).filter((green) => green > 200);
  expect(bar.length / width).toBeCloseTo(13 / 24, 1);
  expect(png.length).toBeLessThan(150_000);
});
