import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { fields } from "../../../src/protocol/fields.ts";
import { startSchema } from "../../../src/server/api/start-body.ts";
import { createSchema } from "../../../src/server/api/video-body.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { listImages } from "../../../src/server/store/generations.ts";
import {
  apiKey,
  baseUrl,
  bearer,
  createTestService,
  fakeEngine,
  mediaUrl,
  otherKey,
  readError,
  readStart,
  type ServiceOptions,
} from "../service.ts";

const render: Engine["render"] = async ({ file }) => {
  writeFileSync(file, "a video");
  return { kind: "made", hasThumbnail: false };
};
const real = fakeEngine({ name: "http://gpu-1", isSimulation: false, models: ["sora-2", "my-wan"], render });
const simulation = fakeEngine({ models: ["ray-3", "sora-2"], render });

test.each(fields)("the service does not silently drop $name: its schema has each field of a request", ({ name }) => {
  expect(Object.keys(startSchema.shape)).toContain(name);
});

test("a model that no engine serves is refused with the available ones, and costs nothing; the owner's own names are accepted", async () => {
  const service = await createTestService({ engines: [real, simulation] });
  const refused = await service.start({ model: "veo-3.1" });
  expect([refused.status, await readError(refused)]).toEqual([
    400,
    {
      code: "invalid_model",
      message:
        "model must be one of sora-2, my-wan, ray-3; whoever runs the service adds others with `vidgen serve --engine`",
    },
  ]);
  const started = await readStart(await service.start({ model: "my-wan" }));
  expect(started).toMatchObject({ data: { model: "my-wan" }, remaining_credits: 990 });
  await service.rest();
  expect(await (await service.status(started.data.id)).json()).toMatchObject({ status: "completed" });
});

const generateNames = Object.keys(startSchema.shape).filter((name) => !["prompt", "model"].includes(name));
const videosNames = Object.keys(createSchema.shape).filter((name) => name !== "prompt");
test.each([
  ...generateNames.map((name) => ["/api/generate", name] as const),
  ...videosNames.map((name) => ["/v1/videos", name] as const),
])("%s takes null for %s as no value, and says that an image is null", async (path, name) => {
  const service = await createTestService({ engines: [real] });
  const body = JSON.stringify({ prompt: "a fox", model: "sora-2", [name]: null });
  const headers = { ...bearer(apiKey), "Content-Type": "application/json" };
  const response = await service.api(new Request(baseUrl + path, { method: "POST", headers, body }));
  const isMedia = /image|_reference|referenceUrls/i.test(name);
  const warnings = isMedia ? [`${name} is null: the video is made without it.`] : undefined;
  expect([response.status, ((await response.json()) as { warnings?: string[] }).warnings]).toEqual([200, warnings]);
  const [stored] = await service.store.generations({ account: "local", limit: 1 });
  expect(stored?.request).toMatchObject({ unset: ["aspectRatio", "duration", "resolution"], extras: {}, images: [] });
});

test("more images than any engine of the model takes are refused before anything is charged", async () => {
  const images = { imageUrls: Array(2).fill("https://a.example/1.png") };
  const single = fakeEngine({ ...real, maxImages: 1 });
  const given: number[] = [];
  const several = fakeEngine({
    ...real,
    name: "http://gpu-2",
    models: ["sora-2"],
    render(task, options) {
      given.push(task.images.length);
      return render(task, options);
    },
  });
  const service = await createTestService({ engines: [single, several, fakeEngine()] });
  const refused = await service.start({ model: "my-wan", ...images });
  expect([refused.status, await readError(refused)]).toEqual([
    400,
    { code: "invalid_imageUrls", message: "my-wan takes at most 1 image here, not 2" },
  ]);
  const started = await readStart(await service.start({ model: "sora-2", ...images }));
  expect(started.remaining_credits).toBe(990);
  await service.rest();
  expect(given).toEqual([2]);
});

