import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { usage } from "../../../../src/errors.ts";
import type { Io } from "../../../../src/io.ts";
import { createAiSdkEngine } from "../../../../src/server/engines/ai-sdk/ai-sdk.ts";
import type { SdkPackage } from "../../../../src/server/engines/ai-sdk/package.ts";
import type { VideoCall, VideoFile } from "../../../../src/server/engines/ai-sdk/video-model.ts";
import { checkEngine } from "../../../../src/server/engines/check.ts";
import type { ImageFile } from "../../../../src/server/engines/engine.ts";
import { createVirtualClock } from "../../../clock.ts";
import { tinyMp4 } from "../../../mp4.ts";
import { json, refusedConnection } from "../videos/fakes/fake.ts";
import { createTestEngine, type EngineOptions, type MakeOptions, timeoutMs } from "../videos/run.ts";
import { openVideo, video } from "./providers.ts";

// Packages that are no real ones. `test/foreign` has those of npm.

function createPackage(
  doStart: (send: () => Promise<Response>) => Promise<unknown>,
  told: (fetch: typeof globalThis.fetch) => unknown = () => ({}),
): SdkPackage {
  return {
    version: "1.0.0",
    openModel: (id, fetch) => ({
      provider: "made-up.video",
      doStart: async () => {
        const send = () => fetch(`https://api.test/${id}`, { method: "POST", body: "{}" });
        return { operation: "job1", warnings: [], ...((await doStart(send)) as object) } as never;
      },
      doStatus: async () => (await told(fetch)) as never,
    }),
  };
}

async function startMadeUp(made: SdkPackage, answer: () => Response, options: EngineOptions = {}) {
  let requests = 0;
  const fetch: Io["fetch"] = async (_url, { signal } = {}) => {
    signal?.throwIfAborted();
    requests++;
    return answer();
  };
  const engine = await createTestEngine(fetch, {
    ...options,
    create: (io, onNote) => {
      const engine = {
        packageName: "made-up",
        upstreamModel: options.upstreamModel ?? "x",
        timeoutMs,
        onNote,
        models: ["wan-2.5"],
        concurrency: 1,
      };
      return createAiSdkEngine(engine, io, async () => made);
    },
  });
  return { ...engine, requests: () => requests };
}

test("a job is polled through the model that started it, even if the engine has another model now", async () => {
  const asked: string[] = [];
  const videos = [{ type: "binary", data: video, mediaType: "video/mp4" }];
  const made: SdkPackage = {
    version: "1.0.0",
    openModel: (id) => ({
      provider: "made-up.video",
      doStart: () => Promise.reject(new Error("it was started before")),
      async doStatus() {
        asked.push(id);
        return { status: "completed", videos };
      },
    }),
  };
  const { make } = await startMadeUp(made, () => json(200, {}));
  expect(await make({ resume: { state: "submitted", job: '"job1"', model: "y" } })).toMatchObject({ outcome: "made" });
  expect(new Set(asked)).toEqual(new Set(["y"]));
});

test.each([
  ["film", "fal-ai/wan/v2.2-a14b/text-to-video", "832x480"],
  ["wan-2.5", "fal-ai/hunyuan-video", "848x480"],
])(
  "the size of %s is that of the family of %s, which the provider makes it with",
  async (model, upstreamModel, size) => {
    const sizes: unknown[] = [];
    const made: SdkPackage = {
      version: "1.0.0",
      openModel: () => ({
        provider: "made-up.video",
        async doStart({ resolution }) {
          sizes.push(resolution);
          return { operation: "job1", warnings: [] };
        },
        doStatus: async () => ({ status: "completed", videos: [{ type: "binary", data: video }] }),
      }),
    };
    const { make } = await startMadeUp(made, () => json(200, {}), { upstreamModel });
    expect((await make({ model, resolution: "480p" })).outcome).toBe("made");
    expect(sizes).toEqual([size]);
  },
);

test("a package that would repeat a failed start sends it only once", async () => {
  const twice = createPackage(async (send) => {
    const reply = await send();
    return reply.ok ? {} : send();
  });
  const { make, requests } = await startMadeUp(twice, () => json(500, {}));
  expect((await make()).outcome).toBe("unclear: HTTP 500");
  expect(requests()).toBe(1);
});

