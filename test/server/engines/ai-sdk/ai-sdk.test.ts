import { expect, test } from "vitest";
import { usage } from "../../../../src/errors.ts";
import type { Io } from "../../../../src/io.ts";
import { createAiSdkEngine } from "../../../../src/server/engines/ai-sdk/ai-sdk.ts";
import type { SdkPackage } from "../../../../src/server/engines/ai-sdk/package.ts";
import { checkEngine } from "../../../../src/server/engines/check.ts";
import { createVirtualClock } from "../../../clock.ts";
import { json } from "../videos/fakes/fake.ts";
import { createTestEngine, timeoutMs } from "../videos/run.ts";
import { video } from "./providers.ts";

// Packages that are no real ones. `test/foreign` has those of npm.

function createPackage(doStart: (send: () => Promise<Response>) => Promise<unknown>, told: unknown = {}): SdkPackage {
  return {
    version: "1.0.0",
    openModel: (id, fetch) => ({
      provider: "made-up.video",
      doStart: async () => {
        const send = () => fetch(`https://api.test/${id}`, { method: "POST", body: "{}" });
        return { operation: "job1", warnings: [], ...((await doStart(send)) as object) } as never;
      },
      doStatus: async () => told as never,
    }),
  };
}

async function startMadeUp(made: SdkPackage, answer: () => Response) {
  let requests = 0;
  const fetch: Io["fetch"] = async (_url, { signal } = {}) => {
    signal?.throwIfAborted();
    requests++;
    return answer();
  };
  const engine = await createTestEngine(fetch, {
    create: (io, onNote) => {
      const options = {
        packageName: "made-up",
        upstreamModel: "x",
        timeoutMs,
        onNote,
        models: ["wan-2.5"],
        concurrency: 1,
      };
      return createAiSdkEngine(options, io, async () => made);
    },
  });
  return { ...engine, requests: () => requests };
}

test("a package that sends a failed start again by itself sends it once", async () => {
  const twice = createPackage(async (send) => {
    const reply = await send();
    return reply.ok ? {} : send();
  });
  const { make, requests } = await startMadeUp(twice, () => json(500, {}));
  expect((await make()).outcome).toBe("unclear: HTTP 500");
  expect(requests()).toBe(1);
});

test("a package that sends a start in its own way, and fails, leaves it unclear", async () => {
  const own = createPackage(async () => {
    throw Object.assign(new Error("Bad Gateway"), { name: "AI_APICallError" });
  });
  const { make } = await startMadeUp(own, () => json(200, {}));
  const { outcome, checkpoints } = await make();
  expect([outcome, checkpoints]).toEqual(["unclear: it was not sent through vidgen: Bad Gateway", ["submitting"]]);
});

test("a package that never settles ends at its time limit, and what it sends later is not sent", async () => {
  let sendLater: (() => Promise<Response>) | undefined;
  const silent = createPackage((send) => {
    sendLater = send;
    return new Promise(() => {});
  });
  const { make, clock, requests } = await startMadeUp(silent, () => json(200, {}));
  void clock.sleep(timeoutMs + 1);
  expect((await make()).outcome).toBe("made-up: no response within 30 min; nothing was submitted");
  await expect(sendLater?.()).rejects.toThrow("no response within 30 min");
  expect(requests()).toBe(0);
});

test("a package that cannot be used fails a video before anything is sent, and its owner is told", async () => {
  const useless = {
    version: "1.0.0",
    openModel: () => {
      throw usage("has no video models", "Use another one.");
    },
  };
  const { make, engine, requests } = await startMadeUp(useless, () => json(200, {}));
  const { outcome, checkpoints } = await make();
  expect([outcome, checkpoints]).toEqual(["made-up: has no video models; nothing was submitted", ["submitting", null]]);
  const check = checkEngine(engine, createVirtualClock(), new AbortController().signal);
  expect(await check).toMatchObject({ kind: null, error: "has no video models (Use another one.)" });
  expect(requests()).toBe(0);
});

test("what a package warns of is told to the owner, and a video in its reply is saved", async () => {
  const warnings = [{ type: "unsupported", feature: "fps", details: "The model has 24." }];
  const completed = { status: "completed", videos: [{ type: "binary", data: video, mediaType: "video/mp4" }] };
  const made = createPackage((send) => send().then(() => ({ warnings })), completed);
  const { make, notes } = await startMadeUp(made, () => json(200, {}));
  expect(await make()).toMatchObject({ outcome: "made", video: Buffer.from(video) });
  expect(notes).toEqual(["made-up warns: fps: The model has 24."]);
});
