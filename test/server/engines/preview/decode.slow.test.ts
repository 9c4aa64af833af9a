import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeImage } from "../../../../src/server/engines/preview/decode.ts";
import { type Frame, frameSize, rgbOf } from "../../../../src/server/engines/preview/frame.ts";
import {
  aPng,
  type Color,
  extendedWebp,
  halfWebp,
  oriented,
  pngOf,
  squaresJpeg,
  squaresWebp,
} from "../../queue/pictures.ts";

const name = "the image at https://images.example/a.png";
const size = frameSize("4:3", "480p");

const names = ["black", "red", "green", "blue", "white"] as const;
const [black, red, green, blue, white]: Color[] = [
  [0, 0, 0, 255],
  [255, 0, 0, 255],
  [0, 255, 0, 255],
  [0, 0, 255, 255],
  [255, 255, 255, 255],
];

function rgbAt({ width, height, planes: [y, u, v] }: Frame, across: number, down: number): number[] {
  const [column, row] = [Math.floor(across * width), Math.floor(down * height)];
  const chroma = (row >> 1) * (width / 2) + (column >> 1);
  return rgbOf({ y: y.bytes[row * width + column] ?? 0, u: u.bytes[chroma] ?? 0, v: v.bytes[chroma] ?? 0 });
}

/** The colours in the middles of the four quarters, row by row, by the name of what they come closest to. */
function quarters(picture: Frame): string {
  const places = [0.25, 0.75].flatMap((down) => [0.25, 0.75].map((across) => rgbAt(picture, across, down)));
  return places.map(nameOf).join(" ");
}

function nameOf(rgb: number[]): string {
  const distances = [black, red, green, blue, white].map((color) =>
    Math.hypot(...rgb.map((part, i) => part - (color?.[i] ?? 0))),
  );
  return Math.min(...distances) < 60 ? (names[distances.indexOf(Math.min(...distances))] ?? "") : `rgb(${rgb})`;
}

const squares = (x: number, y: number) => [red, green, blue, white][Math.floor(y / 8) * 2 + Math.floor(x / 8)] as Color;

describe("a picture", () => {
  test.each([
    ["PNG", aPng(16, 16, squares), "red green blue white"],
    ["JPEG", squaresJpeg, "red green blue white"],
    ["lossy WebP", squaresWebp, "red green blue white"],
    ["lossless WebP, half transparent", halfWebp, "black green black white"],
    ["extended WebP, half transparent", extendedWebp, "black green black white"],
    ["PNG, half transparent", aPng(16, 16, (x) => [0, 255, 0, x < 8 ? 0 : 255]), "black green black green"],
  ])("shows its colours, and black where it is transparent: %s", async (_, bytes, colors) => {
    expect(quarters(await decodeImage(bytes, name, size))).toBe(colors);
  });

  test("that is half transparent everywhere is half as bright", async () => {
    const picture = await decodeImage(
      aPng(4, 4, () => [200, 100, 50, 128]),
      name,
      size,
    );
    for (const [i, part] of rgbAt(picture, 0.5, 0.5).entries()) expect(part).toBeCloseTo([100, 50, 25][i] ?? 0, -1);
  });

  test.each([
    [1, "red green blue white"],
    [2, "green red white blue"],
    [3, "white blue green red"],
    [4, "blue white red green"],
    [5, "red blue green white"],
    [6, "blue red white green"],
    [7, "white green blue red"],
    [8, "green white red blue"],
  ])("stands upright for the EXIF orientation %i", async (orientation, colors) => {
    expect(quarters(await decodeImage(oriented(squaresJpeg, orientation), name, size))).toBe(colors);
  });

  test.each([
    [1, 832, 538],
    [6, 718, 624],
  ])(
    "of 16 x 8 has room to move along its longer side: as EXIF's orientation %i has it",
    async (turn, width, height) => {
      const wide = new Uint8Array(squaresJpeg);
      const frameAt = Buffer.from(wide).indexOf(Buffer.from([0xff, 0xc0]));
      wide[frameAt + 6] = 8;
      const picture = await decodeImage(oriented(wide, turn), name, size);
      expect([picture.width, picture.height]).toEqual([width, height]);
    },
  );

  test.each([
    [1, 1],
    [16, 16],
    [65_535, 1],
    [1, 65_535],
    [3_000, 20],
    [20, 3_000],
    [2_000, 1_500],
    [853, 481],
  ])("of %i x %i covers a frame of any shape to its edges, with a little room to move", async (width, height) => {
    const png = aPng(width, height);
    for (const frame of [frameSize("16:9", "480p"), frameSize("1:4", "480p")]) {
      const picture = await decodeImage(png, name, frame);
      for (const side of ["width", "height"] as const) {
        expect(picture[side] / frame[side]).toBeGreaterThan(1.1);
        expect(picture[side] / frame[side]).toBeLessThan(1.32);
        expect(picture[side] % 2).toBe(0);
      }
      expect([Math.min(...extremes(picture.planes[0].bytes)), Math.max(...extremes(picture.planes[0].bytes))]).toEqual([
        119, 119,
      ]);
    }
  });

  test("that is scaled down strongly is the average of all its pixels", async () => {
    const stripes = aPng(2_400, 1_800, (x) => (x % 4 === 0 ? white : black) as Color);
    const picture = await decodeImage(stripes, name, size);
    const [darkest, lightest] = extremes(picture.planes[0].bytes);
    expect(lightest - darkest).toBeLessThan(110);
  });
});

function extremes(plane: Uint8Array): [low: number, high: number] {
  return plane.reduce<[number, number]>(([low, high], y) => [Math.min(low, y), Math.max(high, y)], [255, 0]);
}

describe("a decoding error has the name of the image", () => {
  const message = `${name} cannot be decoded, or all of it is transparent`;
  test.each([
    ["a PNG without data", pngOf(8, 8, new Uint8Array())],
    ["a PNG that is cut off", aPng(300, 300, (x, y) => [x % 256, y % 256, (x * y) % 256, 255]).subarray(0, -300)],
    ["a PNG of no more than a header, with 50 megapixels", pngOf(10_000, 5_000, new Uint8Array(20))],
    ["a JPEG that is cut off", squaresJpeg.subarray(0, -10)],
    ["a lossy WebP that is cut off", squaresWebp.subarray(0, -10)],
    ["a lossless WebP that is cut off", halfWebp.subarray(0, -8)],
    ["a picture of nothing", aPng(8, 8, () => [255, 255, 255, 0])],
    ["no picture", new TextEncoder().encode("<svg/>")],
  ])("%s", async (_, bytes) => {
    await expect(decodeImage(bytes, name, size)).rejects.toThrow(new Error(message));
  });

  test("any bytes after a valid beginning give an error or an image, and a valid image can still be decoded afterwards", async () => {
    const pictures = [aPng(16, 16, squares), squaresJpeg, squaresWebp, halfWebp, extendedWebp];
    const broken = fc
      .tuple(fc.constantFrom(...pictures), fc.nat(80), fc.uint8Array({ maxLength: 120 }))
      .map(([picture, length, rest]) => new Uint8Array([...picture.subarray(0, 12 + length), ...rest]));
    const decode = (bytes: Uint8Array) => decodeImage(bytes, name, { width: 64, height: 48 });
    await fc.assert(
      fc.asyncProperty(broken, async (bytes) => {
        const outcome = await decode(bytes).catch((error: Error) => error.message);
        if (typeof outcome === "string") expect(outcome).toBe(message);
      }),
      { numRuns: 200 },
    );
    for (const picture of pictures) expect((await decode(picture)).width).toBeGreaterThan(64);
  });
});
