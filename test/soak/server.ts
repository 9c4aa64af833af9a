// One of the servers that speed.ts measures, in a process of its own: `node server.ts <kind> <database>`, compiled.
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname } from "node:path";
import process from "node:process";
import { systemIo } from "../../src/cli/system.ts";
import { createApp } from "../../src/server/api/app.ts";
import { listen } from "../../src/server/api/listen.ts";
import { createStartRoutes } from "../../src/server/api/start.ts";
import { createPreviewEngine } from "../../src/server/engines/preview/preview.ts";
import { openFolder } from "../../src/server/media/folder.ts";
import type { StoredGeneration } from "../../src/server/store/generations.ts";
import { openStore } from "../../src/server/store/sqlite/sqlite-store.ts";

const [kind, database = ":memory:"] = process.argv.slice(2);
const key = `vgs_${"0".repeat(48)}`;
const id = "0b8f8f0e-6d5c-4b57-9f0e-1c1f5a2a7a10";

async function startService() {
  const io = systemIo();
  const store = await openStore(database);
  await store.addAccount({
    name: "local",
    keyHash: createHash("sha256").update(key).digest("hex"),
    creditsOf: () => 1_000_000_000,
  });
  await store.start(generation(), 10, undefined);
  const queue = {
    resume() {},
    progressOf: () => undefined,
    whyNotSubmitted: () => undefined,
    outageOf: () => undefined,
    engineOf: () => undefined,
    missingEngines: () => [],
    retiredEngines: async () => [],
  };
  const engines = [createPreviewEngine({ concurrency: 1 })];
  const prices = { creditsPer: new Map(), hasPaidPreviews: true };
  const app = createApp({
    startBy: createStartRoutes({ ...prices, store, engines, clock: io, hasDirectives: true }),
    store,
    queue,
    engines,
    ...prices,
    hasRefunds: true,
    videos: await openFolder({ folder: dirname(database) }),
    media: async () => new Response(),
    clock: io,
    webhookSecret: "",
    baseUrl: () => "http://api.test",
    mediaUrl: () => "http://127.0.0.1:1",
    reportProblem: (what, error) => process.stderr.write(`${what}: ${error}\n`),
  });
  const { url } = await listen(app, { host: "127.0.0.1", port: 0 }, io);
  return url;
}

function generation(): StoredGeneration {
  const video = { prompt: "fox", model: "veo-3.1", aspectRatio: "16:9", duration: 5, resolution: "480p" as const };
  const request = { ...video, extras: {}, images: [], isReal: false, hasDirectives: true };
  const end = {
    status: "processing" as const,
    completed_at: null,
    error: null,
    callback_url: null,
    media: null,
    cost: null,
    checkpoint: null,
  };
  return { id, account: "local", request, created_at: "2026-01-01T00:00:00.000Z", ...end };
}

/** The least that answers the same bytes as the status request above. */
function startBare() {
  const [empty, created_at] = [null, "2026-01-01T00:00:00.000Z"];
  const body = { id, status: "processing", video_url: empty, thumbnail_url: empty, created_at };
  const text = JSON.stringify(body);
  const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) };
  const server = createServer((_, outgoing) => outgoing.writeHead(200, headers).end(text));
  return new Promise<string>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  });
}

const url = await (kind === "bare" ? startBare() : startService());
process.stdout.write(`${JSON.stringify({ url, key, id })}\n`);
