import { describe, expect, test } from "vitest";
import { createFrame } from "../../../../src/server/engines/preview/frame.ts";
import { createSlideshow, paintWindow } from "../../../../src/server/engines/preview/slideshow.ts";

const size = { width: 60, height: 40 };

/** A picture of one value, or of what `valueAt` says of each pixel of luma. */
function aPicture(value: number, valueAt = (_x: number, _y: number) => value) {
  const picture = createFrame({ width: 78, height: 46 });
  picture.bytes.fill(value);
  picture.planes[0].bytes.forEach((_, i) => {
    picture.planes[0].bytes[i] = valueAt(i % picture.width, Math.floor(i / picture.width));
  });
  return picture;
}

const slope = aPicture(100, (x, y) => 2 * x + y);

/** The frame at a second of a slideshow of 9 seconds. */
function shown(pictures: ReturnType<typeof aPicture>[], seconds: number, prompt = "a fox"): Uint8Array {
  const frame = createFrame(size);
  createSlideshow(pictures, size, { seconds: 9, seed: prompt })(frame, seconds);
  return frame.bytes;
}

const values = (bytes: Uint8Array) => [...new Set(bytes)];

describe("a slideshow", () => {
  const three = [aPicture(40), aPicture(140), aPicture(240)];

  test.each([
    [0, 40],
    [2.49, 40],
    [2.75, 65],
    [3, 90],
    [3.25, 115],
    [3.51, 140],
    [4.5, 140],
    [6, 190],
    [6.51, 240],
    [8.99, 240],
  ])("of three pictures in nine seconds fades each into the next evenly: at %d s", (seconds, value) => {
    for (const found of values(shown(three, seconds))) expect(Math.abs(found - value)).toBeLessThanOrEqual(1);
  });

  test("of two pictures in a tenth of a second shows both", () => {
    const frame = createFrame(size);
    const paint = createSlideshow(three.slice(0, 2), size, { seconds: 0.1, seed: "" });
    paint(frame, 0);
    expect(values(frame.bytes)).toEqual([40]);
    paint(frame, 0.099);
    expect(values(frame.bytes)).toEqual([140]);
  });

  test("of one picture moves throughout, slowly and smoothly", () => {
    const steps = Array.from({ length: 9 }, (_, i) => meanDifference(shown([slope], i), shown([slope], i + 0.99)));
    for (const step of steps) {
      expect(step).toBeGreaterThan(0.3);
      expect(step).toBeLessThan(5);
    }
    expect(meanDifference(shown([slope], 4), shown([slope], 4 + 1 / 12))).toBeLessThan(0.5);
  });

  test.each(["a fox", "a hare", "an owl", "a wolf"])(
    "begins with the whole picture, and moves what is in its lower part downwards: %s",
    (prompt) => {
      const picture = createFrame({ width: 66, height: 44 });
      picture.bytes.fill(100);
      picture.planes[0].bytes.fill(200, 66 * 22);
      const whole = createFrame(size);
      paintWindow(picture, { left: 0, top: 0, width: 1, height: 1 }, whole);
      expect(shown([picture], 0, prompt)).toEqual(whole.bytes);
      const middles = [0, 2, 4, 6, 8.99].map((seconds) => {
        const frame = shown([picture], seconds, prompt);
        return Array.from({ length: size.height }, (_, y) => frame[y * size.width] as number).findIndex((v) => v > 150);
      });
      expect(middles).toEqual([...middles].sort((a, b) => a - b));
      expect(middles.at(-1)).toBeGreaterThan(middles[0] as number);
    },
  );

  test("moves in the same way for the same prompt, and differently for another", () => {
    expect(shown([slope], 1)).toEqual(shown([slope], 1));
    expect(shown([slope], 1)).not.toEqual(shown([slope], 1, "a fix"));
  });
});

function meanDifference(a: Uint8Array, b: Uint8Array): number {
  return a.reduce((sum, value, i) => sum + Math.abs(value - (b[i] as number)), 0) / a.length;
}

describe("a part of a picture", () => {
  const row = (left: number, width: number, frameWidth: number) => {
    const frame = createFrame({ width: frameWidth, height: 46 });
    paintWindow(
      aPicture(100, (x) => 2 * x),
      { left, top: 0, width, height: 1 },
      frame,
    );
    return Array.from(frame.planes[0].bytes.subarray(0, frameWidth));
  };

  test("is the picture itself when it is the whole", () => {
    const frame = createFrame(slope);
    paintWindow(slope, { left: 0, top: 0, width: 1, height: 1 }, frame);
    expect(frame.bytes).toEqual(slope.bytes);
  });

  test("may begin between two pixels", () => {
    expect(row(10 / 78, 4 / 78, 4)).toEqual([20, 22, 24, 26]);
    expect(row(10.5 / 78, 4 / 78, 4)).toEqual([21, 23, 25, 27]);
  });

  test("is stretched over a frame with more pixels, and is extended at the edges", () => {
    expect(row(10 / 78, 2 / 78, 4)).toEqual([20, 21, 22, 23]);
    expect(row(0, 2 / 78, 8).slice(0, 2)).toEqual([0, 0]);
  });
});
