import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { describe, expect, onTestFinished, test } from "vitest";
import { createFetch } from "../../../../../src/client/http/http.ts";
import { tinyMp4 } from "../../../../mp4.ts";
import type { Fake, FakeOptions } from "./fake.ts";
import { createLiteLlm } from "./litellm.ts";
import { createOpenRouter } from "./openrouter.ts";
import { createSglang } from "./sglang.ts";
import { createTensorRtLlm } from "./tensorrt-llm.ts";
import { createVllmOmni } from "./vllm-omni.ts";

const bucket = "http://bucket.test/videos";

/** The rows of engines.md: what is answered while a job runs, once it has failed, and after a restart. */
const lives = {
  "vllm-omni": {
    create: createVllmOmni,
    created: 200,
    polls: ["in_progress", "in_progress", "completed"],
    notReady: 404,
    failed: [500, { code: 500, message: "no memory" }, 422],
    unknown: { error: { message: "Video not found", type: "Not Found", code: 404 } },
  },
  sglang: {
    create: (options: FakeOptions) => createSglang({ ...options, bucket }),
    created: 200,
    polls: ["queued", "queued", "completed"],
    notReady: 404,
    failed: [200, { message: "no memory" }, 404],
    unknown: { detail: "Video not found" },
  },
  "tensorrt-llm": {
    create: createTensorRtLlm,
    created: 202,
    polls: ["generating", "postprocessing", "completed"],
    notReady: 400,
    failed: [200, "no memory", 400],
    unknown: { object: "error", message: expect.stringMatching(/^Video video_0+1 not found$/), code: 404 },
  },
  litellm: {
    create: (options: FakeOptions) => createLiteLlm({ ...options, models: ["wan-2.5"] }),
    created: 200,
    polls: ["in_progress", "in_progress", "completed"],
    // JSON, as if it was the video.
    notReady: 200,
    failed: [200, { code: "server_error", message: "no memory" }, 200],
    unknown: { error: { message: expect.stringContaining("3 validation errors for VideoObject"), code: "500" } },
  },
  openrouter: {
    create: createOpenRouter,
    created: 202,
    polls: ["in_progress", "in_progress", "completed"],
    notReady: 400,
    failed: [200, "no memory", 400],
    unknown: { error: { message: expect.stringContaining("not found"), code: 404 } },
  },
};

async function start(fake: Fake, fields: Record<string, string> = {}, isJson = false) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ prompt: "a fox", ...fields })) form.append(name, value);
  form.append("input_reference", new Blob(["image"]), "image.png");
  const body = isJson ? JSON.stringify({ prompt: "a fox", ...fields }) : form;
  const reply = await fake.fetch(new Request("http://gpu.test/v1/videos", { method: "POST", body }));
  return { ...((await reply.json()) as { id: string }), http: reply.status };
}

const models: Record<string, string> = { litellm: "wan-2.5", openrouter: "alibaba/wan-2.6" };

describe.each(Object.keys(lives) as (keyof typeof lives)[])("the fake of %s", (kind) => {
  const { create, created, polls, notReady, failed, unknown } = lives[kind];
  const fields: Record<string, string> = { ...(kind in models && { model: models[kind] }) };
  const isJson = kind === "openrouter";

  test("answers the requests of a completed job as in engines.md", async () => {
    let now = 0;
    const fake = create({ now: () => now, completeAfterMs: 2_500 });
    const { http, id } = await start(fake, fields, isJson);
    expect(http).toBe(created);
    const path = `http://gpu.test/v1/videos/${encodeURIComponent(id)}`;
    expect((await fake.fetch(new Request(`${path}/content`))).status).toBe(notReady);
    const seen = [];
    for (let poll = 0; poll < 3; poll++) {
      now += 1_000;
      seen.push(((await (await fake.fetch(new Request(path))).json()) as { status: string }).status);
    }
    expect(seen).toEqual(polls);
    const content = await fake.fetch(new Request(`${path}/content`));
    if (kind === "sglang") expect(content.status).toBe(400);
    else expect(new Uint8Array(await content.arrayBuffer())).toEqual(tinyMp4("a fox"));
    fake.forget();
    const lost = await fake.fetch(new Request(path));
    expect(lost.status).toBe(kind === "litellm" ? 500 : 404);
    expect(await lost.json()).toMatchObject(unknown);
  });

  test("answers the requests of a failed job as in engines.md", async () => {
    const fake = create({});
    const { id } = await start(fake, fields, isJson);
    fake.fail(id, { message: "no memory" });
    const path = `http://gpu.test/v1/videos/${encodeURIComponent(id)}`;
    const poll = await fake.fetch(new Request(path));
    const content = await fake.fetch(new Request(`${path}/content`));
    const { status, error } = (await poll.json()) as { status: string; error: unknown };
    expect(status).toBe("failed");
    expect([poll.status, error, content.status]).toEqual(failed);
  });
});