describe("a last image and references", () => {
  const [first, last, other] = ["https://a.example/1.png", "https://a.example/2.png", "https://a.example/3.png"];
  const able = fakeEngine({ ...real, takesLastImage: true, maxReferences: 2 });
  const gpu = "http://gpu-1, which makes sora-2 here, takes";

  test.each([
    ["an engine without them", [real], { lastImageUrl: last }, "lastImageUrl", `${gpu} no last image`],
    ["an engine without them", [real], { referenceUrls: [other] }, "referenceUrls", `${gpu} no references`],
    ["one of several engines without them", [able, real], { lastImageUrl: last }, "lastImageUrl", "no last image"],
    ["too many", [able], { referenceUrls: [other, other, other] }, "referenceUrls", "at most 2 references, not 3"],
    [
      "beside an image",
      [able],
      { imageUrl: first, referenceUrls: [other] },
      "referenceUrls",
      "models ignore references",
    ],
    ["beside a last one", [able], { lastImageUrl: last, referenceUrls: [other] }, "referenceUrls", "models ignore"],
    ["no address", [able], { lastImageUrl: "fox" }, "lastImageUrl", "must be an http(s) or data: address"],
  ])("are refused for %s, before anything is charged", async (_, engines, fields, name, message) => {
    const service = await createTestService({ engines });
    const refused = await service.start({ model: "sora-2", ...fields });
    expect([refused.status, await readError(refused)]).toEqual([
      400,
      { code: `invalid_${name}`, message: expect.stringContaining(message) },
    ]);
    expect(await service.store.balance("local")).toBe(1_000);
  });

  test("are passed to an engine that supports them, separate from the first image", async () => {
    const given: object[] = [];
    const engine = fakeEngine({
      ...able,
      render(task, options) {
        const { images, lastImage, references } = task;
        given.push(
          listImages(task).map(({ name }) => name),
          [images.length, lastImage?.name, references?.length],
        );
        return render(task, options);
      },
    });
    const service = await createTestService({ engines: [engine, fakeEngine({ name: "preview" })] });
    await service.startId({ model: "sora-2", imageUrl: first, lastImageUrl: last });
    await service.rest(1);
    await service.startId({ model: "sora-2", referenceUrls: [other, other] });
    await service.rest(2);
    const nameOf = (url: string) => `the image at ${url}`;
    expect(given).toEqual([
      [first, last].map(nameOf),
      [1, nameOf(last), undefined],
      [other, other].map(nameOf),
      [0, undefined, 2],
    ]);
  });

  test("a field that one of the engines ignores is refused, even if another engine may use it", async () => {
    const faulty = fakeEngine({ ...able, name: "http://gpu-2", findFault: async () => "it takes no last image" });
    const service = await createTestService({ engines: [able, faulty] });
    expect((await service.start({ model: "sora-2" })).status).toBe(200);
    const refused = await service.start({ model: "sora-2", imageUrl: first, lastImageUrl: last });
    expect((await readError(refused)).message).toBe("sora-2: it takes no last image");
  });
});

test.each([
  ['"seed":18446744073709551615', "seed"],
  ['"lora":{"name":"snow","ids":[9007199254740993]}', "lora"],
  ['"fps":1e999', "fps"],
  ['"a.field":9007199254740993', "a.field"],
])("%s, which JavaScript would change, is refused; as a text it is passed on", async (field, name) => {
  const service = await createTestService({ engines: [real] });
  const start = (text: string) => {
    const headers = { ...bearer(apiKey), "Content-Type": "application/json" };
    const body = `{"prompt":"a fox","model":"sora-2",${text}}`;
    return service.api(new Request(`${baseUrl}/api/generate`, { method: "POST", headers, body }));
  };
  const refused = await start(field);
  const message = `${name} contains a number above 2^53: send it as a text`;
  expect([refused.status, await readError(refused)]).toEqual([
    400,
    { code: `invalid_${name.replace(".", "_")}`, message },
  ]);
  expect((await start('"seed":"18446744073709551615"')).status).toBe(200);
  const [stored] = await service.store.generations({ account: "local", limit: 1 });
  expect(stored?.request.extras).toEqual({ seed: "18446744073709551615" });
});

