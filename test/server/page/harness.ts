import { copyFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { type Clock, systemClock } from "../../../src/io.ts";
import { hashKey } from "../../../src/server/api/accounts.ts";
import { type Listening, listen } from "../../../src/server/api/listen.ts";
import { createSecret } from "../../../src/server/callbacks/signature.ts";
import type { Engine, RenderOptions, RenderTask } from "../../../src/server/engines/engine.ts";
import { renderPreview } from "../../../src/server/engines/preview/render.ts";
import { openFolder } from "../../../src/server/media/folder.ts";
import { createMetrics } from "../../../src/server/metrics.ts";
import { createOutbound } from "../../../src/server/outbound/outbound.ts";
import { createSessions } from "../../../src/server/page/session.ts";
import { createService } from "../../../src/server/service.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/server/store/store.ts";
import { makeFolder } from "../../folder.ts";
import { tinyMp4 } from "../../mp4.ts";
import { aTask } from "../engines/preview/requests.ts";
import { fakeEngine } from "../service.ts";

export const apiKey = "canary-key-of-the-page";

/** What a test decides about a running generation. */
export type Running = Pick<RenderOptions, "progress" | "checkpoint"> & { complete(): void; fail(reason: string): void };

export type TestPage = {
  /** The service's address, without a slash at the end. */
  url: string;
  /** The link that signs in. */
  link: string;
  /** Starts a generation and resolves once it runs. */
  start(fields?: object, key?: string, headers?: Record<string, string>): Promise<{ id: string; running: Running }>;
  /** Starts one and lets it complete. */
  make(fields?: object, key?: string, headers?: Record<string, string>): Promise<string>;
  /** Resolves once one runs that somebody else starts, by its prompt. */
  running(prompt: string): Promise<Running>;
  /** Ends the service and starts it again, with the same state, at the same address. */
  restart(): Promise<void>;
  stop(): Promise<void>;
  webhookSecret: string;
  /** Where the videos are. */
  folder: string;
  /** Of a link that signed in until yesterday. */
  expiredToken: string;
};

export type TestPageOptions = {
  hasThumbnail?: boolean;
  video?: RenderTask | ((prompt: string) => RenderTask);
  /** The address of the proxy that browsers talk to. */
  publicUrl?: string;
  store?: Store;
  /** How vidgen was called. */
  program?: string;
  clock?: Clock;
  /** What differs of the engine. */
  engine?: Partial<Engine>;
  /** Whether previews cost the owner credits too; they do unless told otherwise. */
  hasPaidPreviews?: boolean;
};

/** The service with its page on a real socket, with an engine that the test turns by hand. */
export async function openTestPage(options: TestPageOptions = {}): Promise<TestPage> {
  const { hasThumbnail = true, video: given, publicUrl, program, clock = systemClock } = options;
  const { store = await openStore(":memory:") } = options;
  await store.addAccount({ name: "local", keyHash: hashKey(apiKey), creditsOf: () => 1_000_000 });
  const folder = makeFolder();
  const waiting = new Map<string, (running: Running) => void>();
  const webhookSecret = createSecret();
  const engine = fakeEngine({
    name: "http://gpu-1:8091",
    concurrency: 100,
    async render({ file, thumbnail, request }, { progress, checkpoint, signal }) {
      await checkpoint({ state: "rendering", tries: 1 });
      // A listener that is added after the abort is never called, and the service would wait for this render.
      signal.throwIfAborted();
      await new Promise<void>((complete, reject) => {
        const fail = (reason: string) => reject(new Error(reason));
        signal.addEventListener("abort", () => reject(signal.reason));
        waiting.get(request.prompt)?.({ progress, checkpoint, complete, fail });
      });
      const video = typeof given === "function" ? given(request.prompt) : given;
      if (video) await copyFile(video.file, file);
      else await writeFile(file, tinyMp4(request.prompt));
      if (!hasThumbnail) return { kind: "made", hasThumbnail };
      if (video) await copyFile(video.thumbnail, thumbnail);
      else await writeFile(thumbnail, "a picture");
      return { kind: "made", hasThumbnail };
    },
    ...options.engine,
  });

  let port = 0;
  const open = async () => {
    const sessions = createSessions(apiKey);
    const service = createService({
      store,
      videos: { ...(await openFolder({ folder })), presign: async () => "https://videos.example/fox.mp4" },
      engines: [engine],
      creditsPer: new Map(),
      hasPaidPreviews: options.hasPaidPreviews ?? true,
      hasDirectives: false,
      pace: "fast",
      hasRefunds: true,
      // The page shows videos of its own origin alone.
      hasRedirects: true,
      outbound: createOutbound({ allowLoopback: () => true, clock: systemClock }),
      webhookSecret,
      sessions: async () => sessions,
      assets: new URL("../../../dist/page/", import.meta.url),
      clock,
      publicUrl,
      program,
      createMetrics,
      baseUrl: () => `http://127.0.0.1:${port}`,
      mediaUrl: () => "https://media.video.example",
      onDelivery: () => {},
      onNote: () => {},
      reportProblem: (what, error) => {
        throw new Error(what, { cause: error });
      },
    });
    const listening: Listening = await listen(
      service.api,
      { host: "127.0.0.1", port, publicOrigin: publicUrl },
      systemClock,
    );
    await service.start("all");
    port = Number(new URL(listening.url).port);
    return async () => {
      service.endStreams();
      await listening.close(0);
      await service.close();
    };
  };
  let stop = await open();
  onTestFinished(async () => {
    await stop();
    await store.close();
  });

  const url = `http://127.0.0.1:${port}`;
  let count = 0;
  const running = (prompt: string) => new Promise<Running>((resolve) => waiting.set(prompt, resolve));
  const start: TestPage["start"] = async (fields, key = apiKey, added = {}) => {
    const body = { prompt: `a fox, take ${++count}`, model: "wan-2.5", duration: 1, ...fields };
    const begun = running(body.prompt);
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...added };
    const reply = await fetch(`${url}/api/generate`, { method: "POST", headers, body: JSON.stringify(body) });
    const { data } = (await reply.json()) as { data: { id: string } };
    return { id: data.id, running: await begun };
  };
  return {
    url,
    webhookSecret,
    folder,
    running,
    expiredToken: createSessions(apiKey).link(new Date(Date.now() - 700_000)),
    start,
    get link() {
      return `${url}/?token=${createSessions(apiKey).link(new Date())}`;
    },
    async make(fields, key, headers) {
      const { id, running } = await start(fields, key, headers);
      running.complete();
      while ((await store.generation(id))?.status === "processing") await systemClock.sleep(5);
      return id;
    },
    async restart() {
      await stop();
      stop = await open();
    },
    async stop() {
      await stop();
      stop = async () => {};
    },
  };
}

/** A video that a browser plays. */
export async function aVideo(fields: Parameters<typeof aTask>[0] = {}): Promise<RenderTask> {
  const task = aTask({ duration: 2, prompt: "a fox", ...fields });
  await renderPreview(task);
  return task;
}

/** Receives callbacks; each gets the next of the replies, or the last one. Returns its address and what has come. */
export async function receive(...replies: { status: number; text: string }[]) {
  const received: { id: string; body: string }[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { status = 200, text = "" } = replies[Math.min(received.length, replies.length - 1)] ?? {};
    received.push({ id: String(request.headers["webhook-id"]), body });
    response.writeHead(status).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`, received };
}

/** What was paid, one entry for each start. */
export const paid = async (store: Store) =>
  (await store.ledger({ limit: 99 })).filter(({ reason }) => reason === "start").map(({ amount }) => amount);

/** The headers by which `vidgen batch` labels what it starts. */
export const labelled = (name: string, size: number) => ({
  "Vidgen-Label": encodeURIComponent(name),
  "Vidgen-Label-Size": String(size),
});
