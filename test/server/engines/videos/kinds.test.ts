import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { ImageFile } from "../../../../src/server/engines/engine.ts";
import { encodeBody } from "../../../../src/server/engines/videos/encode.ts";
import { type Kind, kinds, maxImagesOf, otherImagesOf } from "../../../../src/server/engines/videos/kinds.ts";
import type { Images, RenderRequest } from "../../../../src/server/store/generations.ts";
import { makeFolder } from "../../../folder.ts";
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

const asMp4 = { prompt, width: 1280, height: 720, size: "1280x720", seconds: 5, format: "mp4" };
const asked = { prompt, aspect_ratio: "16:9", resolution: "720p", duration: 5 };
/** From the id of the generation, "1". */
const drawn = { seed: 901_994_809 };
const frame = {
  frame_images: [
    { type: "image_url", image_url: { url: "data:image/png;base64,iVBORwD/" }, frame_type: "first_frame" },
  ],
};

/** What each server that others have written reads: of a text alone, of an image with every field that is passed on, and of a model of its own. */
const expected: Record<
  Exclude<Kind["id"], "vidgen">,
  { create(): Fake; text: object; image: object; model: object }
> = {
  "vllm-omni": {
    create: () => createVllmOmni({ model: "Wan-AI/Wan2.2" }),
    text: { encoding: "multipart", fields: { prompt, size: "1280x720", seconds: "5" } },
    image: { file: "input_reference", fields: { prompt, size: "1280x720", seconds: "5", ...extrasAsText } },
    model: { prompt, size: "1280x720", seconds: "5", model: "Wan-AI/Wan2.2" },
  },
  sglang: {
    create: createSglang,
    text: { encoding: "json", fields: { prompt, size: "1280x720", seconds: 5, ...drawn } },
    image: { file: "input_reference", fields: { prompt, size: "1280x720", seconds: "5", ...extrasAsText } },
    model: { prompt, size: "1280x720", seconds: 5, ...drawn, model: "Wan-AI/Wan2.2" },
  },
  fastvideo: {
    create: () => createSglang({ owner: "fastvideo" }),
    text: { encoding: "json", fields: { prompt, size: "1280x720", seconds: 5, ...drawn } },
    image: { file: "input_reference", fields: { prompt, size: "1280x720", seconds: "5", ...extrasAsText } },
    model: { prompt, size: "1280x720", seconds: 5, ...drawn, model: "Wan-AI/Wan2.2" },
  },
  "tensorrt-llm": {
    create: createTensorRtLlm,
    text: { encoding: "json", fields: asMp4 },
    image: {
      encoding: "json",
      file: "image_reference",
      fields: { ...asMp4, ...extras, image_reference: "data:image/png;base64,iVBORwD/" },
    },
    model: { ...asMp4, model: "Wan-AI/Wan2.2" },
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
  const { headers, body } = await encodeBody(kind.createBody({ id: "1", request, images }, model));
  const reply = await fake.fetch(new Request("http://gpu.test/v1/videos", { method: "POST", headers, body }));
  const [read] = fake.creates;
  return { ...read, reply: await reply.json(), status: reply.status };
}

async function imageFile(): Promise<ImageFile> {
  const folder = makeFolder();
  const path = join(folder, "0");
  await writeFile(path, new Uint8Array([137, 80, 78, 71, 0, 255]));
  return { path, format: "png", megapixels: 1, name: "the image at https://pictures.test/fox.png?secret=1" };
}

describe.each(Object.keys(expected) as (keyof typeof expected)[])("%s", (id) => {
  const wanted = expected[id];
  const kind = kinds.find((each) => each.id === id) as Kind;

  test("accepts a prompt", async () => {
    const read = await create(kind, wanted.create(), {});
    expect(read).toMatchObject({
      ...wanted.text,
      files: [],
      isAccepted: true,
      reply: { status: expect.stringMatching(/^(queued|pending)$/) },
    });
    expect(read.fields).toEqual("fields" in wanted.text && wanted.text.fields);
  });

  test("accepts an image and the fields that are passed on", async () => {
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

  test("gets the upstream model's name if there is one", async () => {
    const { fields, isAccepted } = await create(kind, wanted.create(), { model: "Wan-AI/Wan2.2" });
    expect({ fields, isAccepted }).toEqual({ fields: wanted.model, isAccepted: true });
  });

  test("gets no more images than it supports", async () => {
    const image = await imageFile();
    const most = maxImagesOf(kind);
    const body = () => kind.createBody({ id: "1", request: fox, images: Array(most + 1).fill(image) }, undefined);
    expect(body).toThrow(`${kind.title} takes ${most === 1 ? "1 image" : "12 images"}, and this generation has`);
  });

  test("gets the fields of real models unchanged, objects as JSON text in a form, and no field that would make a second video", async () => {
    const extra_params = { task: "t2va", steps: [1, 2] };
    const request = { ...fox, extras: { ...extras, extra_params, lora: { name: "snow" }, generate_sound: true } };
    const body = kind.createBody({ id: "1", request, images: [] }, undefined);
    const { body: bytes, headers } = await encodeBody(body);
    const form = new Response(typeof bytes === "string" ? bytes : Buffer.from(bytes), { headers });
    const read = body.encoding === "json" ? await form.json() : Object.fromEntries(await form.formData());
    const isText = body.encoding === "multipart";
    expect(read).toMatchObject({
      extra_params: isText ? JSON.stringify(extra_params) : extra_params,
      lora: isText ? '{"name":"snow"}' : { name: "snow" },
      generate_sound: isText ? "true" : true,
    });
    for (const name of ["num_outputs_per_prompt", "n", "response_format"]) expect(read).not.toHaveProperty(name);
  });
});

test("vLLM-Omni gets several images as a list in image_reference, because most of its models read several files as videos", async () => {
  const images = await Promise.all([imageFile(), imageFile(), imageFile()]);
  const { fields, isAccepted } = await create(kinds[0] as Kind, createVllmOmni(), { images });
  const address = "data:image/png;base64,iVBORwD/";
  expect(isAccepted).toBe(true);
  expect(JSON.parse(String(fields?.image_reference))).toEqual(Array(3).fill({ image_url: address }));
});

test("vLLM-Omni gets one reference as one object, because it refused a list before 24 July 2026", async () => {
  const body = (kinds[0] as Kind).createBody(
    { id: "1", request: fox, images: [], references: [await imageFile()] },
    undefined,
  );
  const { body: bytes, headers } = await encodeBody(body);
  const form = await new Response(Buffer.from(bytes), { headers }).formData();
  expect(JSON.parse(String(form.get("image_reference")))).toEqual({ image_url: "data:image/png;base64,iVBORwD/" });
});

test.each([
  ["sora-2", undefined, "848x480"],
  ["mine", "Wan-AI/Wan2.2-T2V-A14B-Diffusers", "832x480"],
  ["mine", "wanderer-1", "848x480"],
])("%s with the upstream model %s is asked for %s", (model, upstreamModel, size) => {
  const request = { ...fox, model, resolution: "480p" as const };
  expect(kinds[1]?.createBody({ id: "1", request, images: [] }, upstreamModel).fields.size).toBe(size);
});

test("a field that a kind would ignore beside its images is not sent", async () => {
  const [image, address] = [await imageFile(), "data:image/png;base64,iVBORwD/"];
  const part = { type: "image_url", image_url: { url: address } };
  const fieldsOf = async (kind: Kind, images: Partial<Images<ImageFile>>) => {
    try {
      const { body } = await encodeBody(kind.createBody({ id: "1", request: fox, images: [], ...images }, undefined));
      return Buffer.from(body).toString();
    } catch (error) {
      return error;
    }
  };
  for (const kind of kinds) {
    const ignores = new Error(`${kind.title} would ignore the last image or the references of this generation`);
    const isOpenRouter = kind.id === "openrouter";
    const takesReferences = isOpenRouter || kind.id === "vllm-omni";
    expect(otherImagesOf(kind)).toEqual({ takesLastImage: isOpenRouter, maxReferences: takesReferences ? 12 : 0 });

    const both = await fieldsOf(kind, { images: [image], lastImage: image });
    if (isOpenRouter)
      expect(JSON.parse(String(both)).frame_images).toEqual([
        { ...part, frame_type: "first_frame" },
        { ...part, frame_type: "last_frame" },
      ]);
    else expect(both).toEqual(ignores);

    const references = await fieldsOf(kind, { references: [image, image] });
    if (isOpenRouter) expect(JSON.parse(String(references))).toMatchObject({ input_references: [part, part] });
    else if (takesReferences)
      expect(references).toContain(JSON.stringify([{ image_url: address }, { image_url: address }]));
    else expect(references).toEqual(ignores);

    expect(await fieldsOf(kind, { images: [image], references: [image] })).toEqual(ignores);
    expect(await fieldsOf(kind, { lastImage: image, references: [image] })).toEqual(ignores);
  }
});

test.each([
  ["16:9", "480p", "832x480"],
  ["9:16", "480p", "480x832"],
  ["9:16", "1080p", "1080x1920"],
  ["1:1", "720p", "720x720"],
  ["2.39:1", "720p", "1728x720"],
] as const)("a ratio of %s at %s is %s pixels", (aspectRatio, resolution, size) => {
  const [vllm] = kinds;
  const request = { ...fox, aspectRatio, resolution };
  expect(vllm?.createBody({ id: "1", request, images: [] }, undefined).fields.size).toBe(size);
});

test.each([
  ["film", "Wan-AI/Wan2.2-T2V-A14B-Diffusers", "832x480"],
  ["film", "hunyuan-video", "848x480"],
  ["wan-2.5", "hunyuan-video", "848x480"],
  ["taiwan", undefined, "848x480"],
])("the size of %s is that of the family of what it is called there, %s", (model, upstreamModel, size) => {
  const request = { ...fox, model, resolution: "480p" as const };
  for (const kind of kinds.filter(({ provider }) => !provider))
    expect(kind.createBody({ id: "1", request, images: [] }, upstreamModel).fields.size).toBe(size);
});

test("a size in pixels is sent unchanged, instead of a ratio and a resolution", () => {
  const request = { ...fox, aspectRatio: "5:3", resolution: "480p" as const, extras: { size: "640x384" } };
  const sent = kinds.map((kind) => kind.createBody({ id: "1", request, images: [] }, undefined).fields);
  for (const { size, aspect_ratio, resolution } of sent)
    expect({ size, aspect_ratio, resolution }).toEqual({ size: "640x384" });
  expect(sent.find(({ width }) => width !== undefined)).toMatchObject({ width: 640, height: 384 });
});

test.each([
  [0.4, 1],
  [4.2, 5],
  [8, 8],
])("%d seconds are asked for as %d", (duration, seconds) => {
  const sent = kinds.map((kind) => kind.createBody({ id: "1", request: { ...fox, duration }, images: [] }, undefined));
  expect(sent.map(({ fields }) => fields.seconds ?? fields.duration)).toEqual([
    `${seconds}`,
    seconds,
    seconds,
    seconds,
    `${seconds}`,
    // Another vidgen takes fractions.
    `${duration}`,
    seconds,
  ]);
});
