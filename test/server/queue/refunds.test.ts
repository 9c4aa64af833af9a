import { describe, expect, test } from "vitest";
import type { Clock, Io } from "../../../src/io.ts";
import { createAiSdkEngine } from "../../../src/server/engines/ai-sdk/ai-sdk.ts";
import { createComfyUiEngine } from "../../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../../src/server/engines/comfyui/workflow.ts";
import { type Engine, failed } from "../../../src/server/engines/engine.ts";
import { createVideosEngine } from "../../../src/server/engines/videos/videos.ts";
import type { Get } from "../../../src/server/outbound/outbound.ts";
import { withImage, writeWorkflow } from "../engines/comfyui/run.ts";
import { engineUrl, timeoutMs } from "../engines/videos/run.ts";
import { createTestService, fakeEngine } from "../service.ts";
import { aPng, pngOf } from "./pictures.ts";

// Credits are gone only where an engine may have accepted the generation, also with --no-refunds.

const imageUrl = "https://images.example/a.png";
const minuteMs = 60_000;

type CreateEngine = (clock: Clock, fetch: Io["fetch"]) => Engine;
const common = { url: engineUrl, key: undefined, timeoutMs, models: ["sora-2"], concurrency: 4, onNote: () => {} };
const closed = () => Promise.reject(new Error("unused"));
const engines: Record<string, CreateEngine> = {
  "the preview": (_, fetch) =>
    fakeEngine({
      render: async (_, { signal }) => fetch(engineUrl, { signal }).then(() => Promise.reject(new Error("asked"))),
    }),
  "a server of /v1/videos": (clock, fetch) =>
    createVideosEngine({ ...common, kind: undefined, upstreamModel: undefined }, { ...clock, fetch, open: closed }),
  ComfyUI: (clock, fetch) => {
    const workflow = readWorkflow(writeWorkflow(withImage), ["sora-2"]);
    const settings = { ...common, upstreamModel: "wan.json", runningPatienceMs: timeoutMs, workflow };
    return createComfyUiEngine(settings, { ...clock, fetch, open: closed });
  },
  "a package of the AI SDK": (clock, fetch) => {
    const openModel = () => ({
      provider: "made-up.video",
      doStart: () => fetch(engineUrl, { signal: new AbortController().signal }) as never,
      doStatus: async () => ({}) as never,
    });
    const settings = { ...common, packageName: "made-up", upstreamModel: "x" };
    return createAiSdkEngine(settings, { ...clock, fetch, open: closed }, async () => ({
      version: "1.0.0",
      openModel,
    }));
  },
};

const reply =
  (status: number, body: Uint8Array = aPng(1, 1)): Get =>
  async () => ({ status, body });
const rejects =
  (message: string, facts: object = {}): Get =>
  async () => {
    throw Object.assign(new Error(message), facts);
  };
const images: Record<string, Get> = {
  "whose host answers 503": reply(503),
  "that does not exist (404)": reply(404),
  "whose host redirects to a private address": rejects("images from 10.0.0.1 are refused", { isForbidden: true }),
  "whose host cuts its reply": rejects("socket hang up", { code: "ECONNRESET" }),
  "whose host has no address": rejects("images.example cannot be reached (ENOTFOUND)"),
  "of more than 20 MB": rejects("it is larger than 20 MB"),
  "that is SVG": reply(200, new TextEncoder().encode('<svg xmlns="http://www.w3.org/2000/svg"/>')),
  "of 144 megapixels": reply(200, pngOf(12_000, 12_000, new Uint8Array())),
  "with a broken header": reply(200, aPng(3, 2).subarray(0, 20)),
};

describe.each(Object.entries(engines))("%s", (_, createEngine) => {
  test.each(Object.entries(images))("is not asked for an image %s, whose start is refunded", async (_, get) => {
    let asked = 0;
    const fetch: Io["fetch"] = () => {
      asked++;
      return Promise.reject(new Error("the engine was asked"));
    };
    const service = await createTestService({
      ...{ get, hasRefunds: false, credits: 100 },
      engines: (clock) => [createEngine(clock, fetch)],
    });
    const fields = { imageUrl, duration: undefined };
    const id = await service.startId(fields);
    expect(await service.store.balance("local")).toBe(90);
    await service.clock.sleep(10 * minuteMs);
    const generation = await service.store.generation(id);
    expect(generation).toMatchObject({
      status: "failed",
      failure: "image",
      error: expect.stringContaining("the image"),
    });
    expect([await service.store.balance("local"), asked]).toEqual([100, 0]);
  });
});

test.each<[string, Engine["render"], number]>([
  [
    "that says that nothing was submitted",
    async () => Promise.reject(failed(new Error("x"), { isNotSubmitted: true })),
    100,
  ],
  ["that refused its create", async () => ({ kind: "refused", error: "x", isNotSubmitted: true }), 100],
  ["whose model refused it", async () => ({ kind: "refused", error: "x" }), 90],
  ["that lost its job", async () => Promise.reject(new Error("x")), 90],
  ["about which nobody knows", async () => ({ kind: "unclear", reason: "x" }), 90],
])(
  "with --no-refunds, a generation of an engine %s leaves the credits as the rule says",
  async (_, render, balance) => {
    const service = await createTestService({ render, hasRefunds: false, credits: 100 });
    await service.start();
    await service.rest();
    expect(await service.store.balance("local")).toBe(balance);
  },
);

test("with --no-refunds, a cancel returns the credits of what waits, and not of what an engine has begun", async () => {
  const render: Engine["render"] = async (_, { checkpoint, signal }) => {
    await checkpoint({ state: "rendering", tries: 1 });
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  const service = await createTestService({ render, hasRefunds: false, credits: 100 });
  const [begun, waiting] = [await service.startId(), await service.startId()];
  await expect.poll(async () => (await service.store.generation(begun))?.checkpoint?.state).toBe("rendering");
  expect(await (await service.cancel(waiting)).json()).toMatchObject({ credits_returned: 10 });
  expect(await (await service.cancel(begun)).json()).toMatchObject({ credits_returned: 0 });
  expect(await service.store.balance("local")).toBe(90);
});
