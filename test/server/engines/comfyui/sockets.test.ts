import { createHash } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { IncomingHttpHeaders, IncomingMessage, Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { serve } from "@hono/node-server";
import { expect, onTestFinished, test } from "vitest";
import { createFetch } from "../../../../src/client/http/http.ts";
import { createSocketReader } from "../../../../src/client/http/socket.ts";
import { systemClock } from "../../../../src/io.ts";
import { createComfyUiEngine } from "../../../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../../../src/server/engines/comfyui/workflow.ts";
import { tinyMp4 } from "../../../mp4.ts";
import { createTestEngine, timeoutMs } from "../videos/run.ts";
import { createComfyUi } from "./fake.ts";
import { withImage, workflow, writeWorkflow } from "./run.ts";

/** Waits are shorter than in earnest. */
const clock = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 100, signal) };

/** The frame of a short text, as a server sends it (RFC 6455, section 5.2). */
function frameOf(text: string): Buffer {
  const bytes = Buffer.from(text);
  if (bytes.length > 65_535) throw new Error("too long for a test");
  return Buffer.concat([Buffer.from([0x81, 126, bytes.length >> 8, bytes.length & 255]), bytes]);
}

/** Answers `/ws` as the fake does, and never answers that a connection closes. */
function acceptSockets(server: Server, fake: ReturnType<typeof createComfyUi>, seen: Seen): void {
  server.on("upgrade", ({ headers, url = "" }: IncomingMessage, socket: Socket) => {
    seen.headers.push(headers);
    const key = `${headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash("sha1").update(key).digest("base64");
    const upgrade = "Upgrade: websocket\r\nConnection: Upgrade";
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${upgrade}\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    const close = fake.connect(`ws://gpu${url}`, (text) => void socket.write(frameOf(text)));
    socket.on("error", () => {}).on("close", close);
    socket.on("end", () => socket.destroy()).resume();
  });
}

type Seen = { headers: IncomingHttpHeaders[]; connections: number; polls: number };

async function start({ graph = workflow(), hasSockets = true, completeAfterMs = 50 } = {}) {
  const fake = createComfyUi({ completeAfterMs });
  const seen: Seen = { headers: [], connections: 0, polls: 0 };
  let posts = 0;
  const fetch = async (request: Request, { outgoing }: { outgoing: { destroy(): void } }) => {
    const reply = await fake.fetch(request);
    if (request.url.includes("/api/jobs/")) seen.polls++;
    if (new URL(request.url).pathname === "/prompt" && ++posts > 0) outgoing.destroy();
    return reply;
  };
  const server = serve({ fetch: fetch as never, port: 0, hostname: "127.0.0.1" }) as Server;
  server.on("connection", () => seen.connections++);
  await once(server, "listening");
  if (hasSockets) acceptSockets(server, fake, seen);
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const read = readWorkflow(writeWorkflow(graph), ["wan-2.5"]);
  const settings = {
    url,
    key: "canary-key",
    upstreamModel: "wan.json",
    timeoutMs,
    runningPatienceMs: timeoutMs,
    models: ["wan-2.5"],
    concurrency: 16,
  };
  const engine = await createTestEngine(createFetch({}), {
    clock,
    create: (io, onNote) =>
      createComfyUiEngine({ ...settings, workflow: read, onNote }, { ...io, readSocket: createSocketReader({}) }),
  });
  return { ...engine, fake, seen, posts: () => posts };
}

test("over sockets, an image is uploaded, a submission without a reply is looked up, and the video is saved", async () => {
  const { make, fake, folder, posts } = await start({ graph: withImage });
  const path = join(folder, "0.webp");
  await writeFile(path, new Uint8Array(300_000).fill(7));
  const unset = ["aspectRatio", "duration", "resolution"] as const;
  const images = [{ path, format: "webp" as const, megapixels: 1, name: "the image" }];
  const { outcome, video, checkpoints } = await make({ prompt: 'ein "Fuchs" – 狐', unset, images });
  expect([outcome, video]).toEqual(["made", Buffer.from(tinyMp4(JSON.stringify('ein "Fuchs" – 狐, cinematic')))]);
  expect([posts(), checkpoints]).toEqual([1, ["unconfirmed", fake.runs[0]?.id]]);
  expect([...fake.uploads.values()]).toEqual([Buffer.alloc(300_000, 7)]);
});

test("over sockets, progress arrives over a WebSocket with the key, which is closed with the job", async () => {
  const { make, fake, seen } = await start({ completeAfterMs: 3_000 });
  const making = make({ unset: ["aspectRatio", "duration", "resolution"] });
  await expect.poll(() => fake.clients().length).toBe(1);
  const [run] = fake.runs;
  if (!run) throw new Error("nothing runs");
  fake.tell(run, "progress", { value: 7, max: 20, node: "3" });
  expect(await making).toMatchObject({ outcome: "made", told: [[35, "KSampler"]] });
  await expect.poll(() => fake.clients()).toEqual([]);
  // With an Origin or as a request from another site, ComfyUI refuses it.
  expect(seen.headers).toEqual([
    expect.objectContaining({ authorization: "Bearer canary-key", "user-agent": "vidgen" }),
  ]);
  expect(Object.keys(seen.headers[0] ?? {})).not.toContain("origin");
  expect(seen.headers[0]?.["sec-fetch-site"]).toBeUndefined();
});

test("over sockets, a server without a WebSocket also makes the video", async () => {
  const { make } = await start({ hasSockets: false });
  const made = await make({ unset: ["aspectRatio", "duration", "resolution"] });
  expect([made.outcome, made.told]).toEqual(["made", []]);
});

test("over sockets, the polls of a job share a connection", async () => {
  const { make, seen } = await start({ completeAfterMs: 1_000 });
  expect(await make({ unset: ["aspectRatio", "duration", "resolution"] })).toMatchObject({ outcome: "made" });
  // Its version, the routes it has, the create, a look whether it was accepted, the first poll, the others, the video, and the WebSocket.
  expect(seen.connections).toBeLessThanOrEqual(8);
  expect(seen.polls).toBeGreaterThan(15);
});
