import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { APICallError, UnsupportedFunctionalityError } from "@ai-sdk/provider";
import {
  experimental_generateVideo as generateVideo,
  experimental_getVideoStatus as getVideoStatus,
  experimental_startVideo as startVideo,
} from "ai";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { createVidgen, type VidgenModel, vidgen } from "../../dist/ai-sdk.js";
import { VidgenError } from "../../dist/index.js";
import { aPng } from "../server/queue/pictures.ts";
import { type Announced, createClient, type Serving, serve } from "../soak/serve.ts";

// The provider with the AI SDK itself, against `vidgen serve`, over real sockets on loopback.

const prompt = "a fox";
const poll = { intervalMs: 50 };

const home = mkdtempSync(join(tmpdir(), "vidgen-ai-sdk-"));
let serving: Serving;
let address: Announced;

beforeAll(async () => {
  serving = serve(home, "--port", "0", "--media-port", "0", "--credits", "1000");
  address = await serving.started;
});

afterAll(async () => {
  await serving.end("SIGTERM");
  rmSync(home, { recursive: true, force: true });
});

afterEach(() => void vi.unstubAllEnvs());

/** A provider whose first starts get no reply, and what the service saw of it. */
async function createWorld({ lost = 0 } = {}) {
  const starts: { key: string | null; body: Record<string, unknown> }[] = [];
  const fetchAndLose: typeof fetch = async (url, init) => {
    const reply = await fetch(url, init);
    if (init?.method !== "POST") return reply;
    starts.push({ key: new Headers(init.headers).get("Idempotency-Key"), body: JSON.parse(String(init.body)) });
    if (starts.length > lost) return reply;
    await reply.text();
    throw new TypeError("the connection was reset");
  };
  const service = createClient(address, 1);
  /** Costs 10 credits itself. */
  const countCredits = async () =>
    Number((await service.start({ prompt, model: "ray-3", duration: 1 })).json.remaining_credits);
  const before = await countCredits();
  return {
    starts,
    status: service.status,
    vidgen: createVidgen({ baseUrl: address.base_url, apiKey: address.api_key, fetch: fetchAndLose }),
    /** In credits. */
    charged: async () => before - (await countCredits()) - 10,
  };
}

/** A layer between the SDK and the model, as programs have them, that has each failed start retried. */
function insistent(model: VidgenModel): VidgenModel {
  const retryable = (cause: unknown) =>
    new APICallError({ message: "failed", url: "", requestBodyValues: {}, isRetryable: true, cause });
  const doStart: VidgenModel["doStart"] = async (call) => {
    try {
      return await model.doStart(call);
    } catch (error) {
      throw retryable(error);
    }
  };
  return { ...model, doStart };
}

test("generateVideo brings the video, and its id", async () => {
  const { vidgen, starts, charged, status } = await createWorld();
  const asked = { prompt, duration: 1, resolution: "854x480", aspectRatio: "16:9", seed: 7 } as const;
  const { video, warnings, providerMetadata } = await generateVideo({ model: vidgen("veo-3.1"), ...asked, poll });
  expect([video.mediaType, Buffer.from(video.uint8Array).toString("latin1", 4, 8)]).toEqual(["video/mp4", "ftyp"]);
  expect(starts.map(({ body }) => body)).toEqual([{ ...asked, model: "veo-3.1", resolution: "480p" }]);
  expect([warnings, await charged()]).toEqual([[], 10]);
  const { json } = await status(String(providerMetadata.vidgen?.id));
  expect(json.status).toBe("completed");
});

test.each([
  ["the reply to the start is lost: the client settles it", 1],
  ["the reply to what settles it is lost, too, and the SDK starts again", 2],
])("%s; one generation and one charge", async (_, lost) => {
  const { vidgen, starts, charged } = await createWorld({ lost });
  const { videos } = await generateVideo({ model: insistent(vidgen("ray-3")), prompt, duration: 1, poll });
  expect([videos.length, starts.length]).toEqual([1, lost + 1]);
  const keys = new Set(starts.map(({ key }) => key));
  expect([...keys]).toEqual([expect.stringMatching(/^aisdk_vid_/)]);
  expect(await charged()).toBe(10);
});

test("with a key of the caller's own, another call gets the same generation; each of several videos is one of its own", async () => {
  const { vidgen, charged } = await createWorld();
  const call = { model: vidgen("ray-3"), prompt, duration: 1 };
  const headers = { "Idempotency-Key": "order-17" };
  const [first, second] = [await startVideo({ ...call, headers }), await startVideo({ ...call, headers })];
  expect([second.operation, await charged()]).toEqual([first.operation, 10]);
  await generateVideo({ ...call, n: 2, poll });
  expect(await charged()).toBe(10 + 10 + 20);
});

test("a refusal is the client's own error, and is sent once", async () => {
  const { vidgen, starts, charged } = await createWorld();
  const refused = generateVideo({ model: vidgen("ray-3"), prompt, resolution: "640x360", poll });
  await expect(refused).rejects.toBeInstanceOf(VidgenError);
  await expect(refused).rejects.toMatchObject({ code: "rejected", message: expect.stringContaining("480p") });
  expect([starts.length, await charged()]).toEqual([1, 0]);
});

