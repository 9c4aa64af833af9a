import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/io.ts";
import { createCapacity } from "../../../src/server/capacity.ts";
import { openFolder } from "../../../src/server/media/folder.ts";
import { readPictureHeader } from "../../../src/server/media/picture.ts";
import type { Get } from "../../../src/server/outbound/outbound.ts";
import { fetchImages, saveImages } from "../../../src/server/queue/image-fetch.ts";
import { imageName } from "../../../src/server/queue/images.ts";
import { aPng, extendedWebp, halfWebp, oriented, pngOf, squaresJpeg, squaresWebp } from "./pictures.ts";

const url = "https://images.example/a.png";
const never = new AbortController().signal;

const folder = mkdtempSync(join(tmpdir(), "vidgen-images-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const videos = await openFolder({ folder: join(folder, "videos") });

/** Fetches and saves one image, and returns the bytes of its file. */
async function save(source: string, get: Get, signal = never): Promise<Uint8Array> {
  const options = {
    ...{ get, account: "local", videos, signal, folder, clock: systemClock },
    loading: createCapacity(1),
  };
  const fetched = await fetchImages([source], options);
  const [image] = await saveImages(async () => [source], fetched, options);
  return new Uint8Array(readFileSync(image?.path ?? ""));
}

const answer =
  (body: Uint8Array, status = 200): Get =>
  async () => ({ status, body });

const toBase64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
const toPercent = (bytes: Uint8Array) => Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
const text = (value: string) => new TextEncoder().encode(value);

/** The bytes, with some of them replaced. */
function patched(bytes: Uint8Array, at: number, ...values: number[]): Uint8Array {
  const copy = new Uint8Array(bytes);
  copy.set(values, at);
  return copy;
}

const pictures = {
  PNG: aPng(3, 2),
  JPEG: squaresJpeg,
  "JPEG that is turned": oriented(squaresJpeg, 6),
  "lossy WebP": squaresWebp,
  "lossless WebP": halfWebp,
  "extended WebP": extendedWebp,
};

describe("an image is saved", () => {
  test.each(Object.entries(pictures))("from an HTTP address: %s", async (_, bytes) => {
    expect(await save(url, answer(bytes))).toEqual(bytes);
  });

  test.each([
    ["base64", `data:image/png;base64,${toBase64(pictures.PNG)}`],
    ["base64 of another declared type", `data:text/plain;charset=utf-8;base64,${toBase64(pictures.PNG)}`],
    [
      "base64 that is percent-encoded and broken up",
      `DATA:;BASE64,%20${toBase64(pictures.PNG).replaceAll("=", "%3D")}\n`,
    ],
    ["percent-encoded bytes", `data:image/png,${toPercent(pictures.PNG)}`],
  ])("from a data: address in %s, without the network", async (_, source) => {
    const get = () => Promise.reject(new Error("the network was asked"));
    expect(await save(source, get)).toEqual(pictures.PNG);
  });

  test("with the account, the signal and the size limit passed to fetch", async () => {
    const asked: unknown[] = [];
    const get: Get = async (...args) => {
      asked.push(args);
      return { status: 200, body: pictures.PNG };
    };
    await save(url, get);
    expect(asked).toEqual([[url, { account: "local", signal: never, maxBytes: 20_000_000 }]]);
  });
});

test("the images of a generation have 100 MB together, and above that none is kept", async () => {
  const image = patched(new Uint8Array(20_000_000), 0, ...pictures.PNG);
  const kept = new Set<string>();
  const store = {
    ...videos,
    keepImage: async () => {
      const name = `images/${kept.size}`;
      kept.add(name);
      return name;
    },
    remove: async (name: string) => void kept.delete(name),
  };
  const fetch = (sources: string[]) =>
    fetchImages(sources, { get: answer(image), account: "local", videos: store, clock: systemClock, signal: never });
  const five = Array.from({ length: 5 }, () => url);
  expect((await fetch(five)).files).toHaveLength(5);
  kept.clear();
  await expect(fetch([...five, url])).rejects.toThrow(new Error("the images are larger than 100 MB together"));
  expect(kept.size).toBe(0);
});

describe("a bad image has a message that says why", () => {
  const name = `the image at ${url}`;
  test.each([
    ["a page", text("<!doctype html>"), `${name} is not a PNG, JPEG or WebP image`],
    ["nothing", text(""), `${name} is not a PNG, JPEG or WebP image`],
    ["a GIF", text("GIF89a\u0001\u0000\u0001\u0000"), `${name} is not a PNG, JPEG or WebP image`],
    ["a WAV", text("RIFF1234WAVEfmt "), `${name} is not a PNG, JPEG or WebP image`],
    ["too many bytes", patched(new Uint8Array(20_000_001), 0, ...pictures.PNG), `${name} is larger than 20 MB`],
    ["too many pixels", pngOf(12_000, 10_000, text("")), `${name} has 120 megapixels, at most 50`],
    ["a hair too many pixels", pngOf(50_000, 1_001, text("")), `${name} has 51 megapixels, at most 50`],
    ["more pixels than 32 bits count", pngOf(65_536, 65_537, text("")), `${name} has 4296 megapixels, at most 50`],
    ["too long a side", pngOf(65_536, 1, text("")), `${name} has a side of 65536 pixels, at most 65535`],
    ["no pixels", pngOf(0, 5, text("")), `${name} cannot be decoded`],
    ["a PNG that is cut off", pictures.PNG.subarray(0, 20), `${name} cannot be decoded`],
    ["a JPEG that is cut off", squaresJpeg.subarray(0, 60), `${name} cannot be decoded`],
    ["a JPEG with a segment of no length", patched(squaresJpeg, 4, 0, 0), `${name} cannot be decoded`],
    ["a WebP that is cut off", squaresWebp.subarray(0, 25), `${name} cannot be decoded`],
    ["a WebP of an unknown kind", patched(squaresWebp, 12, 65, 66, 67, 68), `${name} cannot be decoded`],
    ["a WebP that moves", patched(extendedWebp, 20, 0x12), `${name} is animated; a still image is required`],
  ])("%s", async (_, body, message) => {
    const length = save(url, answer(body)).then((bytes) => bytes.length);
    await expect(length).rejects.toThrow(new Error(message));
  });

  test("an image of 50 megapixels is accepted, even if a side has 65,535 pixels", async () => {
    for (const png of [pngOf(10_000, 5_000, text("")), pngOf(65_535, 762, text(""))]) {
      expect(await save(url, answer(png))).toEqual(png);
    }
  });

  test.each([301, 403, 404, 429, 500])("a reply of HTTP %i", async (status) => {
    const message = `${name} responded with HTTP ${status}`;
    const isFailing = status >= 429;
    await expect(save(url, answer(pictures.PNG, status))).rejects.toMatchObject({ message, isFailing });
  });

  test("an address that cannot be reached", async () => {
    const get = () => Promise.reject(new Error("images.example has no address"));
    const message = `${name} could not be fetched: images.example has no address`;
    await expect(save(url, get)).rejects.toMatchObject({ message, isFailing: true });
  });

  test.each([
    ["that does not exist", { code: "ENOTFOUND" }],
    ["that nobody can resolve now", { code: "EAI_AGAIN" }],
    ["of a private address", { isForbidden: true }],
  ])("a host %s, by the same words", async (_, facts) => {
    const get = () => Promise.reject(Object.assign(new Error("canary"), facts));
    const message = `${name} could not be fetched: its host has no address that may be used`;
    await expect(save(url, get)).rejects.toMatchObject({ message, isFailing: true });
  });

  test("an abort rejects with the signal's reason", async () => {
    const reason = new Error("the service is stopping");
    const get = () => Promise.reject(new Error("socket hang up"));
    await expect(save(url, get, AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  test.each([
    ["text", "data:image/png,canary-canary", "is not a PNG, JPEG or WebP image"],
    ["bad base64", "data:image/png;base64,canary*canary", "is not valid base64"],
    ["no comma", "data:image/png;canary", "has no data"],
    ["a stray percent sign", "data:image/png,canary%zz%4", "is not a PNG, JPEG or WebP image"],
  ])("a data: address of %s, which is not repeated", async (_, source, says) => {
    const error = await save(source, answer(pictures.PNG)).catch((thrown: Error) => thrown.message);
    expect(error).toBe(`the image in the data: address ${says}`);
  });
});

describe("an image's name", () => {
  test.each([
    ["https://user:canary@images.example/a.png?token=canary#canary", "the image at https://images.example/a.png"],
    [`https://images.example/${"a".repeat(300)}`, `the image at https://images.example/${"a".repeat(177)}…`],
    ["https://images.example/\u001b[31m", "the image at https://images.example/%1B[31m"],
    ["data:image/png;base64,canary", "the image in the data: address"],
  ])("%s", (source, name) => {
    expect(imageName(source)).toBe(name);
  });
});

describe("a picture's header", () => {
  test.each([
    ["PNG", pictures.PNG, { width: 3, height: 2, orientation: 1 }],
    ["JPEG", squaresJpeg, { width: 16, height: 16, orientation: 1 }],
    ["turned JPEG", oriented(squaresJpeg, 8), { width: 16, height: 16, orientation: 8 }],
    ["turned JPEG of the other byte order", oriented(squaresJpeg, 3, "MM"), { width: 16, height: 16, orientation: 3 }],
    ["JPEG turned by nonsense", oriented(squaresJpeg, 9), { width: 16, height: 16, orientation: 1 }],
    ["lossy WebP", squaresWebp, { width: 16, height: 16, orientation: 1 }],
    ["lossless WebP", halfWebp, { width: 16, height: 16, orientation: 1 }],
    ["extended WebP", extendedWebp, { width: 16, height: 16, orientation: 1 }],
  ])("%s", (_, bytes, header) => {
    expect(readPictureHeader(bytes)).toMatchObject(header);
  });

  test("a JPEG with truncated EXIF is treated as upright", () => {
    const cut = Buffer.from("\xff\xd8\xff\xe1\x00\x0eExif\0\0II\x2a\0\x08\0", "latin1");
    const jpeg = new Uint8Array([...cut, ...squaresJpeg.subarray(2)]);
    expect(readPictureHeader(jpeg)).toMatchObject({ width: 16, height: 16, orientation: 1 });
  });

  test("any bytes after a signature give an image or an Error within a short time", async () => {
    const starts = Object.values(pictures).map((bytes) => bytes.subarray(0, 16));
    const bytes = fc
      .tuple(fc.constantFrom(...starts), fc.nat(16), fc.uint8Array({ maxLength: 200 }))
      .map(([start, length, rest]) => new Uint8Array([...start.subarray(0, length), ...rest]));
    await fc.assert(
      fc.asyncProperty(bytes, async (body) => {
        const read = await save(url, answer(body)).catch((error: Error) => error.message);
        if (typeof read === "string") expect(read).toMatch(/^the image at \S+ (is|has|cannot) /);
        else expect(read).toEqual(body);
      }),
      { numRuns: 2_000 },
    );
  });
});