test.each([
  [{ fps: "abc" }, "fps must be a number of frames per second above 0"],
  [{ fps: 0 }, "fps must be a number of frames per second above 0"],
  [{ num_inference_steps: "0" }, "num_inference_steps must be a whole number above 0"],
  [{ guidance_scale: "high" }, "guidance_scale must be a number"],
])("%j, which no server of real models takes, is refused, and costs nothing", async (fields, message) => {
  const service = await createTestService();
  const refused = await service.start(fields);
  expect([refused.status, (await readError(refused)).message]).toEqual([400, message]);
  expect(await service.store.balance("local")).toBe(1_000);
});

test.each([
  [{ prompt: "é".repeat(16_001) }, "prompt must have at most 32 kB"],
  [{ negative_prompt: "x".repeat(32_001) }, "negative_prompt must have at most 32 kB"],
  [{ imageUrl: `https://a.example/${"x".repeat(8_000)}` }, "imageUrl must be an http(s) or data: address"],
  [{ callback_url: `https://a.example/${"x".repeat(8_000)}` }, "callback_url must be an http(s) address"],
])("a text that is too long is refused, and costs nothing", async (fields, message) => {
  const service = await createTestService();
  const refused = await service.start(fields);
  expect([refused.status, (await readError(refused)).message]).toEqual([400, message]);
  expect((await readStart(await service.start({ prompt: "é".repeat(16_000) }))).remaining_credits).toBe(990);
});