test("a generation that fails says why, and the status of one that runs is pending", async () => {
  const { vidgen } = await createWorld();
  const model = vidgen("ray-3");
  const failed = generateVideo({ model, prompt: "a fox [fail: no foxes]", duration: 1, poll });
  await expect(failed).rejects.toThrow("no foxes");
  const { operation } = await startVideo({ model, prompt: "a fox [slow: 90s]" });
  expect(await getVideoStatus(model, { operation })).toMatchObject({ status: "pending" });
});

const image = `data:image/png;base64,${Buffer.from(aPng(1, 1)).toString("base64")}`;
const other = `data:image/png;base64,${Buffer.from(aPng(2, 1)).toString("base64")}`;

/** Starts a video at a service that takes every field, and returns the bodies that it got. */
async function startAnywhere(call: Omit<Parameters<typeof startVideo>[0], "model">, modelId = "ray-3") {
  const bodies: Record<string, unknown>[] = [];
  const accept: typeof fetch = async (_url, init) => {
    bodies.push(JSON.parse(String(init?.body)));
    return Response.json({ success: true, data: { id: "1" }, remaining_credits: 1 });
  };
  const model = createVidgen({ baseUrl: "https://service.example", apiKey: "k", fetch: accept })(modelId);
  const error = await startVideo({ model, ...call }).then(
    ({ warnings }) => warnings[0],
    (thrown) => thrown,
  );
  return { bodies, error };
}

test("an image, the other options and the fields of the provider are sent", async () => {
  const { bodies, error } = await startAnywhere({
    prompt: { text: prompt, image },
    generateAudio: true,
    fps: 24,
    seed: 7,
    webhookUrl: "https://app.example/done",
    providerOptions: { vidgen: { negative_prompt: "rain" } },
  });
  const fields = { generate_audio: true, fps: 24, seed: 7, negative_prompt: "rain" };
  const callback_url = "https://app.example/done";
  expect([error, bodies]).toEqual([undefined, [{ prompt, model: "ray-3", imageUrl: image, ...fields, callback_url }]]);
});

const frame = (frameType: "first_frame" | "last_frame", image: string) => ({ image, frameType });

test.each<[string, Partial<Parameters<typeof startVideo>[0]>, object, string?]>([
  [
    "references",
    { inputReferences: [image, "https://a.example/b.png"] },
    { referenceUrls: [image, "https://a.example/b.png"] },
  ],
  [
    "references beside an image",
    { prompt: { text: prompt, image }, inputReferences: [other] },
    { imageUrl: image, referenceUrls: [other] },
  ],
  ["a first frame", { frameImages: [frame("first_frame", image)] }, { imageUrl: image }],
  ["a last frame", { frameImages: [frame("last_frame", other)] }, { lastImageUrl: other }],
  [
    "both frames",
    { frameImages: [frame("last_frame", other), frame("first_frame", image)] },
    { imageUrl: image, lastImageUrl: other },
  ],
  [
    "the images of a model that is made of them",
    { inputReferences: [image, other] },
    { imageUrls: [image, other] },
    "kling-1.6-elements",
  ],
])("%s, in the field of the service", async (_, call, fields, modelId = "ray-3") => {
  const { bodies, error } = await startAnywhere({ prompt, ...call } as never, modelId);
  expect([error, bodies]).toEqual([undefined, [{ prompt, model: modelId, ...fields }]]);
});

test.each<[string, string, Partial<Parameters<typeof startVideo>[0]>]>([
  ["a video", "inputReferences", { inputReferences: [{ data: "https://a.example/a.mp4", mediaType: "video/mp4" }] }],
  ["the bytes of a sound", "inputReferences", { inputReferences: [new Uint8Array(Buffer.from("ID3 fox"))] }],
  ["two last frames", "frameImages", { frameImages: [frame("last_frame", image), frame("last_frame", other)] }],
  ["an image in another format", "image", { prompt: { image: new Uint8Array(Buffer.from("GIF89a")) } }],
])("%s is an UnsupportedFunctionalityError, and nothing is sent", async (_, functionality, call) => {
  const { bodies, error } = await startAnywhere({ prompt, ...call } as never);
  expect(UnsupportedFunctionalityError.isInstance(error)).toBe(true);
  expect([error, bodies]).toMatchObject([
    { name: "AI_UnsupportedFunctionalityError", functionality, message: expect.stringMatching(/; nothing was sent,/) },
    [],
  ]);
});

test("the provider itself takes address and key of the environment, at the first start", async () => {
  const model = vidgen("ray-3");
  vi.stubEnv("VIDGEN_BASE_URL", address.base_url);
  vi.stubEnv("VIDGEN_API_KEY", address.api_key);
  expect((await startVideo({ model, prompt })).operation).toMatch(/^[0-9a-f-]{36}$/);
});