test("SGLang's job has the address of the video in the bucket", async () => {
  const fake = createSglang({ bucket });
  const { id } = await start(fake);
  fake.complete(id);
  const { url } = (await (await fake.fetch(new Request(`http://gpu.test/v1/videos/${id}`))).json()) as { url: string };
  expect(url).toBe(`${bucket}/${id}.mp4`);
  expect(new Uint8Array(await (await fake.fetch(new Request(url))).arrayBuffer())).toEqual(tinyMp4("a fox"));
});

test("LiteLLM's ids are long base64 strings that change with each poll", async () => {
  const fake = createLiteLlm({ models: ["wan-2.5"] });
  const { id } = await start(fake, { model: "wan-2.5" });
  expect(id).toMatch(/^video_(?=.*\+)(?=.*\/).{150,}=$/);
  const poll = await fake.fetch(new Request(`http://gpu.test/v1/videos/${encodeURIComponent(id)}`));
  const again = (await poll.json()) as { id: string };
  expect(again.id).not.toBe(id);
  expect((await fake.fetch(new Request(`http://gpu.test/v1/videos/${encodeURIComponent(again.id)}`))).status).toBe(200);
});

test("refusals have the format of their server", async () => {
  const refusing = { refuses: ["seed"] };
  const refusals = [
    await start(createVllmOmni({ ...refusing, errors: "fastapi" }), { seed: "1" }),
    await start(createVllmOmni(refusing), { seed: "1" }),
    await start(createSglang(refusing), { seed: "1" }),
    await start(createSglang(refusing), { seed: "1" }, true),
    await start(createVllmOmni(), {}, true),
    await start(createTensorRtLlm(), { enhance: "1" }),
    await start(createLiteLlm({ ...refusing, models: ["wan-2.5"] }), { seed: "1", model: "wan-2.5" }),
  ];
  expect(refusals).toMatchObject([
    { http: 422, detail: [{ loc: ["body", "seed"] }] },
    { http: 400, error: { message: expect.stringContaining("'loc': ('body', 'seed')"), code: 400 } },
    { http: 422, detail: [{ loc: ["body", "seed"] }] },
    { http: 400, detail: expect.stringContaining("VideoGenerationsRequest\nseed\n") },
    {
      http: 400,
      error: {
        message: "[{'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required', 'input': None}]",
        type: "Bad Request",
      },
    },
    { http: 422, message: expect.stringContaining("Unknown request field 'enhance'"), code: 422 },
    { http: 400, error: { message: expect.stringContaining("seed: Input should be valid"), code: "400" } },
  ]);
});

test("on a socket, a fault closes the connection before or after the submission, or cuts the reply", async () => {
  const faults: FakeOptions["fault"][] = [
    () => "drop",
    async (call) => {
      await call.serve();
      return "drop" as const;
    },
    async (call) => ({ reply: await call.serve(), bytes: 10 }),
  ];
  const fake = createTensorRtLlm({ fault: (call) => faults.shift()?.(call) });
  const server = serve({ fetch: fake.fetch, port: 0, hostname: "127.0.0.1" }) as Server;
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/videos`;
  const fetch = createFetch({});
  const headers = { "Content-Type": "application/json" };
  const post = async () =>
    (await fetch(url, { method: "POST", headers, body: JSON.stringify({ prompt: "a fox" }) })).text();
  const accepted = [];
  for (let attempt = 0; attempt < 3; attempt++) {
    await expect(post()).rejects.toThrow();
    accepted.push(fake.jobs.size);
  }
  expect(accepted).toEqual([0, 1, 2]);
  await expect(post()).resolves.toContain('"queued"');
});
