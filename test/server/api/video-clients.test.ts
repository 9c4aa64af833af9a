import { expect, test } from "vitest";
import { createVideosEngine } from "../../../src/server/engines/videos/videos.ts";
import { tinyMp4 } from "../../mp4.ts";
import { ioFetch } from "../engines/videos/fakes/fake.ts";
import { createVllmOmni, type VllmOmniOptions } from "../engines/videos/fakes/vllm-omni.ts";
import { aPng } from "../queue/pictures.ts";
import { apiKey, baseUrl, bearer, createTestService, filesIn } from "../service.ts";

// The creates of clients that others wrote for their own servers of /v1/videos: the lines that vLLM-Omni documents for curl, its benchmark and
// SGLang's, as they arrive at `serve`. Its engine is a vLLM-Omni.

const model = "Wan-AI/Wan2.2-T2V-A14B-Diffusers";
const png = aPng(2, 2);
const file = new File([png], "bear.png", { type: "application/octet-stream" });

async function createServing(options: VllmOmniOptions = {}) {
  let fake: ReturnType<typeof createVllmOmni> | undefined;
  const service = await createTestService({
    engines(clock) {
      fake = createVllmOmni({ model, completeAfterMs: 10_000, now: () => clock.date().getTime(), ...options });
      const server = { url: "http://gpu.test", upstreamModel: undefined, kind: undefined, key: undefined };
      const io = {
        ...clock,
        fetch: ioFetch(fake),
        open: () => Promise.reject(new Error("no host")),
      };
      const engine = { ...server, timeoutMs: 30 * 60_000, models: [model], concurrency: 4, onNote() {} };
      return [createVideosEngine(engine, io)];
    },
  });
  const ask = async (path: string, init: RequestInit = {}) =>
    service.api(new Request(`${baseUrl}${path}`, { ...init, headers: { ...bearer(apiKey), ...init.headers } }));
  const create = (body: FormData | URLSearchParams | object) =>
    body instanceof FormData || body instanceof URLSearchParams
      ? ask("/v1/videos", { method: "POST", body })
      : ask("/v1/videos", {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify(body),
        });
  if (!fake) throw new Error("the service has no engine");
  return { service, fake, ask, create };
}

function form(fields: Record<string, string | Blob>): FormData {
  const all = new FormData();
  for (const [name, value] of Object.entries(fields)) all.append(name, value);
  return all;
}

const tuned = { fps: "16", num_inference_steps: "40", guidance_scale: "4.0", boundary_ratio: "0.875", seed: "42" };
const inPixels = { width: "832", height: "480", num_frames: "33" };
const image_url = `data:image/png;base64,${Buffer.from(png).toString("base64")}`;
const distilled = { is_enable_stage2: true, pyramid_num_inference_steps_list: [2, 2, 2] };

