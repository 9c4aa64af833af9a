import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ImageFile, RenderTask } from "../../../../src/server/engines/engine.ts";
import { pictureFormat, readPictureHeader } from "../../../../src/server/media/picture.ts";
import type { RenderRequest } from "../../../../src/server/store/generations.ts";
import { makeFolder } from "../../../folder.ts";

/** A request for a clip of one second, but for what is given. */
export function aRequest(changes: Partial<RenderRequest> = {}): RenderRequest {
  return {
    prompt: "a lighthouse at dusk",
    model: "some-model",
    aspectRatio: "16:9",
    duration: 1,
    resolution: "480p",
    extras: {},
    ...changes,
  };
}

/** A task to render a request as a clip.mp4 and a clip.png in a folder, which is a new one unless it is given. */
export function aTask(
  changes: Partial<RenderRequest> = {},
  images: Uint8Array[] = [],
  folder = makeFolder(),
): RenderTask {
  const files = { file: join(folder, "clip.mp4"), thumbnail: join(folder, "clip.png") };
  const imageFolder = images.length > 0 ? makeFolder() : "";
  return {
    id: "1",
    request: aRequest(changes),
    images: images.map((bytes, i) => anImage(bytes, i + 1, imageFolder)),
    ...files,
  };
}

/** Writes an image, as if it came from an address that ends in `number`. */
export function anImage(bytes: Uint8Array, number = 1, folder = makeFolder()): ImageFile {
  const path = join(folder, String(number));
  writeFileSync(path, bytes);
  const { width, height } = readPictureHeader(bytes) ?? { width: 0, height: 0 };
  const about = { format: pictureFormat(bytes) ?? "png", megapixels: (width * height) / 1_000_000 };
  return { path, name: `the image at https://images.example/${number}`, ...about };
}

/** Prompts that a caption could stumble over. */
export const hostilePrompts = {
  "5,000 letters without a space": "w".repeat(5000),
  "5,000 letters in words": "a slow dolly shot, ".repeat(264).slice(0, 5000),
  markup: `</text></svg><b>&amp; "double" 'single' <![CDATA[ -->`,
  "control characters and new lines": "one\n\ttwo\u0000\u0007\u001b[31m\r\nthree\u2028four\ufffe\uffff",
  emoji: "🚀 👩‍👩‍👧 🏳️‍🌈 1️⃣ 👍🏽",
  "Chinese and Japanese": "夕暮れの灯台、波がゆっくりと寄せる",
  "Arabic and Hebrew": "منارة عند الغسق מגדלור בשקיעה \u202eabc\u202c",
  "stacked accents": "Z\u0351\u036b\u0343a\u0328\u0301lgo",
  "half a surrogate pair": "a \ud83d b \ude80",
  "nothing but spaces": "   ",
};