test("NaN in the reply to a start or a poll is null for a package, as for vidgen, and a video of megabytes in a reply is saved", async () => {
  const large = Buffer.from(tinyMp4("x".repeat(2_000_000)));
  const seen: unknown[] = [];
  const made = createPackage(
    async (send) => ({ operation: ((await (await send()).json()) as { id: string }).id }),
    async (fetch) => {
      const { psnr, name, video } = (await (await fetch("https://api.test/job")).json()) as Record<string, string>;
      seen.push(psnr, name);
      return { status: "completed", videos: [{ type: "base64", data: video, mediaType: "video/mp4" }] };
    },
  );
  const fields = `"psnr": [NaN, -Infinity], "name": "\\"NaN"`;
  const replies = [`{"id": "job1", ${fields}}`, `{${fields}, "video": "${large.toString("base64")}"}`];
  const { make, requests } = await startMadeUp(made, () => new Response(replies[Math.min(requests() - 1, 1)]));
  const { outcome, video: saved } = await make();
  expect([outcome, saved?.equals(large)]).toEqual(["made", true]);
  expect(seen.slice(0, 2)).toEqual([[null, null], '"NaN']);
});

test("a package that sends a start without the given fetch, and fails, leaves it unclear", async () => {
  const own = createPackage(async () => {
    throw Object.assign(new Error("Bad Gateway"), { name: "AI_APICallError" });
  });
  const { make } = await startMadeUp(own, () => json(200, {}));
  const { outcome, checkpoints } = await make();
  expect([outcome, checkpoints]).toEqual(["unclear: it was not sent through vidgen: Bad Gateway", ["submitting"]]);
});

test("a package that never settles is ended at the time limit, and its later requests are not sent", async () => {
  let sendLater: (() => Promise<Response>) | undefined;
  const silent = createPackage((send) => {
    sendLater = send;
    return new Promise(() => {});
  });
  const { make, clock, requests } = await startMadeUp(silent, () => json(200, {}));
  void clock.sleep(timeoutMs + 1_000);
  expect((await make()).outcome).toBe("made-up: no response within 30 min; nothing was submitted");
  await expect(sendLater?.()).rejects.toThrow("no response within 30 min");
  expect(requests()).toBe(0);
});

