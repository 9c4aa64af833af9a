import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { describedMp4, tinyMp4 } from "../../mp4.ts";
import { aPng, squaresJpeg, squaresWebp } from "../queue/pictures.ts";
import {
  apiKey,
  baseUrl,
  bearer,
  createTestService,
  fakeEngine,
  filesIn,
  otherKey,
  readError,
  type TestService,
} from "../service.ts";
import { newGeneration } from "../store/records.ts";

const unknownId = "00000000-0000-4000-8000-000000000000";
const fox = { prompt: "a fox", model: "sora-2" };

type Asked = { method?: string; key?: string; headers?: Record<string, string>; body?: RequestInit["body"] };
type Job = Record<string, unknown> & { id: string };

function ask({ api }: TestService, path: string, { key = apiKey, headers, ...init }: Asked = {}) {
  return api(new Request(`${baseUrl}${path}`, { ...init, headers: { ...bearer(key), ...headers } } as RequestInit));
}

function post(service: TestService, body: object, headers: Record<string, string> = {}) {
  const asJson = { "Content-Type": "application/json", ...headers };
  return ask(service, "/v1/videos", { method: "POST", headers: asJson, body: JSON.stringify(body) });
}

function postForm(service: TestService, fields: Record<string, string | Blob>, headers: Record<string, string> = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  return ask(service, "/v1/videos", { method: "POST", headers, body: form });
}

const readJob = async (response: Response) => (await response.json()) as Job;
const show = async (service: TestService, id: string) => readJob(await ask(service, `/v1/videos/${id}`));
const create = async (service: TestService, fields: object = {}) => readJob(await post(service, { ...fox, ...fields }));
const remove = (service: TestService, id: string, key = apiKey) =>
  ask(service, `/v1/videos/${id}`, { method: "DELETE", key });

test("a job goes from queued through in_progress to completed, with the names and units of /v1/videos", async () => {
  const service = await createTestService();
  const response = await post(service, { ...fox, seconds: "8", size: "720x1280" });
  expect(response.status).toBe(200);
  const job = await readJob(response);
  const created = Math.floor(service.clock.date().getTime() / 1_000);
  expect(job).toStrictEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    object: "video",
    status: "queued",
    progress: 0,
    model: "sora-2",
    prompt: "a fox",
    seconds: "8",
    size: "720x1280",
    created_at: created,
    completed_at: null,
    expires_at: null,
    remixed_from_video_id: null,
    error: null,
  });
  // No engine has said yet that it takes it.
  const at = service.clock.date().toISOString();
  await service.store.keepCheckpoint(job.id, { state: "submitting", engine: "http://gpu-1", at });
  expect(await show(service, job.id)).toMatchObject({ status: "queued" });
  service.queue.onChange({ kind: "progress", id: job.id, percent: 41.7, account: "local" });
  expect(await show(service, job.id)).toMatchObject({ status: "in_progress", progress: 41 });
  const ofNode = { kind: "progress", id: job.id, percent: 80, node: "KSampler", account: "local" } as const;
  service.queue.onChange(ofNode);
  // It is that of a part of the work, which another part may follow.
  expect(await show(service, job.id)).toMatchObject({ status: "in_progress", progress: 0 });
  expect(await (await service.status(job.id)).json()).toMatchObject({ progress: 80, progress_node: "KSampler" });
  const fetching = "its video cannot be fetched: HTTP 404";
  service.queue.onChange({ kind: "progress", id: job.id, percent: 100, fetching, account: "local" });
  expect(await show(service, job.id)).toMatchObject({ status: "in_progress", progress: 100 });
  expect(await (await service.status(job.id)).json()).toMatchObject({ status: "processing", progress: 100, fetching });
  await service.rest();
  expect(await (await service.status(job.id)).json()).not.toHaveProperty("fetching");
  const ended = await show(service, job.id);
  expect(ended).toMatchObject({ status: "completed", progress: 100, error: null });
  expect(ended.completed_at).toBe(created + 30);
  expect(service.rendered[0]?.request).toMatchObject({ duration: 8, aspectRatio: "9:16", resolution: "720p" });
});

test("a failed job has an error object", async () => {
  const service = await createTestService();
  const { id } = await create(service, { prompt: "a fox [fail:too red]" });
  await service.rest();
  expect(await show(service, id)).toMatchObject({ status: "failed", error: { code: "failed", message: "too red" } });
});

test("a job that an engine refused or failed has the engine's code", async () => {
  const ends = [
    { kind: "refused", error: "not allowed", code: "content_policy_violation", isNotSubmitted: true },
    { kind: "refused", error: "no memory" },
    { kind: "unclear", reason: "HTTP 502" },
  ] as const;
  const prompts = ["refused", "failed", "unclear"];
  const service = await createTestService({
    render: async ({ request }) => ends[prompts.indexOf(request.prompt)] ?? ends[0],
  });
  const codes = [];
  for (const prompt of prompts) {
    const { id } = await create(service, { prompt });
    await service.rest();
    codes.push(((await show(service, id)).error as { code: string }).code);
  }
  expect(codes).toEqual(["content_policy_violation", "failed", "unclear"]);
});

test("both APIs show generations that were started with the other", async () => {
  const service = await createTestService();
  const [ours, theirs] = [await service.startId(), (await create(service)).id];
  expect(await show(service, ours)).toMatchObject({ id: ours, size: "854x480", seconds: "5" });
  expect(await (await service.status(theirs)).json()).toMatchObject({ id: theirs, status: "processing" });
  await service.rest(2);
  expect(await show(service, ours)).toMatchObject({ status: "completed" });
  expect(await (await service.status(theirs)).json()).toMatchObject({ status: "completed" });
  expect((await service.store.list({ limit: 9 })).map(({ id }) => id)).toEqual([theirs, ours]);
});

