import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { createAiSdkEngine } from "../../src/server/engines/ai-sdk/ai-sdk.ts";
import { loadPackage } from "../../src/server/engines/ai-sdk/package.ts";
import type { ImageFile } from "../../src/server/engines/engine.ts";
import { createVirtualClock } from "../clock.ts";
import {
  createFal,
  createReplicate,
  openVideo,
  type ProviderOptions,
  video,
} from "../server/engines/ai-sdk/providers.ts";
import { ioFetch, json, refusedConnection } from "../server/engines/videos/fakes/fake.ts";
import { createTestEngine, timeoutMs } from "../server/engines/videos/run.ts";

// The packages themselves, as npm has them, against fakes of their providers.

const key = "canary-0123456789";

const providers = {
  "@ai-sdk/fal": {
    create: createFal,
    model: "fal-ai/kling-video/v2.6/pro/text-to-video",
    variable: "FAL_KEY",
    operation: {
      responseUrl: "https://queue.fal.run/fal-ai/kling-video/requests/job1",
      submitUrl: "https://queue.fal.run/fal-ai/kling-video/v2.6/pro/text-to-video",
    },
  },
  "@ai-sdk/replicate": {
    create: createReplicate,
    model: "kwaivgi/kling-v2.6",
    variable: "REPLICATE_API_TOKEN",
    operation: { getUrl: "https://api.replicate.com/v1/predictions/job1" },
  },
};
type PackageName = keyof typeof providers;
const names = Object.keys(providers) as PackageName[];

beforeEach(() => {
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv("FAL_API_KEY", undefined);
  for (const { variable } of Object.values(providers)) vi.stubEnv(variable, key);
});

type Settings = Partial<ProviderOptions> & {
  packageName?: PackageName;
  isList?: boolean;
  /** Answers on other hosts than the provider's. */
  elsewhere?: (request: Request) => Response | undefined;
};

async function start({ packageName = "@ai-sdk/fal", elsewhere, ...options }: Settings = {}) {
  const clock = createVirtualClock();
  const { create, model } = providers[packageName];
  const fake = create({ now: clock.now, key, ...options });
  const opened: string[] = [];
  const fetch = async (request: Request) => elsewhere?.(request) ?? fake.fetch(request);
  const engine = await createTestEngine(ioFetch({ fetch }), {
    clock,
    open: async (url) => {
      opened.push(url);
      return openVideo(url);
    },
    create: (io, onNote) =>
      createAiSdkEngine(
        { packageName, upstreamModel: model, timeoutMs, onNote, models: ["wan-2.5"], concurrency: 16 },
        io,
        (name) => loadPackage(name, [import.meta.url]),
      ),
  });
  return { ...engine, fake, opened };
}