test.each<{ client: string; body: FormData | URLSearchParams | object; sent: object; size: string; files?: number }>([
  {
    client: "curl: the prompt alone",
    body: form({ prompt: "A cinematic view of a futuristic city at sunset" }),
    sent: { size: "832x480", seconds: "5" },
    size: "832x480",
  },
  {
    client: "curl: width and height",
    body: form({ prompt: "Two cats", ...inPixels, negative_prompt: "色调艳丽 ，过曝", ...tuned, flow_shift: "5.0" }),
    sent: { size: "832x480", num_frames: "33", negative_prompt: "色调艳丽 ，过曝", ...tuned, flow_shift: "5.0" },
    size: "832x480",
  },
  {
    client: "curl: a size of SkyReels",
    body: form({ prompt: "A cat and a dog", size: "960x544", num_frames: "33", fps: "24" }),
    sent: { size: "960x544", num_frames: "33", fps: "24" },
    size: "960x544",
  },
  {
    client: "curl: Helios with extra_params",
    body: form({ prompt: "A train", model, size: "640x384", extra_params: JSON.stringify(distilled) }),
    sent: { size: "640x384", extra_params: JSON.stringify(distilled) },
    size: "640x384",
  },
  {
    client: "curl: an image file",
    body: form({ prompt: "A bear", input_reference: file, seconds: "2", size: "832x480", ...tuned }),
    sent: { size: "832x480", seconds: "2", ...tuned },
    size: "832x480",
    files: 1,
  },
  {
    client: "curl: image_reference",
    body: form({ prompt: "A bear", image_reference: JSON.stringify({ image_url }) }),
    sent: { size: "832x480" },
    size: "832x480",
    files: 1,
  },
  {
    client: "vLLM-Omni's benchmark, which aiohttp urlencodes without a file",
    body: new URLSearchParams({ prompt: "A tower", height: "832", width: "480", num_frames: "33", seed: "1" }),
    sent: { size: "480x832", num_frames: "33", seed: "1" },
    size: "480x832",
  },
  {
    client: "vLLM-Omni's benchmark with an image",
    body: form({ prompt: "A bear", height: "768", width: "512", fps: "16", input_reference: file }),
    sent: { size: "512x768", fps: "16" },
    size: "512x768",
    files: 1,
  },
  {
    client: "SGLang's benchmark",
    body: { model, prompt: "A cat", size: "848x480", num_frames: 33, fps: 16 },
    sent: { model, size: "848x480", num_frames: "33", fps: "16" },
    size: "848x480",
  },
  {
    client: "SGLang's benchmark with an image",
    body: form({ model, prompt: "A bear", size: "720x1280", num_frames: "33", fps: "16", input_reference: file }),
    sent: { size: "720x1280", num_frames: "33", fps: "16" },
    size: "720x1280",
    files: 1,
  },
])("$client", async ({ body, sent, size, files = 0 }) => {
  const { service, fake, ask, create } = await createServing();
  const reply = await create(body);
  const job = (await reply.json()) as { id: string; size: string };
  expect([reply.status, job.size]).toEqual([200, size]);
  await expect.poll(() => fake.jobs.size).toBe(1);
  await service.clock.sleep(30_000);
  expect(await (await ask(`/v1/videos/${job.id}`)).json()).toMatchObject({ status: "completed", size, error: null });
  const content = await ask(`/v1/videos/${job.id}/content`);
  const prompt = String(fake.creates[0]?.fields.prompt);
  expect(Buffer.from(await content.arrayBuffer())).toEqual(Buffer.from(tinyMp4(prompt)));
  const { model: _, ...asked } = sent as Record<string, unknown>;
  expect(fake.creates).toMatchObject([{ fields: asked, isAccepted: true, files: Array(files).fill({}) }]);
  expect(Buffer.from(fake.creates[0]?.files[0]?.bytes ?? png)).toEqual(Buffer.from(png));
  expect((await ask(`/v1/videos/${job.id}`, { method: "DELETE" })).status).toBe(200);
  expect(filesIn(service.folder)).toEqual([]);
});

test("a size that the model does not support fails with the server's message, and nothing is charged", async () => {
  const { service, fake, ask, create } = await createServing({ refuses: ["size"] });
  const { id } = (await (await create({ prompt: "a fox", size: "642x362" })).json()) as { id: string };
  await service.clock.sleep(30_000);
  expect([fake.creates.length, await service.store.balance("local")]).toEqual([1, 1_000]);
  expect(await (await ask(`/v1/videos/${id}`)).json()).toMatchObject({
    status: "failed",
    error: { code: "400", message: expect.stringContaining("size") },
  });
});

test("a failed job has the server's error code", async () => {
  const { service, fake, ask, create } = await createServing();
  const { id } = (await (await create({ prompt: "a fox" })).json()) as { id: string };
  await service.clock.sleep(5_000);
  for (const job of fake.jobs.keys()) fake.fail(job, { message: "CUDA out of memory", httpStatus: 503 });
  await service.clock.sleep(30_000);
  const body = await (await ask(`/v1/videos/${id}`)).json();
  expect(body).toMatchObject({ status: "failed", error: { code: "503", message: "CUDA out of memory" } });
  expect(await (await service.status(id)).json()).not.toHaveProperty("error_code");
});