describe("the fields of real models", () => {
  const extras = {
    seed: 5,
    negative_prompt: "rain",
    num_frames: "81",
    fps: 16,
    num_inference_steps: 30,
    guidance_scale: 6.5,
  };

  test("are passed to the engine unchanged", async () => {
    const service = await createTestService();
    await service.start(extras);
    await service.rest();
    expect(service.rendered.map(({ request }) => request.extras)).toEqual([extras]);
  });

  test("may be objects or their JSON text", async () => {
    const service = await createTestService();
    const others = { lora: '{"name":"snow"}', extra_params: { a: [1] }, generate_sound: true, quality: "{high" };
    await service.start(others);
    await service.rest();
    expect(service.rendered.map(({ request }) => request.extras)).toEqual([{ ...others, lora: { name: "snow" } }]);
  });

  test.each<[object, string | RegExp]>([
    [{ extra_params: { a: "x".repeat(32_000) } }, "extra_params must have at most 32 kB"],
    ...["{not valid json}", "[1]", [1], 5, true, "euler"].map((value): [object, RegExp] => [
      { extra_params: value },
      /^extra_params must be an object, such as /,
    ]),
    [{ lora: "snow" }, /^lora must be an object, such as /],
    ...[
      { file_id: "file-123" },
      '{"file_id":"file-123"}',
      { video_url: "/tmp/a.mp4" },
      { video_url: "data:image/png;base64,AA" },
      { url: "https://a.example/a.mp4" },
      [{ video_url: "https://a.example/a.mp4" }, { file_id: "file-123" }],
      [],
      "a.mp4",
      7,
    ].map((value): [object, RegExp] => [
      { video_reference: value },
      /^video_reference must be an http\(s\) or data: address, \{"video_url": .* it cannot be a file or a file_id$/,
    ]),
    [{ audio_reference: { video_url: "https://a.example/a.wav" } }, /^audio_reference must be .*"audio_url"/],
  ])("that are too long, or that no server can use, are refused: %j", async (fields, message) => {
    const service = await createTestService();
    const refused = await service.start(fields);
    expect([refused.status, (await readError(refused)).message]).toEqual([
      400,
      typeof message === "string" ? message : expect.stringMatching(message),
    ]);
    expect(await service.store.balance("local")).toBe(1_000);
  });

  test.each<[string, unknown, unknown]>([
    ["extra_params", '{"sample_solver":"euler"}', { sample_solver: "euler" }],
    ["lora", { name: "snow" }, { name: "snow" }],
    ["video_reference", { video_url: "https://a.example/a.mp4" }, { video_url: "https://a.example/a.mp4" }],
    ["video_reference", "https://a.example/a.mp4", "https://a.example/a.mp4"],
    ["video_reference", '[{"video_url":"data:video/mp4;base64,AA"}]', [{ video_url: "data:video/mp4;base64,AA" }]],
    ["audio_reference", { audio_url: "https://a.example/a.wav" }, { audio_url: "https://a.example/a.wav" }],
  ])("%s may be %j", async (name, value, read) => {
    const service = await createTestService();
    await service.start({ [name]: value });
    await service.rest();
    expect(service.rendered.map(({ request }) => request.extras)).toEqual([{ [name]: read }]);
  });

  test.each(Object.keys(extras))("%s must be a number or a text", async (field) => {
    const service = await createTestService();
    const refused = await service.start({ [field]: {} });
    expect([refused.status, await readError(refused)]).toEqual([
      400,
      { code: `invalid_${field}`, message: `${field} must be a number or a text` },
    ]);
  });
});

describe("a size in pixels", () => {
  const startSized = async (size: unknown, engines = [real], fields: object = {}) => {
    const service = await createTestService({ engines });
    const reply = await service.start({ size, ...fields });
    const [generation] = await service.store.list({ limit: 1 });
    const { aspectRatio, resolution, unset, extras } =
      (generation && (await service.store.generation(generation.id)))?.request ?? {};
    return { reply, request: { aspectRatio, resolution, unset, size: extras?.size } };
  };

  test.each([
    ["1280x720", { aspectRatio: "16:9", resolution: "720p", size: undefined }],
    ["848x480", { aspectRatio: "53:30", resolution: "480p", size: "848x480" }, "my-wan"],
    ["854x480", { aspectRatio: "427:240", resolution: "480p", size: "854x480" }],
    ["640x384", { aspectRatio: "5:3", resolution: "480p", size: "640x384" }],
    ["1080x1080", { aspectRatio: "1:1", resolution: "1080p", size: "1080x1080" }],
    ["1024x1792", { aspectRatio: "9:16", resolution: "1080p", size: "1024x1792" }],
    ["2048x1152", { aspectRatio: "16:9", resolution: "1080p", size: "2048x1152" }],
  ])("of %s reaches a real model as %j", async (size, request, model = "sora-2") => {
    const started = await startSized(size, [real], { model, aspectRatio: "1:1" });
    expect([started.reply.status, started.request]).toEqual([200, { ...request, unset: ["duration"] }]);
  });

  test.each([
    ["large", [real], 'size must be such as "1280x720"'],
    ["0x480", [real], 'size must be such as "1280x720"'],
    ["9000x480", [real], "size must be between 1:4 and 4:1"],
    ["640x384", [simulation], "size must have a shorter side of 480, 720 or 1080: sora-2 is a preview here"],
  ])("of %s is refused", async (size, engines, message) => {
    const { reply } = await startSized(size, engines);
    expect([reply.status, await readError(reply)]).toEqual([400, { code: "invalid_size", message }]);
  });
});

describe("directives in a prompt", () => {
  const words = "[fail] [http: 500] [credits: 0] [no-video] [media: 404] [slow: 9m]";

  test("are plain text for a real model, even if a simulation also serves that model", async () => {
    const service = await createTestService({ engines: [simulation, real] });
    const id = await service.startId({ prompt: `a fox ${words}` });
    await service.rest();
    const video_url = `${mediaUrl}/${id}.mp4`;
    expect(await (await service.status(id)).json()).toMatchObject({ status: "completed", video_url });
    expect((await service.media(new Request(video_url))).status).toBe(200);
  });

  test.each<ServiceOptions & { what: string }>([
    { what: "a simulation", engines: [fakeEngine({ ...real, isSimulation: true })] },
    { what: "a real model whose owner wants them", engines: [real], hasDirectives: true },
  ])("apply to $what", async ({ what: _, ...options }) => {
    const service = await createTestService(options);
    const statuses = ["[http: 500]", "[credits: 0]"].map(async (prompt) => (await service.start({ prompt })).status);
    expect(await Promise.all(statuses)).toEqual([500, 402]);
    const [failed, without, refused] = [
      await service.startId({ prompt: "[fail]" }),
      await service.startId({ prompt: "[no-video]" }),
      await service.startId({ prompt: "[media: 404]" }),
    ];
    await service.rest();
    expect(await (await service.status(failed)).json()).toMatchObject({ status: "failed" });
    expect(await (await service.status(without)).json()).toMatchObject({ status: "completed", video_url: null });
    expect((await service.media(new Request(`${mediaUrl}/${refused}.mp4`))).status).toBe(404);
  });
});

test("a start costs the price of its model, by default ten credits", async () => {
  const service = await createTestService({ credits: 100, creditsPer: { "ray-3": 85, "sora-2": 0 } });
  const start = async (model: string) => {
    const { credits_charged, remaining_credits } = await readStart(await service.start({ model }));
    return [credits_charged, remaining_credits];
  };
  expect([await start("ray-3"), await start("sora-2"), await start("wan-2.5")]).toEqual([
    [85, 15],
    [0, 15],
    [10, 5],
  ]);
  const refused = await service.start({ model: "ray-3" });
  expect([refused.status, (await readError(refused)).message]).toEqual([
    402,
    "one generation costs 85 credits; the account has fewer",
  ]);
});

test("a preview is free for the owner; other accounts and real models cost credits", async () => {
  const engines = [fakeEngine(), fakeEngine({ isSimulation: false, models: ["my-wan"] })];
  const service = await createTestService({
    engines,
    credits: 20,
    creditsPer: { "ray-3": 15 },
    hasPaidPreviews: false,
  });
  const start = async (model: string, headers = {}) => {
    const { credits_charged, remaining_credits } = await readStart(await service.start({ model }, headers));
    return [credits_charged, remaining_credits];
  };
  expect(await start("sora-2")).toEqual([0, 20]);
  expect(await start("ray-3", { "Idempotency-Key": "one" })).toEqual([0, 20]);
  expect(await start("ray-3", { "Idempotency-Key": "one" })).toEqual([0, 20]);
  expect(await service.store.ledger({ account: "local", limit: 9 })).toHaveLength(1);
  expect(await start("ray-3", bearer(otherKey))).toEqual([15, 5]);
  expect(await start("my-wan")).toEqual([10, 10]);
});

test("a free preview can be cancelled, can fail, and can simulate an account without credits", async () => {
  const service = await createTestService({ credits: 0, hasPaidPreviews: false });
  const id = await service.startId();
  expect(await (await service.cancel(id)).json()).toMatchObject({ status: "failed", credits_returned: 0 });
  const failing = await service.startId({ prompt: "[fail]" });
  await service.rest();
  expect(await (await service.status(failing)).json()).toMatchObject({ hint: "Try another prompt or model." });
  const refused = await service.start({ prompt: "a fox [credits: 0]" });
  expect([refused.status, (await readError(refused)).message]).toEqual([
    402,
    "one generation costs 10 credits; the account has fewer",
  ]);
  expect(await service.store.balance("local")).toBe(0);
});

test("a start that is repeated with its key returns what it was charged, even if the price has changed", async () => {
  const creditsPer: Record<string, number> = { "ray-3": 85 };
  const service = await createTestService({ credits: 100, creditsPer });
  const key = { "Idempotency-Key": "attempt-1" };
  const first = await readStart(await service.start({ model: "ray-3" }, key));
  service.creditsPer.set("ray-3", 3);
  expect(await readStart(await service.start({ model: "ray-3" }, key))).toEqual(first);
  expect(first).toMatchObject({ credits_charged: 85, remaining_credits: 15 });
});

test("a real model gets the defaults of the fields that the start left out, and the names of these fields", async () => {
  const told: unknown[] = [];
  const curious = fakeEngine({
    ...real,
    render(task, options) {
      const { unset, duration, resolution } = task.request;
      told.push([unset, duration, resolution]);
      return render(task, options);
    },
  });
  const service = await createTestService({ engines: [curious] });
  await service.start({ model: "my-wan", duration: 8 });
  await service.rest();
  expect(told).toEqual([[["aspectRatio", "resolution"], 8, "480p"]]);
});
