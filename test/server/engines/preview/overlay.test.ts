import { describe, expect, test } from "vitest";
import { createBackground } from "../../../../src/server/engines/preview/background.ts";
import { captionSvg } from "../../../../src/server/engines/preview/caption.ts";
import { createFrame, frameSize } from "../../../../src/server/engines/preview/frame.ts";
import { blend, createOverlay } from "../../../../src/server/engines/preview/overlay.ts";
import { yuvOfHex } from "../../../../src/server/engines/preview/palette.ts";
import { rasterize } from "../../../../src/server/engines/preview/pixels.ts";
import { drawProgress } from "../../../../src/server/engines/preview/render.ts";
import { fontFiles, fonts } from "./fonts.ts";
import { aRequest } from "./requests.ts";

const rounded = (hex: string) => Object.values(yuvOfHex(hex)).map(Math.round);

test("colours are those of BT.601 in limited range", () => {
  expect(rounded("#000000")).toEqual([16, 128, 128]);
  expect(rounded("#ffffff")).toEqual([235, 128, 128]);
  expect(rounded("#ff0000")).toEqual([81, 90, 240]);
  expect(rounded("#00ff00")).toEqual([145, 54, 34]);
  expect(rounded("#0000ff")).toEqual([41, 240, 110]);
});

describe("an overlay", () => {
  const size = { width: 4, height: 6 };
  /** Lays four colours, each over a half of two rows below an empty pair of rows, on a frame of one value. */
  function laid(colors: [number, number, number, number][], value: number) {
    const rgba = new Uint8Array(4 * size.width * size.height);
    for (let i = 2 * size.width; i < size.width * size.height; i++) {
      const half = i % size.width < 2 ? 0 : 1;
      rgba.set(colors[half + (i >= 4 * size.width ? 2 : 0)] ?? [], 4 * i);
    }
    const frame = createFrame(size);
    frame.bytes.fill(value);
    blend(createOverlay({ ...size, rgba }), frame);
    return {
      y: Array.from(frame.planes[0].bytes),
      u: Array.from(frame.planes[1].bytes),
      v: Array.from(frame.planes[2].bytes),
    };
  }

  test("replaces, darkens or leaves the pixels below according to its alpha", () => {
    const red: [number, number, number, number] = [255, 0, 0, 255];
    const { y, u, v } = laid([red, [0, 0, 0, 0], [0, 0, 0, 128], red], 200);
    expect(y.filter((_, i) => i % 2 === 0)).toEqual([200, 200, 200, 200, 81, 200, 81, 200, 107, 81, 107, 81]);
    expect(u).toEqual([200, 200, 90, 200, 163, 90]);
    expect(v).toEqual([200, 200, 240, 200, 163, 240]);
  });

  test("that is empty changes nothing", () => {
    expect(new Set(laid([], 77).y)).toEqual(new Set([77]));
  });
});

describe("the progress bar", () => {
  test.each([
    [0, 0],
    [0.5, 320],
    [1, 640],
  ])("at %d is %i pixels wide, along the lower edge", (share, pixels) => {
    const frame = createFrame({ width: 640, height: 480 });
    drawProgress(frame, share);
    const lit = (row: number) =>
      frame.planes[0].bytes.subarray(640 * row, 640 * (row + 1)).filter((y) => y > 200).length;
    expect([lit(475), lit(476), lit(479)]).toEqual([0, pixels, pixels]);
    expect(frame.planes[1].bytes.filter((u) => u === 128).length).toBe(pixels);
  });
});

describe("white text over any background", () => {
  test.each(["paper boats", "paper boats ".repeat(300)])("stands out: %.20s", async (prompt) => {
    const size = frameSize("16:9", "480p");
    const svg = captionSvg(aRequest({ prompt }), size, fonts);
    const rows = Array.from(svg.matchAll(/<text [^>]*y="([\d.]+)"/g), (match) => Math.round(Number(match[1])) - 5);
    const withoutText = svg.replaceAll(/<text.*?<\/text>/g, "");
    const overlay = createOverlay(await rasterize(withoutText, Object.values(fontFiles)));
    const frame = createFrame(size);
    const isLegible = () => {
      blend(overlay, frame);
      const under = rows.flatMap((row) => Array.from(frame.planes[0].bytes.subarray(row * 854 + 62, row * 854 + 270)));
      const luminance = ((Math.max(...under) - 16) / 219) ** 2.2;
      expect(1.05 / (luminance + 0.05)).toBeGreaterThan(4.5);
    };
    for (let i = 0; i < 60; i++) {
      createBackground(size, `prompt number ${i}`)(frame, i / 4);
      isLegible();
    }
    // The lightest picture there is.
    frame.planes[0].bytes.fill(235);
    isLegible();
  });
});
