import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { Server } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { serve } from "@hono/node-server";
import { expect, onTestFinished, test } from "vitest";
import { createFetch } from "../../../../src/client/http/http.ts";
import { systemClock } from "../../../../src/io.ts";
import { tinyMp4 } from "../../../mp4.ts";
import type { Fake, FakeOptions } from "./fakes/fake.ts";
import { createTestEngine, type EngineOptions, fakes, kindIds } from "./run.ts";

/** Waits are shorter than in earnest. */
const clock = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 100, signal) };

async function listen({ fetch }: Pick<Fake, "fetch">, port = 0) {
  const server = serve({ fetch, port, hostname: "127.0.0.1" }) as Server;
  let connections = 0;
  server.on("connection", () => connections++);
  await once(server, "listening");
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, connections: () => connections };
}

async function start(kind: (typeof kindIds)[number], fakeOptions: FakeOptions = {}, options: EngineOptions = {}) {
  let posts = 0;
  const fault: FakeOptions["fault"] = (call) => {
    if (call.route === "create") posts++;
    return fakeOptions.fault?.(call);
  };
  const fake = fakes[kind]({ completeAfterMs: 50, ...fakeOptions, fault });
  const { url, connections } = await listen(fake);
  const engine = await createTestEngine(createFetch({}), { clock, kind, url, ...options });
  return { ...engine, fake, connections, posts: () => posts };
}

test.each(kindIds)("%s makes a video from a prompt and an image", async (kind) => {
  const { make, fake, folder, connections } = await start(kind, { completeAfterMs: 400 });
  const path = join(folder, "0.webp");
  await writeFile(path, new Uint8Array(300_000).fill(7));
  const prompt = 'ein "Fuchs" im Schnee – 狐';
  const { outcome, video } = await make({
    prompt,
    images: [{ path, format: "webp", megapixels: 1, name: "the image" }],
  });
  expect([outcome, video]).toEqual(["made", Buffer.from(tinyMp4(prompt))]);
  const [create] = fake.creates;
  expect([create?.fields.prompt, create?.files[0]?.type, create?.files[0]?.bytes.length]).toEqual([
    prompt,
    "image/webp",
    300_000,
  ]);
  const [job] = fake.jobs.values();
  // The create, the first poll, the others, which share one, and the download.
  expect([connections(), (job?.polls ?? 0) > 2]).toEqual([4, true]);
});

test("a submission to an unreachable server is taken back", async () => {
  const closed = createServer().listen(0, "127.0.0.1");
  await once(closed, "listening");
  const { port } = closed.address() as AddressInfo;
  await new Promise((resolve) => closed.close(resolve));
  const { make } = await createTestEngine(createFetch({}), {
    clock: systemClock,
    kind: "sglang",
    url: `http://127.0.0.1:${port}`,
  });
  const { outcome, checkpoints } = await make();
  expect(outcome).toMatch(/^not submitted: .*it refuses connections/);
  expect(checkpoints).toEqual(["submitting", null]);
});

test.each<[string, NonNullable<FakeOptions["fault"]>, RegExp]>([
  ["closes the connection", ({ route }) => (route === "create" ? "drop" : undefined), /ECONNRESET/],
  [
    "cuts its reply",
    async ({ route, serve }) => (route === "create" ? { reply: await serve(), bytes: 9 } : undefined),
    /ECONNRESET/,
  ],
  ["is silent", ({ route }) => (route === "create" ? new Promise(() => {}) : undefined), /no response within/],
])("a create to a server that %s is unclear, and sent once", async (_name, fault, reason) => {
  const { make, posts } = await start("sglang", { fault }, { timeoutMs: 300 });
  const { outcome, checkpoints } = await make();
  expect(outcome).toMatch(/^unclear: /);
  expect(outcome).toMatch(reason);
  expect([posts(), checkpoints]).toEqual([1, ["submitting"]]);
});

test("interrupted polls and downloads are sent again", async () => {
  const broken = { poll: 0, content: 0 };
  const { make, posts } = await start("vllm-omni", {
    async fault({ route, serve }) {
      if (route === "poll" && broken.poll++ < 2) return "drop";
      return route === "content" && broken.content++ < 2 ? { reply: await serve(), bytes: 20 } : undefined;
    },
  });
  const { outcome, video } = await make();
  expect([outcome, video, posts()]).toEqual(["made", Buffer.from(tinyMp4("a fox")), 1]);
});