describe("credits, limits and callbacks are those of /api/generate", () => {
  test("a create request is charged, and refused without credits", async () => {
    const service = await createTestService({ credits: 10 });
    await create(service);
    const response = await post(service, fox);
    expect([response.status, await response.json()]).toEqual([
      402,
      {
        error: {
          code: "insufficient_credits",
          message: "one generation costs 10 credits; the account has fewer",
          type: "invalid_request_error",
        },
      },
    ]);
  });

  test("an engine's limits refuse a request before anything is charged", async () => {
    const engine = fakeEngine({ isSimulation: false, findFault: async () => "at most 8 seconds" });
    const service = await createTestService({ engines: [engine] });
    const response = await post(service, fox);
    expect([response.status, await readError(response)]).toEqual([
      400,
      { code: "outside_limits", message: "sora-2: at most 8 seconds" },
    ]);
    expect(await service.store.balance("local")).toBe(1_000);
  });

  test("a callback is sent", async () => {
    const service = await createTestService();
    const { id } = await create(service, { callback_url: "https://hook.example/" });
    await service.rest();
    expect(service.deliveries).toEqual([expect.stringContaining(id)]);
  });

  test("an Idempotency-Key is charged once, as JSON and as a form with another boundary each time", async () => {
    const service = await createTestService();
    const [asJson, asForm] = [{ "Idempotency-Key": "one" }, { "Idempotency-Key": "two" }];
    const file = new Blob([aPng(2, 2)], { type: "image/png" });
    const form = { ...fox, seconds: "8", input_reference: file };
    const first = [
      await readJob(await post(service, fox, asJson)),
      await readJob(await postForm(service, form, asForm)),
    ];
    const again = [
      await readJob(await post(service, fox, asJson)),
      await readJob(await postForm(service, form, asForm)),
    ];
    expect(again.map(({ id }) => id)).toEqual(first.map(({ id }) => id));
    expect(await service.store.balance("local")).toBe(980);
    for (const response of [
      await post(service, { ...fox, prompt: "an owl" }, asJson),
      await postForm(service, { ...form, seconds: "9" }, asForm),
      await postForm(service, { ...form, input_reference: new Blob([aPng(3, 3)]) }, asForm),
      await service.start({}, asForm),
    ])
      expect([response.status, (await readError(response)).code]).toEqual([422, "idempotency_key_reused"]);
    expect(await service.store.balance("local")).toBe(980);
  });
});

test.each([
  ["a PNG", aPng(2, 2), "png"],
  ["a JPEG", squaresJpeg, "jpeg"],
  ["a WebP", squaresWebp, "webp"],
])("an input_reference that is %s is a source image, whatever type its part has", async (_, bytes, format) => {
  const service = await createTestService();
  const response = await postForm(service, { ...fox, input_reference: new Blob([bytes]) });
  expect(response.status).toBe(200);
  const address = `data:image/${format};base64,${Buffer.from(bytes).toString("base64")}`;
  expect(await service.store.images((await readJob(response)).id)).toEqual({ images: [address] });
});

test.each<{ what: string; body: object; images: string[] }>([
  { what: "an address", body: { input_reference: "https://a.example/1.png" }, images: ["https://a.example/1.png"] },
  {
    what: "an object",
    body: { input_reference: { image_url: "https://a.example/1.png" } },
    images: ["https://a.example/1.png"],
  },
  {
    what: "a list",
    body: { input_reference: ["https://a.example/1.png", { image_url: "https://a.example/2.png" }] },
    images: ["https://a.example/1.png", "https://a.example/2.png"],
  },
  {
    what: "JSON in a text",
    body: { image_reference: '{"image_url":"https://a.example/1.png"}' },
    images: ["https://a.example/1.png"],
  },
])("an image may be $what", async ({ body, images }) => {
  const service = await createTestService();
  const { id } = await create(service, body);
  expect(await service.store.images(id)).toEqual({ images });
});

