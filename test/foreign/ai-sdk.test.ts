import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { APICallError } from "@ai-sdk/provider";
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

test("images are sent; what the service has no field for is a warning", async () => {
  const { vidgen, starts } = await createWorld();
  const image = `data:image/png;base64,${Buffer.from(aPng(1, 1)).toString("base64")}`;
  const video = { data: "https://videos.example/a.mp4", mediaType: "video/mp4" };
  const { warnings } = await startVideo({
    model: vidgen("ray-3"),
    prompt: { text: prompt, image },
    aspectRatio: "adaptive",
    inputReferences: [video],
    generateAudio: true,
    webhookUrl: "https://app.example/done",
    providerOptions: { vidgen: { negative_prompt: "rain" } },
  });
  expect(warnings.map((warning) => "feature" in warning && warning.feature)).toEqual([
    "aspectRatio",
    "inputReferences",
  ]);
  const body = { prompt, model: "ray-3", imageUrl: image, generate_audio: true, negative_prompt: "rain" };
  const callback_url = "https://app.example/done";
  expect(starts.map(({ body }) => body)).toEqual([{ ...body, callback_url }]);
});

test("the provider itself takes address and key of the environment, at the first start", async () => {
  const model = vidgen("ray-3");
  vi.stubEnv("VIDGEN_BASE_URL", address.base_url);
  vi.stubEnv("VIDGEN_API_KEY", address.api_key);
  expect((await startVideo({ model, prompt })).operation).toMatch(/^[0-9a-f-]{36}$/);
});