describe.each(names)("%s", (packageName) => {
  const { operation, variable } = providers[packageName];

  test("which has no option for a last image is not paid for one", async () => {
    const { make, fake, folder } = await start({ packageName });
    const path = join(folder, "last.png");
    await writeFile(path, "pixels");
    const lastImage: ImageFile = { path, format: "png", megapixels: 1, name: "the image" };
    const { outcome, checkpoints } = await make({ lastImage });
    expect(outcome).toBe(`${packageName} ignores the last image with this model; nothing was submitted`);
    expect([checkpoints, fake.creates]).toEqual([["submitting", null], []]);
  });

  test("starts a video once, keeps its operation, and saves what was made", async () => {
    const { make, fake, notes } = await start({ packageName });
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const made = await make({ prompt: "a fox", extras: { seed: 7, guidance_scale: 3 }, traceparent });
    expect(made).toMatchObject({ outcome: "made", video: Buffer.from(video) });
    expect(made.seconds).toBeGreaterThanOrEqual(60);
    expect(made.checkpoints).toEqual(["submitting", JSON.stringify(operation)]);
    expect(fake.creates).toMatchObject([
      { input: { prompt: "a fox", aspect_ratio: "16:9", seed: 7, guidance_scale: 3 } },
    ]);
    expect(fake.creates[0]?.headers.get("traceparent")).toBe(traceparent);
    expect(notes).toEqual([]);
  });

  test("gets every option, also those that it does not read, and a seed of 0", async () => {
    const { make, fake } = await start({ packageName });
    const extras = { seed: 0, fps: 24, generate_audio: true };
    expect((await make({ resolution: "1080p", extras })).outcome).toBe("made");
    const resolution = packageName === "@ai-sdk/fal" ? { resolution: "1080p" } : { size: "1920x1080" };
    expect(fake.creates).toMatchObject([{ input: { ...extras, ...resolution } }]);
  });

  test("continues with an operation that an earlier process kept", async () => {
    const { make, fake } = await start({ packageName });
    fake.jobs.set("job1", { input: {}, createdAt: 0 });
    const { outcome, checkpoints } = await make({ resume: { state: "submitted", job: JSON.stringify(operation) } });
    expect([outcome, checkpoints, fake.creates]).toEqual(["made", [], []]);
  });

  test("takes an image as a file", async () => {
    const { make, fake, folder } = await start({ packageName });
    const image: ImageFile = { path: join(folder, "0.png"), format: "png", megapixels: 1, name: "the image" };
    await writeFile(image.path, "pixels");
    expect((await make({ images: [image] })).outcome).toBe("made");
    expect(JSON.stringify(fake.creates[0]?.input)).toContain(
      `data:image/png;base64,${Buffer.from("pixels").toString("base64")}`,
    );
  });

  test("leaves to the model what the start left open", async () => {
    const { make, fake } = await start({ packageName });
    await make({ unset: ["aspectRatio", "resolution", "duration"] });
    expect(fake.creates.map(({ input }) => input)).toEqual([{ prompt: "a fox" }]);
  });

  test("says which key it misses, and that nothing was submitted", async () => {
    vi.stubEnv(variable, undefined);
    const { make, engine, fake } = await start({ packageName });
    await expect(engine.check(new AbortController().signal)).rejects.toMatchObject({
      code: "auth",
      message: expect.stringMatching(new RegExp(`^has no key: .*${variable} is not set$`)),
      hint: `export ${variable}=...`,
    });
    const { outcome, checkpoints } = await make();
    expect(outcome).toMatch(/^@ai-sdk\/\w+: .*API key is missing.*variable; nothing was submitted$/);
    expect([checkpoints, fake.creates]).toEqual([["submitting", null], []]);
  });

  test("is told to its owner with its version, for which nothing is sent", async () => {
    const { engine } = await start({ packageName, fault: () => Promise.reject(new Error("sent")) });
    expect(await engine.check(new AbortController().signal)).toMatch(/^AI SDK 3\.\d+\.\d+$/);
  });

  test("an operation that the provider no longer knows is lost after a minute", async () => {
    const { make, fake, clock } = await start({ packageName });
    const { outcome, seconds } = await make({ resume: { state: "submitted", job: JSON.stringify(operation) } });
    expect(outcome).toMatch(/^@ai-sdk\/\w+ no longer knows this video's job \(HTTP 404: Not found\)/);
    expect([seconds >= 60, seconds < 90, clock.now() > 0, fake.creates]).toEqual([true, true, true, []]);
  });
});

describe("a start", () => {
  const refuse = () => Promise.reject(refusedConnection());

  test.each<[string, NonNullable<ProviderOptions["fault"]>]>([
    ["a refused connection", refuse],
    ["an HTTP 401", () => json(401, { detail: "Authentication is required." })],
    ["an HTTP 429", () => json(429, { detail: "Too many requests" })],
    ["an HTTP 503", () => json(503, { detail: "try later" })],
  ])("is not taken for %s", async (_name, fault) => {
    const { make, fake } = await start({ fault });
    const { outcome, checkpoints, seconds } = await make();
    expect(outcome).toMatch(/^not submitted: ./);
    expect([checkpoints, fake.creates, seconds]).toEqual([["submitting", null], [], 0]);
  });

  test.each<[string, NonNullable<ProviderOptions["fault"]>]>([
    ["a reset", () => "drop"],
    ["a reset after the provider has taken it", ({ serve }) => serve().then(() => "drop" as const)],
    ["an HTTP 408", () => json(408, {})],
    ["an HTTP 500", () => json(500, {})],
    ["a 502 with a page", () => new Response("<h1>Bad Gateway</h1>", { status: 502 })],
    ["a redirect", () => new Response(null, { status: 307, headers: { Location: "https://elsewhere.test/" } })],
    ["a 200 without an operation", () => json(200, { status: "IN_QUEUE" })],
    ["a 200 with a page", () => new Response("<h1>Hello</h1>")],
  ])("is unclear after %s, and not sent again", async (_name, fault) => {
    let posts = 0;
    const { make } = await start({ fault: (call) => fault(call, ++posts) });
    const { outcome, checkpoints } = await make();
    expect(outcome).toMatch(/^unclear: ./);
    expect([checkpoints, posts]).toEqual([["submitting"], 1]);
  });

  test("that the provider refuses fails with the provider's words", async () => {
    const detail = [{ loc: ["body", "duration"], msg: "unexpected value; permitted: '5', '10'", type: "value_error" }];
    const { make } = await start({ fault: () => json(422, { detail }) });
    const { outcome, checkpoints } = await make();
    expect(outcome).toBe("@ai-sdk/fal refused the request: HTTP 422: duration: unexpected value; permitted: '5', '10'");
    expect(checkpoints).toEqual(["submitting", null]);
  });

  test("without credits there says so", async () => {
    const detail = "You have insufficient credit to run this model.";
    const { make } = await start({
      packageName: "@ai-sdk/replicate",
      fault: () => json(402, { title: "Insufficient credit", detail, status: 402 }),
    });
    const { outcome, checkpoints } = await make();
    expect(outcome).toBe(
      `@ai-sdk/replicate has no credits left for this video: HTTP 402: ${detail}; nothing was submitted`,
    );
    expect(checkpoints).toEqual(["submitting", null]);
  });

  test("carries one key, which no message repeats", async () => {
    const { make, fake } = await start();
    await make();
    expect(fake.creates[0]?.headers.get("Authorization")).toBe(`Key ${key}`);
    const { make: refused, notes } = await start({ fault: () => json(400, { detail: `The key ${key} is wrong` }) });
    const { outcome } = await refused();
    expect(outcome).toBe("@ai-sdk/fal refused the request: HTTP 400: The key [key] is wrong");
    expect(notes.join()).not.toContain(key);
  });
});

test.each(names)("a key for %s that no header can hold is in no message", async (packageName) => {
  vi.stubEnv(providers[packageName].variable, "canary\n0123456789");
  const { make, notes, fake } = await start({ packageName });
  const job = JSON.stringify(providers[packageName].operation);
  const outcomes = [(await make()).outcome, (await make({ resume: { state: "submitted", job } })).outcome];
  expect(outcomes[0]).toMatch(/the key cannot be sent in a header.*; nothing was submitted$/);
  expect([...outcomes, ...notes].join()).not.toContain("canary");
  expect(fake.creates).toEqual([]);
});

test.each(names)("the key for %s goes to no other host that a reply names", async (packageName) => {
  const url = "https://elsewhere.test/requests/job1";
  const seen: (string | null)[] = [];
  const { make } = await start({
    packageName,
    elsewhere(request) {
      if (!request.url.startsWith("https://elsewhere.test/")) return undefined;
      seen.push(request.headers.get("Authorization"));
      return json(404, { detail: "Not found" });
    },
    fault: ({ route }) =>
      route === "create"
        ? json(201, { id: "job1", status: "starting", request_id: "job1", response_url: url, urls: { get: url } })
        : undefined,
  });
  const { outcome } = await make();
  expect(outcome).not.toBe("made");
  expect(seen.length).toBeGreaterThan(0);
  expect(seen.filter((authorization) => authorization !== null)).toEqual([]);
});

describe("a look", () => {
  test("at an HTTP 502, which the package tells as the end, is one of many", async () => {
    const fault: ProviderOptions["fault"] = ({ route }, count) =>
      route === "poll" && count <= 12 ? json(502, { detail: "Bad gateway" }) : undefined;
    for (const packageName of names) {
      const { make, fake } = await start({ packageName, fault });
      expect(await make()).toMatchObject({ outcome: "made", video: Buffer.from(video) });
      expect(fake.creates).toHaveLength(1);
    }
  });

  test.each([
    ["a page with a 200", names, () => new Response("<h1>Back soon</h1>")],
    ["a page with a 400", names, () => new Response("<h1>Bad Request</h1>", { status: 400 })],
    ["a reply that the package cannot read", ["@ai-sdk/replicate"] as const, () => json(200, [])],
  ])("that gets %s for minutes is one of many", async (_name, packageNames, answer) => {
    const fault: ProviderOptions["fault"] = ({ route }, count) =>
      route === "poll" && count <= 8 ? answer() : undefined;
    for (const packageName of packageNames) {
      const { make } = await start({ packageName, fault });
      expect(await make()).toMatchObject({ outcome: "made", seconds: expect.toSatisfy((seconds) => seconds > 120) });
    }
  });

  test("at a 4xx or an error that does not repeat is one of many", async () => {
    for (const packageName of names) {
      const { make } = await start({
        packageName,
        fault: ({ route }, count) =>
          route === "poll" && count % 2 === 1 ? json(422, { detail: "not now" }) : undefined,
      });
      expect((await make()).outcome).toBe("made");
    }
  });

  test.each(names)("of %s at a video that failed says why, once it is certain", async (packageName) => {
    const { make, fake } = await start({
      packageName,
      fault: ({ route }) => {
        if (route === "poll") for (const job of fake.jobs.values()) job.failure = "The prompt is not allowed";
        return undefined;
      },
    });
    const { outcome, seconds } = await make();
    expect(outcome).toContain("The prompt is not allowed");
    expect(seconds).toBeLessThan(90);
  });

  test("that is limited says nothing about the video", async () => {
    const { make } = await start({
      fault: ({ route }, count) => (route === "poll" && count < 9 ? json(429, { detail: "slow down" }) : undefined),
    });
    expect((await make()).outcome).toBe("made");
  });

  test("at a list of addresses, which the package cannot read, finds the video", async () => {
    const { make, opened } = await start({ packageName: "@ai-sdk/replicate", isList: true });
    expect(await make()).toMatchObject({ outcome: "made", video: Buffer.from(video) });
    expect(opened).toEqual(["https://cdn.test/job1.mp4"]);
  });
});

test("a start that gets no reply is unclear, after its time limit and in words", async () => {
  const { make, clock } = await start({ fault: () => new Promise(() => {}) });
  void clock.sleep(timeoutMs + 1_000);
  const { outcome, checkpoints } = await make();
  expect([outcome, checkpoints]).toEqual(["unclear: no response within 30 min", ["submitting"]]);
});
