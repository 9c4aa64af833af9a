import { writeFileSync } from "node:fs";
import { onTestFinished } from "vitest";
import { VidgenError } from "../../src/errors.ts";
import { hashKey } from "../../src/server/api/accounts.ts";
import { createSecret } from "../../src/server/callbacks/signature.ts";
import type { Engine } from "../../src/server/engines/engine.ts";
import { openFolder } from "../../src/server/media/folder.ts";
import { createMetrics } from "../../src/server/metrics.ts";
import type { EndedGeneration } from "../../src/server/outcomes.ts";
import { createService } from "../../src/server/service.ts";
import { openStore } from "../../src/server/store/sqlite/sqlite-store.ts";
import { createVirtualClock } from "../clock.ts";
import { makeFolder } from "../folder.ts";
import { tinyMp4 } from "../mp4.ts";
import { apiKey, baseUrl, bearer, createDistant, fakeEngine, otherKey, renderMs, startRequest } from "./service.ts";

/** An engine that does as its prompts say, and otherwise makes a video in 30 s. */
function createEngine(clock: ReturnType<typeof createVirtualClock>): Partial<Engine> {
  return {
    async render({ request: { prompt }, file, thumbnail }, { signal }) {
      if (prompt === "refused") return { kind: "refused", error: "no" };
      if (prompt === "unclear") return { kind: "unclear", reason: "no reply" };
      if (prompt === "not submitted") return { kind: "not submitted", reason: "busy" };
      if (prompt === "failed") throw new Error("canary-error");
      if (prompt === "credits") throw new VidgenError("credits", "none left");
      await clock.doze(renderMs, signal);
      writeFileSync(file, tinyMp4(prompt));
      writeFileSync(thumbnail, "a picture");
      return { kind: "made", hasThumbnail: true };
    },
  };
}

/** A service with /metrics on a virtual clock. */
export async function createCounted(changes: Partial<Engine> = {}) {
  const clock = createVirtualClock();
  const folder = makeFolder();
  const distant = createDistant(await openStore(":memory:"));
  const { store } = distant;
  for (const [name, key] of Object.entries({ local: apiKey, other: otherKey }))
    await store.addAccount({ name, keyHash: hashKey(key), creditsOf: () => 1_000 });
  const ended: EndedGeneration[] = [];
  const service = createService({
    store,
    videos: await openFolder({ folder }),
    engines: [fakeEngine({ models: ["sora-2", "ray-3"], isSimulation: false, ...createEngine(clock), ...changes })],
    creditsPer: new Map([["ray-3", 50]]),
    hasPaidPreviews: true,
    hasDirectives: false,
    pace: "fast",
    hasRefunds: true,
    outbound: {
      get: () => Promise.reject(new Error("no images here")),
      open: () => Promise.reject(new Error("nothing to open here")),
      post: async (url) => ({ status: url.endsWith("gone") ? 410 : 204 }),
    },
    webhookSecret: createSecret(),
    clock: { ...clock, sleep: clock.doze },
    baseUrl: () => "https://api.video.example",
    mediaUrl: () => "https://media.video.example",
    createMetrics,
    onEnd: (end) => void ended.push(end),
    onDelivery: () => {},
    onNote: () => {},
    reportProblem: () => {},
  });
  await service.start("all");
  onTestFinished(async () => {
    await service.close();
    await store.close();
  });
  const get = async (key?: string) =>
    service.api(new Request(`${baseUrl}/metrics`, { headers: key === undefined ? {} : bearer(key) }));
  const text = async () => (await get(apiKey)).text();
  return {
    clock,
    distant,
    /** Where the videos are. */
    folder,
    service,
    get,
    text,
    /** The figures that have one of these beginnings, and are not 0. */
    async figures(...names: string[]) {
      const lines = (await text())
        .split("\n")
        .filter((line) => names.some((name) => line.startsWith(`vidgen_${name}`)));
      const pairs = lines
        .map((line) => line.split(/ (?=[\d.e+-]+$)/))
        .map(([name = "", value]) => [name, Number(value)]);
      return Object.fromEntries(pairs.filter(([, value]) => value !== 0));
    },
    /** Starts a generation, and resolves with its id. */
    async start(prompt: string, fields: object = {}, headers: Record<string, string> = {}) {
      const reply = await service.api(startRequest({ prompt, model: "sora-2", ...fields }, headers));
      return ((await reply.json()) as { data: { id: string } }).data.id;
    },
    /** Resolves when so many generations have ended. */
    async rest(count: number) {
      while (ended.length < count) await clock.sleep(1_000);
      // The refund is read after that.
      await clock.sleep(1_000);
    },
  };
}
