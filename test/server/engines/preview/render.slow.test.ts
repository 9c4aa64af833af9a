import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { ImageFile } from "../../../../src/server/engines/engine.ts";
import { createFrame, type Frame, frameSize } from "../../../../src/server/engines/preview/frame.ts";
import { createClip, drawThumbnail, renderPreview } from "../../../../src/server/engines/preview/render.ts";
import type { RenderRequest } from "../../../../src/server/store/generations.ts";
import { makeFolder } from "../../../folder.ts";
import { aPng, type Color, readPng, squaresJpeg, squaresWebp } from "../../queue/pictures.ts";
import { readMovie, readNalKinds } from "./mp4.ts";
import { anImage, aTask, hostilePrompts } from "./requests.ts";

async function render(changes: Partial<RenderRequest> = {}): Promise<string> {
  const task = aTask(changes);
  await renderPreview(task);
  return task.file;
}

describe("a preview", () => {
  test("is a complete H.264 .mp4 of the requested size and length, with its index first for a pipe", async () => {
    expect(readMovie(await render())).toEqual({
      types: ["ftyp", "moov", "mdat"],
      codec: "avc1",
      codedSize: [854, 480],
      shownSize: [854, 480],
      created: [0, 0, 0],
      movieSeconds: 1,
      trackSeconds: 1,
      frames: 12,
      keyFrames: [1],
    });
  });

  test("lists its key frames, so that a player can seek", async () => {
    const file = await render({ duration: 4.5, aspectRatio: "1:1" });
    const kinds = readNalKinds(file);
    const standAlone = kinds.flatMap((kind, i) => (kind === 5 ? [i + 1] : []));
    expect(kinds).toHaveLength(54);
    expect(standAlone).toEqual([1, 25, 49]);
    expect(readMovie(file).keyFrames).toEqual(standAlone);
  });

  test.each([
    ["9:16", "480p", [480, 854]],
    ["21:9", "480p", [1120, 480]],
    ["1:4", "480p", [480, 1920]],
    ["16:9", "720p", [1280, 720]],
    ["16:9", "1080p", [1920, 1080]],
  ] as const)("of %s at %s has that size", async (aspectRatio, resolution, size) => {
    const movie = readMovie(await render({ aspectRatio, resolution, duration: 0.1 }));
    expect([movie.codedSize, movie.shownSize]).toEqual([size, size]);
  });

  test.each([
    [2.5, 30],
    [0.3, 4],
    [0.01, 1],
  ])("of %d s has %i frames", async (duration, frames) => {
    const movie = readMovie(await render({ duration, aspectRatio: "1:1" }));
    expect(movie.frames).toBe(frames);
    expect(movie.trackSeconds).toBeCloseTo(frames / 12, 4);
  });

  test("takes of one request differ, with and without an image, and the same id is the same", async () => {
    const frameOf = async (id: string, images: Uint8Array[]) => {
      const clip = await createClip({ ...aTask({}, images), id });
      const frame = createFrame(clip);
      clip.paint(frame, 11);
      return frame.bytes;
    };
    for (const images of [[], [squaresJpeg]]) {
      const takes = await Promise.all(["1", "2", "3", "4"].map((id) => frameOf(id, images)));
      for (const [i, take] of takes.entries())
        for (const other of takes.slice(i + 1)) {
          const difference = take.reduce((sum, byte, at) => sum + Math.abs(byte - (other[at] as number)), 0);
          expect(difference / take.length).toBeGreaterThan(images.length > 0 ? 0.2 : 2);
        }
      expect(await frameOf("1", images)).toEqual(takes[0]);
    }
  });

  test("is byte for byte the same for the same request and id", async () => {
    const [first, second] = [await render(), await render()];
    expect(readFileSync(first).equals(readFileSync(second))).toBe(true);
  });

  test("with images is byte for byte the same too, as is its thumbnail", async () => {
    const images = [squaresJpeg, squaresWebp];
    const [first, second] = [aTask({ duration: 0.5 }, images), aTask({ duration: 0.5 }, images)];
    await renderPreview(first);
    await renderPreview(second);
    expect(readFileSync(first.file).equals(readFileSync(second.file))).toBe(true);
    expect(readFileSync(first.thumbnail).equals(readFileSync(second.thumbnail))).toBe(true);
  });

  test("shows its image under the caption and the bar", async () => {
    const clip = await createClip(aTask({}, [aPng(8, 8, () => [255, 255, 255, 255])]));
    const frame = createFrame(clip);
    clip.paint(frame, 0);
    expect(frame.planes[0].bytes.subarray(0, 854 * 100).every((y) => y === 235)).toBe(true);
    expect(frame.planes[0].bytes.subarray(854 * 400, 854 * 401).some((y) => y < 130)).toBe(true);
  });

  test("hides the lower part of its image, where a continued preview has its own caption", async () => {
    const frames = await Promise.all(
      [255, 0].map(async (value) => {
        const clip = await createClip(aTask({}, [aPng(8, 8, () => [value, value, value, 255])]));
        const frame = createFrame(clip);
        clip.paint(frame, 0);
        return frame.planes[0].bytes;
      }),
    );
    const [white, black] = frames.map((luma) => Buffer.from(luma.subarray(854 * 320)));
    expect(white?.equals(black ?? Buffer.of())).toBe(true);
    expect(frames.map((luma) => luma[854 * 200])).toEqual([235, 16]);
  });

  const [white, black]: [Color, Color] = [
    [255, 255, 255, 255],
    [0, 0, 0, 255],
  ];
  const plain = (color: Color) => anImage(aPng(8, 8, () => color));
  /** The luma of a clip's frame; negative indexes count from the end. */
  async function lumaOf(task: Parameters<typeof createClip>[0], index: number) {
    const clip = await createClip(task);
    const frame = createFrame(clip);
    clip.paint(frame, index < 0 ? clip.frameCount + index : index);
    return frame.planes[0].bytes;
  }

  test.each([
    ["after its first image", [white], 235],
    ["after a background", [], undefined],
  ])("ends with its last image, %s", async (_, colors, first) => {
    const task = { ...aTask({ duration: 3 }), images: colors.map(plain), lastImage: plain(black) };
    const [begin, end] = [await lumaOf(task, 0), await lumaOf(task, -1)];
    const top = (luma: Uint8Array) => [...new Set(luma.subarray(0, 854 * 100))];
    if (first === undefined) expect(top(begin).length).toBeGreaterThan(10);
    else expect(top(begin)).toEqual([first]);
    expect(top(end)).toEqual([16]);
  });

  test("shows its last image whole at the end, as the next clip of a film begins with it", async () => {
    // A white frame of 4 of 160 pixels around black.
    const isEdge = (x: number, y: number) => x < 4 || y < 4 || x >= 156 || y >= 86;
    const framed = anImage(aPng(160, 90, (x, y) => (isEdge(x, y) ? white : black)));
    const task = { ...aTask({ duration: 3 }), images: [plain(black)], lastImage: framed };
    const end = await lumaOf(task, -1);
    expect([end[854 * 100 + 5], end[854 * 100 + 848], end[854 * 5 + 400]]).toEqual([235, 235, 235]);
    expect(end[854 * 100 + 400]).toBe(16);
  });

  test.each([1, 3, 12])("draws its %i references, each of which can be seen, throughout the clip", async (count) => {
    const references = Array.from({ length: count }, () => plain(white));
    for (const aspectRatio of ["16:9", "9:16", "1:4"])
      for (const index of [0, -1]) {
        const task = aTask({ aspectRatio, prompt: "a walk ".repeat(100) });
        const size = frameSize(aspectRatio, "480p");
        const [plainLuma, luma] = [await lumaOf(task, index), await lumaOf({ ...task, references }, index)];
        const isChanged = (at: number) => luma[at] === 235 && plainLuma[at] !== 235;
        const columns = Array.from({ length: size.width }, (_, x) => isChanged(size.width * 50 + x));
        const cards = columns.filter((value, x) => value && !columns[x - 1]);
        expect([aspectRatio, index, cards.length]).toEqual([aspectRatio, index, count]);
        // None of them is cut by the edge.
        expect([columns[0], columns.at(-1)]).toEqual([false, false]);
      }
  });

  test("shows a reference in its own ratio, upright and whole", async () => {
    // A portrait with a red head and green feet.
    const colorAt = (_: number, y: number): Color => (y < 20 ? [255, 0, 0, 255] : [0, 255, 0, 255]);
    const portrait = anImage(aPng(20, 40, colorAt));
    const clip = await createClip({ ...aTask(), references: [portrait] });
    const { colorAt: shownAt, width } = readPng(drawThumbnail(clip));
    const unit = width / 854;
    const isRed = ([red, green]: Color) => red > 180 && green < 90;
    const isGreen = ([red, green]: Color) => green > 180 && red < 90;
    const column = Array.from({ length: Math.floor(130 * unit) }, (_, y) => shownAt(Math.round(52 * unit), y));
    const [reds, greens] = [column.filter(isRed).length, column.filter(isGreen).length];
    expect(Math.min(reds, greens)).toBeGreaterThan(15 * unit);
    expect(Math.abs(reds - greens)).toBeLessThan(6);
    expect(column.findIndex(isRed)).toBeLessThan(column.findIndex(isGreen));
  });

  test.each([
    ["last image", (bad: ImageFile) => ({ lastImage: bad })],
    ["reference", (bad: ImageFile) => ({ references: [plain(white), bad] })],
  ])("names the %s that cannot be decoded, and leaves no file", async (_, changes) => {
    const task = aTask();
    const bad = anImage(squaresWebp.subarray(0, 40), 7);
    await expect(renderPreview({ ...task, ...changes(bad) })).rejects.toThrow("images.example/7 cannot be decoded");
    expect(existsSync(task.file)).toBe(false);
  });

  test("names the image that cannot be decoded", async () => {
    const task = aTask({}, [squaresJpeg, squaresWebp.subarray(0, 40)]);
    await expect(renderPreview(task)).rejects.toThrow("the image at https://images.example/2 cannot be decoded");
  });

  test.each([{ prompt: "a lighthouse at dawn" }, { model: "another-model" }])("is another for %j", async (changes) => {
    const [first, second] = [await render({ duration: 0.1 }), await render({ duration: 0.1, ...changes })];
    expect(readFileSync(first).equals(readFileSync(second))).toBe(false);
  });

  test.each(Object.entries(hostilePrompts))("renders a prompt of %s", async (_, prompt) => {
    expect(readMovie(await render({ prompt, duration: 0.1 })).frames).toBe(1);
  });

  test("shows the caption throughout, and a bar that is full at the end", async () => {
    const clip = await createClip(aTask({ duration: 2 }));
    const frame = createFrame(clip);
    const lit = (from: number, to: number) =>
      frame.planes[0].bytes.subarray(854 * from, 854 * to).filter((y) => y > 200).length;
    for (const index of [0, 11, 23]) {
      clip.paint(frame, index);
      expect(lit(479, 480) / 854).toBeCloseTo((index + 1) / 24, 2);
      expect(lit(300, 470)).toBeGreaterThan(2000);
    }
  });

  test("rejects with the reason why it could not be written", async () => {
    await expect(renderPreview(aTask({}, [], join(makeFolder(), "missing")))).rejects.toThrow("ENOENT");
  });
});

/** A clip whose frames are of one luma each: 20 times the index; its left half is red. */
const aClip = (frameCount: number, width = 64, height = 48) => ({
  width,
  height,
  frameRate: 12,
  frameCount,
  paint: (frame: Frame, index: number) => {
    frame.planes[0].bytes.fill(20 * index);
    frame.planes[1].bytes.fill(128);
    frame.planes[2].bytes.forEach((_, i) => {
      frame.planes[2].bytes[i] = i % (width / 2) < width / 4 ? 160 : 128;
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
  const png = drawThumbnail(await createClip(aTask({ duration: 2 })));
  const { width, height, colorAt } = readPng(png);
  const bar = Array.from({ length: width }, (_, x) => colorAt(x, height - 1)[1]).filter((green) => green > 200);
  expect(bar.length / width).toBeCloseTo(13 / 24, 1);
  expect(png.length).toBeLessThan(150_000);
});