test("an unusable package fails a video before anything is sent, and the owner is told", async () => {
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

test("a package's warnings are shown to the owner, and a video in its reply is saved", async () => {
  const warnings = [{ type: "unsupported", feature: "fps", details: "The model has 24." }];
  const completed = { status: "completed", videos: [{ type: "binary", data: video, mediaType: "video/mp4" }] };
  const made = createPackage(
    (send) => send().then(() => ({ warnings })),
    () => completed,
  );
  const { make, notes } = await startMadeUp(made, () => json(200, {}));
  expect(await make()).toMatchObject({ outcome: "made", video: Buffer.from(video) });
  expect(notes).toEqual(["made-up warns: fps: The model has 24."]);
});

describe("an option", () => {
  /** Sends of a start what `bodyOf` reads of it. */
  async function startReading(bodyOf: (call: VideoCall) => unknown, extras: object, request: MakeOptions = {}) {
    const sent: unknown[] = [];
    const made: SdkPackage = {
      version: "1.0.0",
      openModel: (_, fetch) => ({
        provider: "made-up.video",
        async doStart(call) {
          const body = JSON.stringify(bodyOf(call));
          await fetch("https://api.test/start", { method: "POST", body });
          sent.push(JSON.parse(body));
          return { operation: "job1", warnings: [] };
        },
        doStatus: async () => ({ status: "completed", videos: [{ type: "binary", data: video }] }),
      }),
    };
    const { make, engine, requests } = await startMadeUp(made, () => json(200, {}));
    const { outcome, checkpoints } = await make({ resolution: "1080p", extras: extras as never, ...request });
    return { outcome, checkpoints, sent, engine, requests };
  }

  test.each([true, "true"])("that the package reads is an option of its call", async (audio) => {
    const { sent } = await startReading((call) => call, { generate_audio: audio, fps: "24", seed: "7", lora: {} });
    expect(sent).toMatchObject([
      { generateAudio: true, fps: 24, seed: 7, resolution: "1920x1080", providerOptions: { "made-up": { lora: {} } } },
    ]);
    expect(Object.keys((sent[0] as VideoCall).providerOptions["made-up"] ?? {})).toEqual(["lora"]);
  });

  test("that the package does not read is a provider option, whatever the package calls its provider", async () => {
    const asFal = ({ prompt, seed, providerOptions }: VideoCall) => ({
      prompt,
      ...(seed && { seed }),
      ...providerOptions.madeUp,
    });
    const { sent } = await startReading(asFal, { generate_audio: false, fps: 24, seed: 0 });
    expect(sent).toEqual([{ prompt: "a fox", resolution: "1080p", fps: 24, seed: 0, generate_audio: false }]);
  });

  test("that has no pixels, because the ratio is the model's choice, is sent by its name", async () => {
    const { engine, sent } = await startReading((call) => call, {}, { aspectRatio: "adaptive" });
    expect(
      await engine.findFault?.({ aspectRatio: "adaptive", resolution: "1080p", extras: {} } as never),
    ).toBeUndefined();
    expect(sent).toMatchObject([{ aspectRatio: "adaptive", providerOptions: { "made-up": { resolution: "1080p" } } }]);
    expect(sent[0]).not.toHaveProperty("resolution");
  });

  test("without which it would be another video is not paid for where the package drops it", async () => {
    const schema = z.object({ guidance_scale: z.number() });
    const strict = ({ resolution, providerOptions }: VideoCall) => [resolution, schema.parse(providerOptions.madeUp)];
    const { outcome, checkpoints, requests } = await startReading(strict, {
      guidance_scale: 4,
      lora: { name: "snow" },
    });
    expect(outcome).toBe("made-up ignores lora with this model; nothing was submitted");
    expect([checkpoints, requests()]).toEqual([["submitting", null], 0]);
    const { sent } = await startReading(strict, { guidance_scale: 4, negative_prompt: "rain" });
    expect(sent).toEqual([["1920x1080", { guidance_scale: 4 }]]);
  });

  test.each<[string, Record<string, number | string>, string]>([
    [
      "a seed of 64 bits",
      { seed: "18446744073709551615" },
      `of at most 9007199254740991 as seed, not 18446744073709551615`,
    ],
    ["a seed with a fraction", { seed: 1.5 }, "a whole number of at most 9007199254740991 as seed, not 1.5"],
    ["sound that is neither on nor off", { generate_audio: "loud" }, "takes true or false as generate_audio"],
  ])("%s, which would be changed on the way, is refused before anything is paid", async (_, extras, words) => {
    const { engine, outcome, requests } = await startReading((call) => call, extras);
    expect(await engine.findFault?.({ extras } as never)).toContain(words);
    expect([outcome, requests()]).toEqual([expect.stringContaining(`${words}; nothing was submitted`), 0]);
  });
});

describe("a last image and references", () => {
  const base64Of = (file: VideoFile | undefined) =>
    file?.type === "file" ? Buffer.from(file.data as Uint8Array).toString("base64") : undefined;

  /** Sends of a start what `bodyOf` takes of it. */
  async function startSending(bodyOf: (call: VideoCall) => object) {
    const sent: object[] = [];
    const completed = { status: "completed", videos: [{ type: "binary", data: video, mediaType: "video/mp4" }] };
    const made: SdkPackage = {
      version: "1.0.0",
      openModel: (_, fetch) => ({
        provider: "made-up.video",
        async doStart(call) {
          const body = JSON.stringify(bodyOf(call));
          await fetch("https://api.test/start", { method: "POST", body });
          sent.push(JSON.parse(body));
          return { operation: "job1", warnings: [] };
        },
        doStatus: async () => completed,
      }),
    };
    const started = await startMadeUp(made, () => json(200, {}));
    const image = async (pixels: string) => {
      const path = join(started.folder, `${pixels}.png`);
      await writeFile(path, pixels);
      return { path, format: "png" as const, megapixels: 1, name: pixels };
    };
    return { ...started, sent, images: await Promise.all(["first", "last"].map(image)) };
  }

  /** As @ai-sdk/google does. */
  const google = ({ image, frameImages = [], inputReferences = [] }: VideoCall) => {
    const find = (type: string) => frameImages.find(({ frameType }) => frameType === type)?.image;
    return {
      image: base64Of(find("first_frame") ?? image),
      lastFrame: base64Of(find("last_frame")),
      references: frameImages.length > 0 ? undefined : inputReferences.map(base64Of),
    };
  };
  const [first, last] = ["first", "last"].map((pixels) => Buffer.from(pixels).toString("base64"));

  test("a size in pixels reaches the package without a ratio", async () => {
    const { make, sent } = await startSending(({ resolution, aspectRatio }) => ({ resolution, aspectRatio }));
    expect(await make({ extras: { size: "640x384" } })).toMatchObject({ outcome: "made" });
    expect(sent).toEqual([{ resolution: "640x384" }]);
  });

  test("reach a package through its own options", async () => {
    const { make, sent, images } = await startSending(google);
    const [image, lastImage] = images as [ImageFile, ImageFile];
    expect(await make({ images: [image], lastImage })).toMatchObject({ outcome: "made" });
    expect(await make({ images: [image], lastImage: image })).toMatchObject({ outcome: "made" });
    expect(await make({ lastImage })).toMatchObject({ outcome: "made" });
    expect(await make({ references: [image, lastImage] })).toMatchObject({ outcome: "made" });
    expect(sent).toEqual([
      { image: first, lastFrame: last },
      { image: first, lastFrame: first },
      { lastFrame: last },
      { references: [first, last] },
    ]);
  });

  test.each<[string, (call: VideoCall) => object, "lastImage" | "references"]>([
    ["the last image", ({ image }) => ({ image: base64Of(image) }), "lastImage"],
    ["the references", ({ image, prompt }) => ({ image: base64Of(image), prompt }), "references"],
    ["the references", ({ inputReferences: [one] = [] }) => ({ reference: base64Of(one) }), "references"],
  ])("%s are not paid for where a package leaves them out of its request", async (what, bodyOf, role) => {
    const { make, images, requests } = await startSending(bodyOf);
    const [image, lastImage] = images as [ImageFile, ImageFile];
    const given = role === "lastImage" ? { images: [image], lastImage: image } : { references: [image, lastImage] };
    const { outcome, checkpoints } = await make(given);
    expect(outcome).toBe(`made-up ignores ${what} with this model; nothing was submitted`);
    expect([checkpoints, requests()]).toEqual([["submitting", null], 0]);
    expect(await make({ images: [image] })).toMatchObject({ outcome: "made" });
  });
});

/** As @ai-sdk/google 4.0 reads an operation of Veo: whatever is done and has no sample is an error that it throws. */
const google = createPackage(
  (send) => send(),
  async (fetch) => {
    const operation = (await (await fetch("https://api.test/operations/1")).json()) as GoogleOperation;
    if (!operation.done) return { status: "pending" };
    const url = operation.response?.generateVideoResponse?.generatedSamples?.[0]?.video.uri;
    if (url === undefined) throw new Error(`No videos in response. Response: ${JSON.stringify(operation)}`);
    return { status: "completed", videos: [{ type: "url", url, mediaType: "video/mp4" }] };
  },
);

type GoogleOperation = {
  done?: boolean;
  response?: { generateVideoResponse?: { generatedSamples?: { video: { uri: string } }[] } };
};

describe("a poll of Google", () => {
  const reason = "The prompt could not be used: it may violate the usage policies. Support codes: 58061214";
  const done = (response: object) => json(200, { name: "operations/1", done: true, response });

  test.each<[string, object, string]>([
    [
      "with the reason",
      { generateVideoResponse: { raiMediaFilteredCount: 1, raiMediaFilteredReasons: [reason] } },
      reason,
    ],
    ["without a reason", { generateVideoResponse: { raiMediaFilteredCount: 1 } }, "no reason was given"],
    ["as Vertex tells it", { raiMediaFilteredReasons: [reason], raiMediaFilteredCount: 1, videos: [] }, reason],
  ])("at a video that the filter has blocked fails at once, %s", async (_name, response, words) => {
    const { make } = await startMadeUp(google, () => done(response));
    const { outcome, seconds } = await make();
    expect([outcome, seconds]).toEqual([`the filter of made-up has blocked this video: ${words}`, 0]);
  });

  test("with a reply that the package cannot read keeps the job for a day, and shows the provider's message", async () => {
    const dayMs = 24 * 3_600_000;
    const clock = createVirtualClock();
    const sample = { video: { uri: "https://cdn.test/1.mp4" } };
    const answer = () => {
      // A short outage in between says no more about the video than it would have before.
      if (Math.abs(clock.now() - 0.5 * dayMs) < 60_000) throw refusedConnection();
      return done(
        clock.now() < 0.99 * dayMs ? { videos: [sample] } : { generateVideoResponse: { generatedSamples: [sample] } },
      );
    };
    const { make, notes, requests } = await startMadeUp(google, answer, { clock, open: openVideo });
    expect(await make()).toMatchObject({ outcome: "made", video: Buffer.from(video) });
    expect(notes).toEqual([
      expect.stringMatching(
        /^made-up answers about this video, but its reply could not be read: No videos in response\. .*"uri":"https:\/\/cdn\.test\/1\.mp4".*\. Retrying\.$/,
      ),
    ]);
    expect(requests()).toBeLessThan(24 * 60 * 2 + 50);
  });
});

/** As @ai-sdk/replicate reads a prediction: a list is an error that it throws. */
function replicate(output: () => unknown) {
  const made = createPackage(
    (send) => send(),
    async (fetch) => {
      await (await fetch("https://api.test/predictions/1")).json();
      throw new Error("Expected string");
    },
  );
  return startMadeUp(made, () => json(200, { status: "succeeded", output: output() }), { open: openVideo });
}

test("of several files of one job, the first with a video's extension is used", async () => {
  const { make, notes } = await replicate(() => ["https://cdn.test/thumb.png", "https://cdn.test/1.mp4"]);
  expect(await make()).toMatchObject({ outcome: "made", video: Buffer.from(video) });
  expect(notes).toEqual([]);
});

/** A package that cannot read a completed job without its video, and throws, or calls that an error of the video. */
const throwing = (words: string) => ({ throws: words });
const failing = (error: string) => ({ status: "error", error });

test.each<[string, object, object]>([
  [
    "Replicate's without output",
    { status: "succeeded", output: null, urls: { get: "https://api.test/1" } },
    throwing("Expected string"),
  ],
  ["Replicate's with an empty list", { status: "succeeded", output: [] }, throwing("Expected string")],
  ["fal's result, by an error", { video: null, seed: 7 }, failing("Invalid JSON response")],
  ["fal's result, by a throw", { video: { url: null } }, throwing("No video URL in response")],
  ["Black Forest Labs'", { id: "1", status: "Ready", result: null }, throwing("result is null")],
  ["Google's", { name: "operations/1", done: true }, throwing("No videos in response")],
  ["Google's with an empty response", { done: true, response: { generateVideoResponse: {} } }, throwing("No videos")],
  ["Alibaba's", { output: { task_status: "SUCCEEDED", video_url: "" } }, failing("no video")],
])("a completed job without a video, %s, is asked for a day, and is then not fetched", async (_, reply, told) => {
  const made = createPackage(
    (send) => send(),
    async (fetch) => {
      await (await fetch("https://api.test/jobs/1")).json();
      if ("throws" in told) throw new Error(String(told.throws));
      return told;
    },
  );
  const { make, requests } = await startMadeUp(made, () => json(200, reply));
  const freed: number[] = [];
  const { outcome, seconds } = await make({ releaseSlot: () => void freed.push(requests()) });
  const words =
    "made-up generated this video, but it could not be downloaded: it says that this video is ready, but not where it is";
  expect(outcome).toMatch(words);
  expect(outcome).toContain(JSON.stringify(reply).slice(0, 20));
  expect([Math.floor(seconds / 3_600), (freed[0] ?? 99) < 10]).toEqual([24, true]);
  // Every 20 s for an hour, and then every five minutes.
  expect(Math.abs(requests() - 180 - 23 * 12)).toBeLessThan(20);
});

test.each<[string, object]>([
  ["tells an error", { done: true, error: { message: "The service is overloaded" } }],
  ["goes on", { status: "processing", video: null }],
])("a reply that %s is no completed job", async (_, reply) => {
  const made = createPackage(
    (send) => send(),
    async (fetch) => {
      await (await fetch("https://api.test/jobs/1")).json();
      return failing("no");
    },
  );
  const { make } = await startMadeUp(made, () => json(200, reply));
  expect(await make()).toMatchObject({ outcome: "no" });
});