describe("images in OpenRouter's and Inworld's form", () => {
  const url = (number: number) => `https://a.example/${number}.png`;
  const image = (number: number) => ({ type: "image_url", image_url: { url: url(number) } });
  const [first, last] = ["first_frame", "last_frame"].map((frame_type, index) => ({ ...image(index), frame_type }));
  const engines = [
    fakeEngine({ models: ["sora-2"], isSimulation: false, maxImages: 1, takesLastImage: true, maxReferences: 2 }),
  ];

  test.each<[object, object]>([
    [{ frame_images: [first] }, { images: [url(0)] }],
    [{ frame_images: [last, first] }, { images: [url(0)], lastImage: url(1) }],
    [
      { frame_images: [last], input_reference: url(2) },
      { images: [url(2)], lastImage: url(1) },
    ],
    [{ input_references: [image(1), image(2)] }, { images: [], references: [url(1), url(2)] }],
    [{ input_references: JSON.stringify([image(1)]) }, { images: [], references: [url(1)] }],
    [{ input_references: [], frame_images: null }, { images: [] }],
  ])("%j are the images of the video", async (body, images) => {
    const service = await createTestService({ engines });
    const { id } = await create(service, body);
    expect(await service.store.images(id)).toEqual(images);
    expect((await service.store.generation(id))?.request.extras).toEqual({});
  });

  const type = 'must be "image_url": a video or a sound is not taken here';
  test.each<[object, string, string]>([
    [
      { input_references: [image(1), { type: "video_url", video_url: { url: url(1) } }] },
      "input_references",
      `input_references.1.type ${type}`,
    ],
    [
      { input_references: [{ type: "audio_url", audio_url: { url: url(1) } }] },
      "input_references",
      `input_references.0.type ${type}`,
    ],
    [{ frame_images: [{ ...first, type: "video_url" }] }, "frame_images", `frame_images.0.type ${type}`],
    [{ frame_images: [image(1)] }, "frame_images", "frame_images.0.frame_type must be first_frame or last_frame"],
    [{ frame_images: [last, last] }, "frame_images", "frame_images must have at most one image of each frame_type"],
    [{ frame_images: [{ ...first, strength: 1 }] }, "frame_images", "frame_images.0 has no field strength"],
    [{ frame_images: [first], input_reference: url(2) }, "input_reference", "sora-2 takes at most 1 image here, not 2"],
    [
      { frame_images: [last], lastImageUrl: url(2) },
      "lastImageUrl",
      "lastImageUrl is also another field of this body: send only one of them",
    ],
    [
      { input_reference: url(1), imageUrls: [url(2)] },
      "imageUrls",
      "imageUrls is also another field of this body: send only one of them",
    ],
    [
      { frame_images: [first], input_references: [image(2)] },
      "referenceUrls",
      "models ignore references beside an image to start from or to end with: send one or the other; nothing was charged",
    ],
  ])("%j are refused before anything is charged", async (body, field, message) => {
    const service = await createTestService({ engines });
    const response = await post(service, { ...fox, ...body });
    expect([response.status, await readError(response)]).toEqual([400, { code: `invalid_${field}`, message }]);
    expect(await service.store.balance("local")).toBe(1_000);
  });
});

test("a create request may be urlencoded, as from curl -d, and is charged once for its key", async () => {
  const service = await createTestService();
  const headers = { "Content-Type": "application/x-www-form-urlencoded; charset=utf-8", "Idempotency-Key": "one" };
  const body = new URLSearchParams({
    prompt: "a fox & an owl: größer",
    model: "sora-2",
    seconds: "8",
    seed: "7",
    image_reference: '{"image_url":"https://a.example/1.png"}',
  }).toString();
  const jobs = [];
  for (const _ of [1, 2]) jobs.push(await readJob(await ask(service, "/v1/videos", { method: "POST", headers, body })));
  expect(jobs[1]?.id).toBe(jobs[0]?.id);
  expect(jobs[0]).toMatchObject({ prompt: "a fox & an owl: größer", seconds: "8" });
  expect(await service.store.images(jobs[0]?.id ?? "")).toEqual({ images: ["https://a.example/1.png"] });
  expect(await service.store.balance("local")).toBe(990);
});

test("the size of a completed video is that of its file, which a model may have rounded", async () => {
  const render: Engine["render"] = async ({ file }) => {
    writeFileSync(file, describedMp4(5, [1_280, 704]));
    return { kind: "made", hasThumbnail: false };
  };
  const service = await createTestService({ engines: [fakeEngine({ isSimulation: false, render })] });
  const { id, size } = await create(service, { size: "1280x720" });
  await service.rest();
  expect([size, (await show(service, id)).size]).toEqual(["1280x720", "1280x704"]);
});

