import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { ImageFile, RenderRequest } from "../../../../src/server/engines/engine.ts";
import { encodeBody } from "../../../../src/server/engines/videos/encode.ts";
import { type Kind, kinds } from "../../../../src/server/engines/videos/kinds.ts";
import type { Fake } from "./fakes/fake.ts";
import { createLiteLlm } from "./fakes/litellm.ts";
import { createOpenRouter } from "./fakes/openrouter.ts";
import { createSglang } from "./fakes/sglang.ts";
import { createTensorRtLlm } from "./fakes/tensorrt-llm.ts";
import { createVllmOmni } from "./fakes/vllm-omni.ts";

const fox: RenderRequest = {
  prompt: "ein Fuchs im Schnee, 狐狸",
  model: "wan-2.5",
  aspectRatio: "16:9",
  duration: 5,
  resolution: "720p",
  extras: {},
};
const extras = {
  seed: 42,
  negative_prompt: "blur",
  num_frames: 81,
  fps: 16,
  num_inference_steps: 30,
  guidance_scale: 4.5,
};
const extrasAsText = {
  seed: "42",
  negative_prompt: "blur",
  num_frames: "81",
  fps: "16",
  num_inference_steps: "30",
  guidance_scale: "4.5",
};
const prompt = fox.prompt;

const asked = { prompt, aspect_ratio: "16:9", resolution: "720p", duration: 5 };
const frame = {
  frame_images: [
    { type: "image_url", image_url: { url: "data:image/png;base64,iVBORwD/" }, frame_type: "first_frame" },
  ],
};

/** What each server reads: of a text alone, of an image with every field that is passed on, and of a model of its own. */
const expected: Record<Kind["id"], { create(): Fake; text: object; image: object; model: object }> = {
  "vllm-omni": {
    create: () => createVllmOmni({ model: "Wan-AI/Wan2.2" }),
    text: { encoding: "multipart", fields: { prompt, size: "1280x720", seconds: "5" } },
    image: { file: "input_reference", fields: { prompt, size: "1280x720", seconds: "5", ...extrasAsText } },
    model: { prompt, size: "1280x720", seconds: "5", model: "Wan-AI/Wan2.2" },
  },
  sglang: {
    create: createSglang,
    text: { encoding: "json", fields: { prompt, size: "1280x720", seconds: 5 } },
    image: { file: "input_reference", fields: { prompt, size: "1280x720", seconds: "5", ...extrasAsText } },
    model: { prompt, size: "1280x720", seconds: 5, model: "Wan-AI/Wan2.2" },
  },
  "tensorrt-llm": {
    create: createTensorRtLlm,
    text: { encoding: "json", fields: { prompt, width: 1280, height: 720, seconds: 5 } },
    image: {
      file: "image_reference",
      fields: { prompt, width: "1280", height: "720", seconds: "5", ...extrasAsText },
    },
    model: { prompt, width: 1280, height: 720, seconds: 5, model: "Wan-AI/Wan2.2" },
  },
  litellm: {
    create: () => createLiteLlm({ models: ["wan-2.5", "Wan-AI/Wan2.2"] }),
    text: { encoding: "json", fields: { prompt, size: "1280x720", seconds: "5", model: "wan-2.5" } },
    image: {
      file: "input_reference",
      fields: { prompt, size: "1280x720", seconds: "5", model: "wan-2.5", ...extrasAsText },
    },
    model: { prompt, size: "1280x720", seconds: "5", model: "Wan-AI/Wan2.2" },
  },
  openrouter: {
    create: createOpenRouter,
    text: { encoding: "json", fields: { ...asked, model: "alibaba/wan-2.6" } },
    image: {
      encoding: "json",
      file: "frame_images",
      fields: { ...asked, model: "alibaba/wan-2.6", ...extras, ...frame },
    },
    model: { ...asked, model: "Wan-AI/Wan2.2" },
  },
};

/** Sends a create, and returns what the server read of it and answered. */
async function create(
  kind: Kind,
  fake: Fake,
  { request = fox, images = [], model }: { request?: RenderRequest; images?: ImageFile[]; model?: string },
) {
  const { headers, body } = await encodeBody(kind.createBody({ request, images }, model));
  const reply = await fake.fetch(new Request("http://gpu.test/v1/videos", { method: "POST", headers, body }));
  const [read] = fake.creates;
  return { ...read, reply: await reply.json(), status: reply.status };
}

async function imageFile(): Promise<ImageFile> {
  const folder = await mkdtemp(join(tmpdir(), "vidgen-kinds-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "0");
  await writeFile(path, new Uint8Array([137, 80, 78, 71, 0, 255]));
  return { path, format: "png", megapixels: 1, name: "the image at https://pictures.test/fox.png?secret=1" };
}

describe.each(kinds)("$title", (kind) => {
  const { [kind.id]: wanted } = expected;

  test("reads a prompt and takes it", async () => {
    const read = await create(kind, wanted.create(), {});
    expect(read).toMatchObject({
      ...wanted.text,
      files: [],
      isAccepted: true,
      reply: { status: expect.stringMatching(/^(queued|pending)$/) },
    });
    expect(read.fields).toEqual("fields" in wanted.text && wanted.text.fields);
  });

  test("reads an image and the fields that are passed on", async () => {
    const image = await imageFile();
    const { encoding, files, fields, isAccepted } = await create(kind, wanted.create(), {
      request: { ...fox, extras },
      images: [image],
    });
    const bytes = new Uint8Array([137, 80, 78, 71, 0, 255]);
    expect(isAccepted).toBe(true);
    expect({ encoding, fields, file: files?.[0]?.field }).toEqual({ encoding: "multipart", ...wanted.image });
    expect(files).toEqual([{ field: expect.any(String), name: "image.png", type: "image/png", bytes }]);
  });

  test("gets the upstream model's name when there is one", async () => {
    const { fields, isAccepted } = await create(kind, wanted.create(), { model: "Wan-AI/Wan2.2" });
    expect({ fields, isAccepted }).toEqual({ fields: wanted.model, isAccepted: true });
  });

  test("is sent no second image", async () => {
    const image = await imageFile();
    const body = () => kind.createBody({ request: fox, images: [image, image] }, undefined);
    expect(body).toThrow(`${kind.title} takes 1 image, and this generation has 2`);
  });
});

test.each([
  ["16:9", "480p", "848x480"],
  ["9:16", "1080p", "1080x1920"],
  ["1:1", "720p", "720x720"],
  ["2.39:1", "720p", "1728x720"],
] as const)("a ratio of %s at %s is %s pixels", (aspectRatio, resolution, size) => {
  const [vllm] = kinds;
  const request = { ...fox, aspectRatio, resolution };
  expect(vllm?.createBody({ request, images: [] }, undefined).fields.size).toBe(size);
});

test.each([
  [0.4, 1],
  [4.2, 5],
  [8, 8],
])("%d seconds are asked for as %d", (duration, seconds) => {
  const sent = kinds.map((kind) => kind.createBody({ request: { ...fox, duration }, images: [] }, undefined));
  expect(sent.map(({ fields }) => fields.seconds ?? fields.duration)).toEqual([
    `${seconds}`,
    seconds,
    seconds,
    `${seconds}`,
    seconds,
  ]);
});