describe("a form sends each line break as CR LF, which the prompt does not have", () => {
  const prompt = "a fox\nat dusk\n\nslow pan";
  const fields = (lineBreak: string) => ({ ...fox, prompt: prompt.replaceAll("\n", lineBreak) });
  const postUrlencoded = (service: TestService, body: Record<string, string>, headers: Record<string, string>) =>
    ask(service, "/v1/videos", {
      method: "POST",
      headers: { ...headers, "Content-Type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams(body).toString(),
    });

  test.each([
    ["multipart", postForm],
    ["urlencoded", postUrlencoded],
  ])("a %s prompt is stored and sent to the engine with LF alone", async (_, postFields) => {
    const service = await createTestService();
    const job = await readJob(await postFields(service, fields("\r\n"), {}));
    expect(job).toMatchObject({ prompt });
    await service.rest();
    expect(service.rendered[0]?.request.prompt).toBe(prompt);
  });

  test("a prompt in JSON stays as it was sent", async () => {
    const service = await createTestService();
    expect(await create(service, fields("\r\n"))).toMatchObject(fields("\r\n"));
  });

  test.each([
    ["LF, as vidgen stores it", "\n"],
    ["CR LF, as an earlier version stored it", "\r\n"],
  ])("a used key is found by both forms of its body, of which %s was stored", async (_, stored) => {
    const service = await createTestService();
    const earlier = newGeneration({ account: "local" });
    await service.store.start(earlier, 10, { key: "one", body: JSON.stringify(fields(stored)) });
    const key = { "Idempotency-Key": "one" };
    for (const lineBreak of ["\n", "\r\n"]) {
      expect(await readJob(await postForm(service, fields(lineBreak), key))).toMatchObject({ id: earlier.id });
      expect(await readJob(await postUrlencoded(service, fields(lineBreak), key))).toMatchObject({ id: earlier.id });
    }
    expect(await service.store.balance("local")).toBe(990);
    const other = await postForm(service, { ...fox, prompt: prompt.replaceAll("\n", " ") }, key);
    expect([other.status, (await readError(other)).code]).toEqual([422, "idempotency_key_reused"]);
  });

  test("a body whose line breaks differ from each other is found by the form in which an earlier version stored it", async () => {
    const service = await createTestService();
    const [mixed, earlier] = [{ ...fox, prompt: "a fox\nat dusk\r\nslow pan" }, newGeneration({ account: "local" })];
    await service.store.start(earlier, 10, { key: "one", body: JSON.stringify(mixed) });
    expect(await readJob(await postUrlencoded(service, mixed, { "Idempotency-Key": "one" }))).toMatchObject({
      id: earlier.id,
    });
  });
});

test.each<[string, string[], string[], string]>([
  ["wan-2.5 where that is served", ["sora-2", "wan-2.5"], [], "wan-2.5"],
  ["else the first one", ["sora-2", "veo-3.1"], [], "sora-2"],
  ["one of a real engine, where there is one", ["sora-2", "wan-2.5"], ["wan-2.2"], "wan-2.2"],
])("a create without a model gets %s", async (_, previewed, real, model) => {
  const engines = [
    fakeEngine({ models: previewed }),
    ...(real.length === 0 ? [] : [fakeEngine({ name: "gpu", isSimulation: false, models: real })]),
  ];
  const service = await createTestService({ engines });
  expect(await create(service, { model: undefined })).toMatchObject({ model });
});

test.each<[string, object]>([
  ["numbers", { width: 480, height: 832 }],
  ["texts", { width: "480", height: "832" }],
  ["the same as the size", { width: 480, height: 832, size: "480x832" }],
])("a width and a height are the size: %s", async (_, fields) => {
  const engines = [fakeEngine({ name: "gpu", isSimulation: false })];
  const service = await createTestService({ engines });
  expect(await create(service, { model: "wan-2.5", ...fields })).toMatchObject({ size: "480x832" });
});

test("a form may have an object's field in brackets, as from the openai package", async () => {
  const service = await createTestService();
  const response = await postForm(service, { ...fox, "input_reference[image_url]": "https://a.example/1.png" });
  expect(await service.store.images((await readJob(response)).id)).toEqual({ images: ["https://a.example/1.png"] });
});

test("the list has the account's own videos, newest first, in pages without gaps", async () => {
  const service = await createTestService();
  const ids: string[] = [];
  for (let index = 0; index < 5; index++) ids.unshift((await create(service)).id);
  await ask(service, "/v1/videos", {
    method: "POST",
    key: otherKey,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(fox),
  });
  const list = async (query: string) =>
    (await (await ask(service, `/v1/videos${query}`)).json()) as { data: Job[]; has_more: boolean };
  expect(await list("?limit=2")).toMatchObject({
    object: "list",
    data: [{ id: ids[0] }, { id: ids[1] }],
    first_id: ids[0],
    last_id: ids[1],
    has_more: true,
  });
  const rest = await list(`?limit=100&after=${ids[1]}&order=desc`);
  expect([rest.data.map(({ id }) => id), rest.has_more]).toEqual([ids.slice(2), false]);
  expect(await list(`?after=${ids[4]}`)).toMatchObject({ data: [], first_id: null, last_id: null, has_more: false });
});

test("a page can follow a video that has been removed since", async () => {
  const service = await createTestService();
  const [first, second] = [(await create(service)).id, (await create(service)).id];
  await service.rest(2);
  await remove(service, second);
  const response = await ask(service, `/v1/videos?after=${second}`);
  expect(await response.json()).toMatchObject({ data: [{ id: first }] });
});

test.each([
  ["?limit=0", "limit must be a whole number from 1 to 100"],
  ["?limit=101", "limit must be a whole number from 1 to 100"],
  ["?limit=x", "limit must be a whole number from 1 to 100"],
  ["?limit=1.5", "limit must be a whole number from 1 to 100"],
  ["?order=up", 'order must be "asc" or "desc"'],
])("a list with %s is refused", async (query, message) => {
  const service = await createTestService();
  const response = await ask(service, `/v1/videos${query}`);
  expect([response.status, (await readError(response)).message]).toEqual([400, message]);
});

describe("the content", () => {
  test("is the video, whole or in part, or its thumbnail", async () => {
    const service = await createTestService();
    const { id } = await create(service);
    await service.rest();
    const video = tinyMp4("a fox");
    const whole = await ask(service, `/v1/videos/${id}/content`);
    expect([whole.status, whole.headers.get("Content-Type")]).toEqual([200, "video/mp4"]);
    expect(new Uint8Array(await whole.arrayBuffer())).toEqual(video);
    const part = await ask(service, `/v1/videos/${id}/content`, { headers: { Range: "bytes=4-7" } });
    expect([part.status, part.headers.get("Content-Range")]).toEqual([206, `bytes 4-7/${video.length}`]);
    expect(await part.text()).toBe("ftyp");
    const beyond = await ask(service, `/v1/videos/${id}/content`, { headers: { Range: "bytes=9999-" } });
    expect(beyond.status).toBe(416);
    const head = await ask(service, `/v1/videos/${id}/content`, { method: "HEAD" });
    expect([head.status, head.headers.get("Content-Length")]).toEqual([200, String(video.length)]);
    const picture = await ask(service, `/v1/videos/${id}/content?variant=thumbnail`);
    expect([picture.headers.get("Content-Type"), await picture.text()]).toEqual(["image/png", "a picture"]);
  });

  test("needs the key of the account", async () => {
    const service = await createTestService();
    const { id } = await create(service);
    await service.rest();
    expect((await ask(service, `/v1/videos/${id}/content`, { key: otherKey })).status).toBe(404);
    expect((await ask(service, `/v1/videos/${id}/content`, { key: "wrong" })).status).toBe(401);
  });

  test("does not exist before the video is completed, and never for a failed one", async () => {
    const service = await createTestService();
    const running = (await create(service)).id;
    const failing = (await create(service, { prompt: "a fox [fail:too red]" })).id;
    const look = async (id: string, query = "") => {
      const response = await ask(service, `/v1/videos/${id}/content${query}`);
      return [response.status, await readError(response)];
    };
    expect(await look(running)).toEqual([404, { code: "not_ready", message: "this video is not completed yet" }]);
    expect(await look(running, "?variant=spritesheet")).toEqual([
      400,
      { code: "invalid_variant", message: "variant must be video or thumbnail" },
    ]);
    await service.rest();
    expect(await look(failing)).toEqual([404, { code: "failed", message: "this video was not generated: too red" }]);
  });
});

describe("DELETE", () => {
  test("stops a running job, returns the credits, and shows it as cancelled in /api", async () => {
    const service = await createTestService();
    const { id } = await create(service, { callback_url: "https://hook.example/" });
    await service.clock.sleep(5_000);
    const response = await remove(service, id);
    expect([response.status, await response.json()]).toEqual([200, { id, object: "video.deleted", deleted: true }]);
    expect(await service.store.balance("local")).toBe(1_000);
    expect(await service.store.generation(id)).toMatchObject({ status: "failed", error: "cancelled" });
    await service.rest();
    expect(service.deliveries).toEqual([expect.stringContaining(id)]);
    expect(filesIn(service.folder)).toEqual([]);
  });

  test("removes an ended video from both APIs with its files, but keeps its record and price", async () => {
    const service = await createTestService();
    const [kept, removed] = [(await create(service)).id, (await create(service)).id];
    await service.rest(2);
    expect((await remove(service, removed)).status).toBe(200);
    expect(filesIn(service.folder).sort()).toEqual([`${kept}.mp4`, `${kept}.png`]);
    for (const response of [
      await ask(service, `/v1/videos/${removed}`),
      await ask(service, `/v1/videos/${removed}/content`),
      await service.status(removed),
      await service.cancel(removed),
      await remove(service, removed),
    ])
      expect([response.status, await readError(response)]).toEqual([
        404,
        { code: "removed", message: expect.stringMatching(/^this generation was removed at \d{4}-/) },
      ]);
    const list = (await (await ask(service, "/v1/videos")).json()) as { data: Job[] };
    expect(list.data.map(({ id }) => id)).toEqual([kept]);
    expect(await service.store.generation(removed)).toMatchObject({ status: "completed" });
    expect(await service.store.balance("local")).toBe(980);
  });

  test("a start with the key of a removed video starts nothing, and costs nothing", async () => {
    const service = await createTestService();
    const key = { "Idempotency-Key": "one" };
    const { id } = await readJob(await post(service, fox, key));
    await service.rest();
    await remove(service, id);
    expect((await readJob(await post(service, fox, key))).id).toBe(id);
    expect(await service.store.balance("local")).toBe(990);
  });

  test("a job that cannot be stopped continues, and is not removed", async () => {
    const service = await createTestService({
      engines: (clock) => [
        fakeEngine({
          name: "http://gpu.test",
          isSimulation: false,
          async render({ file }, { checkpoint, signal }) {
            await checkpoint({ state: "submitted", job: "job-1" });
            await clock.sleep(60_000, signal);
            writeFileSync(file, tinyMp4("a fox"));
            return { kind: "made", hasThumbnail: false };
          },
        }),
      ],
    });
    const { id } = await create(service);
    await service.clock.sleep(5_000);
    const response = await remove(service, id);
    expect([response.status, await readError(response)]).toEqual([
      409,
      { code: "not_cancellable", message: "not cancelled: http://gpu.test cannot stop it; the generation continues" },
    ]);
    await service.clock.sleep(60_000);
    expect(await show(service, id)).toMatchObject({ status: "completed" });
  });

  test("the owner deletes another account's video only by the name of the account", async () => {
    const service = await createTestService();
    const { id } = await readJob(await post(service, fox, bearer(otherKey)));
    await service.rest();
    const unnamed = await remove(service, id);
    const message = "this generation belongs to the account other";
    expect(await unnamed.json()).toMatchObject({ error: { code: "other_account", account: "other", message } });
    expect((await remove(service, `${id}?account=local`)).status).toBe(404);
    expect((await service.store.generation(id))?.removed_at).toBeUndefined();
    expect((await remove(service, `${id}?account=other`)).status).toBe(200);
    expect((await service.store.generation(id))?.removed_at).toBeDefined();
    const { id: own } = await create(service);
    await service.rest();
    // The owner's own video is not one of another account; and an account gains nothing by a name.
    expect((await remove(service, `${own}?account=other`)).status).toBe(404);
    expect((await remove(service, `${own}?account=local`, otherKey)).status).toBe(404);
    expect((await service.store.generation(own))?.removed_at).toBeUndefined();
  });

  test("another account's video is not found, and stays", async () => {
    const service = await createTestService();
    const { id } = await create(service);
    await service.rest();
    expect((await remove(service, id, otherKey)).status).toBe(404);
    expect((await show(service, id)).status).toBe("completed");
  });
});

test("the served models are listed with the kind of their engines", async () => {
  const service = await createTestService({ engines: [fakeEngine({ models: ["wan-2.5", "my-wan"] })] });
  const response = await ask(service, "/v1/models");
  expect(await response.json()).toMatchObject({
    object: "list",
    data: [
      { id: "wan-2.5", object: "model", owned_by: "vidgen" },
      { id: "my-wan", object: "model", owned_by: "vidgen" },
    ],
  });
  expect((await ask(service, "/v1/models", { key: "wrong" })).status).toBe(401);
});

test("a body that is nested 100 levels deep is read, whatever its strings contain", async () => {
  const service = await createTestService();
  const nested = `${"[".repeat(99)}${"]".repeat(99)}`;
  const text = JSON.stringify('"[{,\\'.repeat(20_000));
  const body = `{"prompt":"a fox","model":"sora-2","x":${nested},"y":[${"1,".repeat(9_000)}1],"z":${text}}`;
  const headers = { "Content-Type": "application/json" };
  const reply = await ask(service, "/v1/videos", { method: "POST", headers, body });
  expect(await readError(reply)).toEqual({ code: "invalid_x", message: "x is nested too deeply" });
});

test("a file part of a form without a name and without bytes, as browsers send it for no file, is no image", async () => {
  const service = await createTestService();
  const part = (disposition: string) => `--b\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`;
  const body = `${part('name="prompt"')}a fox\r\n${part('name="input_reference"; filename=""')}\r\n--b--\r\n`;
  const headers = { "Content-Type": "multipart/form-data; boundary=b" };
  const { id } = await readJob(await ask(service, "/v1/videos", { method: "POST", headers, body }));
  expect((await service.store.generation(id))?.request.images).toEqual([]);
});

test("an image in a form may contain bytes that look like very many parts", async () => {
  const service = await createTestService();
  const picture = new Blob([aPng(2, 2), "\r\n--a\r\n".repeat(2_000), "x".repeat(20_000)]);
  expect((await postForm(service, { input_reference: picture, ...fox })).status).toBe(200);
});

describe("is refused with a clear 4xx, and nothing is charged:", () => {
  // Node reads none that is shorter than 27 characters.
  const boundary = "x".repeat(30);
  const form = (...parts: string[]) => parts.map((part) => `--${boundary}\r\n${part}\r\n`).join("");
  const field = (name: string, value: string) => `Content-Disposition: form-data; name="${name}"\r\n\r\n${value}`;
  const asForm = { "Content-Type": `multipart/form-data; boundary=${boundary}` };
  const good = form(field("prompt", "a fox"), field("model", "sora-2"));
  const asJson = { "Content-Type": "application/json" };
  const json = (fields: object) => ({ headers: asJson, body: JSON.stringify({ ...fox, ...fields }) });

  test.each<{ what: string; status?: number; code: string; says: string | RegExp } & Asked>([
    { what: "a model that is a number", ...json({ model: 5 }), code: "invalid_model", says: "model must be a string" },
    {
      what: "an unknown model",
      ...json({ model: "gpt" }),
      code: "invalid_model",
      says: /^model must be one of sora-2, /,
    },
    { what: "no prompt", ...json({ prompt: undefined }), code: "invalid_prompt", says: "prompt is missing" },
    {
      what: "words for seconds",
      ...json({ seconds: "long" }),
      code: "invalid_seconds",
      says: "seconds must be a number of seconds",
    },
    {
      what: "too many seconds",
      ...json({ seconds: 900 }),
      code: "invalid_seconds",
      says: /^seconds must be more than 0 and at most /,
    },
    {
      what: "a size in words",
      ...json({ size: "large" }),
      code: "invalid_size",
      says: 'size must be such as "1280x720"',
    },
    {
      what: "a size that is not made",
      ...json({ size: "1024x1536" }),
      code: "invalid_size",
      says: "size must have a shorter side of 480, 720 or 1080: sora-2 is a preview here",
    },
    {
      what: "a width and a height that are not made",
      ...json({ width: 640, height: 360 }),
      code: "invalid_size",
      says: "size must have a shorter side of 480, 720 or 1080: sora-2 is a preview here",
    },
    ...["aspect_ratio", "extra_body", "nvext", "video_params"].map((name) => ({
      what: `${name}, which this API would ignore`,
      ...json({ [name]: "16:9" }),
      code: `invalid_${name}`,
      says: new RegExp(`^${name} is not supported here: send `),
    })),
    { what: "several videos", ...json({ n: 2 }), code: "invalid_n", says: "n must be 1: each create makes one video" },
    {
      what: "a width alone",
      ...json({ width: 480 }),
      code: "invalid_height",
      says: "height is missing: width and height go together",
    },
    {
      what: "a height alone",
      ...json({ height: "480" }),
      code: "invalid_width",
      says: "width is missing: width and height go together",
    },
    {
      what: "a width in words",
      ...json({ width: "wide", height: 480 }),
      code: "invalid_width",
      says: "width must be a number of pixels",
    },
    {
      what: "a size, and another width and height",
      ...json({ size: "1280x720", width: 480, height: 832 }),
      code: "invalid_size",
      says: "size differs from width and height: send only one of them",
    },
    {
      what: "very many urlencoded fields",
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
      body: `prompt=a+fox${"&seed=1".repeat(100)}`,
      code: "invalid_form",
      says: "the form has 100 parts or more",
    },
    {
      what: "a urlencoded field twice",
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
      body: "prompt=a+fox&prompt=an+owl",
      code: "invalid_prompt",
      says: "prompt must be a string",
    },
    {
      what: "a size that is too wide",
      ...json({ size: "9999x480" }),
      code: "invalid_size",
      says: "size must be between 1:4 and 4:1",
    },
    { what: "a size that is a number", ...json({ size: 720 }), code: "invalid_size", says: "size must be a string" },
    {
      what: "an image that is a number",
      ...json({ input_reference: 5 }),
      code: "invalid_input_reference",
      says: /^input_reference must be an image file/,
    },
    {
      what: "an image by ftp",
      ...json({ input_reference: "ftp://a.example/" }),
      code: "invalid_input_reference",
      says: "input_reference.0 must be an http(s) or data: address",
    },
    {
      what: "too many images",
      ...json({ input_reference: Array(5).fill("https://a.example/") }),
      code: "invalid_input_reference",
      says: /^sora-2 takes at most 4 images in input_reference, not 5/,
    },
    { what: "no JSON", headers: asJson, body: "prompt=a fox", code: "invalid_json", says: "the body is not JSON" },
    {
      what: "a very deep prompt",
      headers: asJson,
      body: `${'{"prompt":'.repeat(10_000)}1${"}".repeat(10_000)}`,
      code: "invalid_json",
      says: "the body is nested more than 100 levels deep",
    },
    {
      what: "a deep field that nobody reads",
      headers: asJson,
      body: `{"prompt":"a fox","model":"sora-2","x\\"":${"[".repeat(100)}${"]".repeat(100)}}`,
      code: "invalid_json",
      says: "the body is nested more than 100 levels deep",
    },
    {
      what: "very many members that nobody reads",
      ...json({ "[[,": [Array(5_000).fill("]"), Array(5_000).fill({})] }),
      code: "invalid_json",
      says: "the body has more than 10,000 members",
    },
    {
      what: "a deep text of JSON in a form",
      headers: asForm,
      body: `${good}${form(field("lora", `${"[".repeat(101)}${"]".repeat(101)}`))}--${boundary}--\r\n`,
      code: "invalid_json",
      says: "a field is nested more than 100 levels deep",
    },
    { what: "a list", headers: asJson, body: "[]", code: "invalid_body", says: /^the body must be / },
    {
      what: "another type",
      headers: { "Content-Type": "text/plain" },
      body: "a fox",
      status: 415,
      code: "unsupported_media_type",
      says: "the body must be application/json or multipart/form-data or application/x-www-form-urlencoded",
    },
    {
      what: "a form without a boundary",
      headers: { "Content-Type": "multipart/form-data" },
      body: good,
      code: "invalid_form",
      says: /^the body is not multipart\/form-data/,
    },
    {
      what: "a form that breaks off",
      headers: asForm,
      body: good,
      code: "invalid_form",
      says: /^the body is not multipart\/form-data/,
    },
    {
      what: "a form that is none",
      headers: asForm,
      body: "a fox",
      code: "invalid_form",
      says: /^the body is not multipart\/form-data/,
    },
    {
      what: "an empty form",
      headers: asForm,
      body: "",
      code: "invalid_form",
      says: /^the body is not multipart\/form-data/,
    },
    {
      what: "a form of very many parts",
      headers: asForm,
      body: `${good}${form(field("seed", "1")).repeat(100)}--${boundary}--\r\n`,
      code: "invalid_form",
      says: "the form has 100 parts or more",
    },
    {
      what: "a form with a part of long headers",
      headers: asForm,
      body: `${good}${form(`X-Long: ${"x".repeat(8_000)}\r\n${field("seed", "1")}`)}--${boundary}--\r\n`,
      code: "invalid_form",
      says: "the headers of a part of the form are longer than 8 kB",
    },
    {
      what: "a form with a first part of long headers, which never end",
      headers: { "Content-Type": `multipart/form-data; x=y; Boundary="${boundary}"` },
      body: `--${boundary}\r\n${"X: y\r\n".repeat(100_000)}`,
      code: "invalid_form",
      says: "the headers of a part of the form are longer than 8 kB",
    },
    {
      what: "a field twice",
      headers: asForm,
      body: `${good}${form(field("prompt", "an owl"))}--${boundary}--\r\n`,
      code: "invalid_prompt",
      says: "prompt must be a string",
    },
    {
      what: "a file that is no picture",
      headers: asForm,
      body: `${good}${form('Content-Disposition: form-data; name="input_reference"; filename="a.png"\r\n\r\nhello')}--${boundary}--\r\n`,
      code: "invalid_input_reference",
      says: "input_reference must be a PNG, JPEG or WebP",
    },
    {
      what: "a file in another field",
      headers: asForm,
      body: `${good}${form('Content-Disposition: form-data; name="seed"; filename="a.png"\r\n\r\n5')}--${boundary}--\r\n`,
      code: "invalid_form",
      says: "only input_reference may be a file",
    },
    {
      what: "more than 28 MB",
      status: 413,
      headers: asJson,
      body: " ".repeat(28_000_001),
      code: "body_too_large",
      says: "the body is larger than 28 MB",
    },
  ])("$what", async ({ status = 400, code, says, headers, body }) => {
    const service = await createTestService();
    const response = await ask(service, "/v1/videos", { method: "POST", ...(headers && { headers }), body });
    const { error } = (await response.json()) as { error: unknown };
    expect([response.status, error]).toEqual([
      status,
      {
        code,
        message: typeof says === "string" ? says : expect.stringMatching(says),
        type: "invalid_request_error",
      },
    ]);
    expect(await service.store.balance("local")).toBe(1_000);
    expect(await service.store.list({ limit: 1 })).toEqual([]);
  });

  test.each([
    ["no key", "/v1/videos", "", 401, "unauthorized"],
    ["an unknown id", `/v1/videos/${unknownId}`, apiKey, 404, "not_found"],
    ["an id that is none", "/v1/videos/video_123", apiKey, 404, "not_found"],
    ["the content of an unknown id", `/v1/videos/${unknownId}/content`, apiKey, 404, "not_found"],
    ["an unknown page", `/v1/videos?after=${unknownId}`, apiKey, 400, "invalid_after"],
    ["a page after what is no id", "/v1/videos?after=%00", apiKey, 400, "invalid_after"],
    ["a path that there is not", "/v1/videos/a/b/c", apiKey, 404, "not_found"],
  ] as const)("%s", async (_, path, key, status, code) => {
    const service = await createTestService();
    const response = await ask(service, path, { key });
    expect([response.status, (await readError(response)).code]).toEqual([status, code]);
  });

  test.each([
    ["PUT", "/v1/videos", "GET, POST"],
    ["POST", `/v1/videos/${unknownId}`, "GET, DELETE"],
    ["DELETE", `/v1/videos/${unknownId}/content`, "GET, HEAD"],
    ["POST", "/v1/models", "GET"],
  ])("%s %s", async (method, path, allowed) => {
    const service = await createTestService();
    const response = await ask(service, path, { method });
    expect([response.status, response.headers.get("Allow")]).toEqual([405, allowed]);
  });
});

test.each([
  ["1024x1792", "1080x1920"],
  ["1792x1024", "1920x1080"],
])("the size %s, which OpenAI's package offers, is made as %s", async (size, made) => {
  const service = await createTestService();
  expect(await create(service, { size })).toMatchObject({ size: made });
});

test("a model is found by its id, even if the id has a slash", async () => {
  const service = await createTestService({ engines: [fakeEngine({ models: ["sora-2", "google/veo-3.1"] })] });
  for (const id of ["sora-2", "google/veo-3.1"]) {
    const reply = await ask(service, `/v1/models/${encodeURIComponent(id)}`);
    expect(await reply.json()).toEqual({ id, object: "model", created: 0, owned_by: "vidgen", credits: 10 });
  }
  const unknown = await ask(service, "/v1/models/sora-9");
  expect([unknown.status, await readError(unknown)]).toEqual([
    404,
    { code: "model_not_found", message: "sora-9 is not served here; GET /v1/models lists what is" },
  ]);
  expect((await ask(service, "/v1/models/sora-2", { key: "wrong" })).status).toBe(401);
});

test.each([
  ["POST", "/v1/videos/edits"],
  ["POST", "/v1/videos/extensions"],
  ["POST", "/v1/videos/characters"],
  ["GET", "/v1/videos/characters/1"],
  ["POST", "/v1/videos/sync"],
  ["POST", `/v1/videos/${unknownId}/remix`],
])("%s %s, which only OpenAI had, is not offered, and nothing is charged", async (method, path) => {
  const service = await createTestService();
  const reply = await ask(service, path, { method });
  expect([reply.status, (await readError(reply)).code]).toEqual([404, "not_offered"]);
  expect(await service.store.balance("local")).toBe(1_000);
});

test("after a reload, the default model and the messages are those of the engines now", async () => {
  const engines = [fakeEngine({ models: ["sora-2"] })];
  const service = await createTestService({ engines });
  engines.splice(0, 1, fakeEngine({ models: ["veo-3.1"] }));
  service.queue.updateEngines();
  expect(await readJob(await post(service, { prompt: "a fox" }))).toMatchObject({ model: "veo-3.1" });
  const { message } = await readError(await post(service, fox));
  expect(message).toMatch(/^model must be one of veo-3\.1;/);
});

test("an unclear generation is removed only once that is acknowledged, and the ledger stays", async () => {
  const service = await createTestService({ render: async () => ({ kind: "unclear", reason: "HTTP 502" }) });
  const { id } = await create(service);
  await service.rest();
  const refused = await remove(service, id);
  expect([refused.status, await readError(refused)]).toEqual([
    409,
    {
      code: "unclear",
      message: expect.stringMatching(/^not removed: it is unclear whether it was charged.*acknowledged=unclear/),
    },
  ]);
  expect(await show(service, id)).toMatchObject({ status: "failed", error: { code: "unclear" } });
  expect((await ask(service, `/v1/videos/${id}?acknowledged=yes`, { method: "DELETE" })).status).toBe(400);
  const ledger = await service.store.ledger({ limit: 9 });
  expect((await ask(service, `/v1/videos/${id}?acknowledged=unclear`, { method: "DELETE" })).status).toBe(200);
  expect((await ask(service, `/v1/videos/${id}`)).status).toBe(404);
  expect(await service.store.ledger({ limit: 9 })).toEqual(ledger);
});

test("a removal whose cancel ends as unclear leaves the generation on record", async () => {
  const engine = fakeEngine({
    name: "http://gpu-1:8091",
    isSimulation: false,
    async render(_, { checkpoint, signal }) {
      await checkpoint({ state: "submitted", job: "1" });
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
  });
  const service = await createTestService({ engines: [engine] });
  const { id } = await create(service);
  await expect.poll(async () => (await service.store.generation(id))?.checkpoint?.state).toBe("submitted");
  // Nobody uses its engine any more.
  service.queue.missingEngines = () => ["http://gpu-1:8091"];
  expect((await remove(service, id)).status).toBe(409);
  expect(await service.store.generation(id)).toMatchObject({ status: "failed", error_code: "unclear" });
  expect((await show(service, id)).id).toBe(id);
});
