import { describe, expect, test } from "vitest";
import { models } from "../../../src/protocol/models.ts";
import { createEngines } from "../../../src/server/engines/engines.ts";
import { createVirtualClock } from "../../clock.ts";
import { ioFetch } from "./videos/fakes/fake.ts";
import { createSglang } from "./videos/fakes/sglang.ts";

function read(engines: string[], keys: Record<string, string> = {}) {
  const settings = {
    engines,
    readKey: (name: string) => keys[name],
    timeoutMs: 60_000,
    jobs: undefined,
    onNote: () => {},
  };
  return createEngines(settings, { ...createVirtualClock(), fetch: () => Promise.reject(new Error("unused")) });
}

const known = models.map(({ id }) => id);

test("without an engine, the preview serves every model", () => {
  expect(read([])).toMatchObject([{ name: "preview", isSimulation: true, models: known }]);
});

test.each([
  ["http://gpu-1:8091", "http://gpu-1:8091"],
  ["http://gpu-1:8091/", "http://gpu-1:8091"],
  ["HTTP://GPU-1:80", "http://gpu-1"],
  ["https://gpus.test/v1", "https://gpus.test"],
  ["https://gpus.test/wan/v1/videos/", "https://gpus.test/wan"],
  ["https://gpus.test/v1x", "https://gpus.test/v1x"],
  ["http://[::1]:8091#Wan-AI/Wan2.2-T2V-A14B", "http://[::1]:8091"],
])("%s is the server %s", (text, name) => {
  expect(read([`wan-2.5=${text}`])).toMatchObject([
    { name, isSimulation: false, models: ["wan-2.5"], concurrency: 16 },
  ]);
  expect(read([text])).toMatchObject([{ name }]);
});

test("an engine without a model serves the models that no other engine names, even if it comes first", () => {
  const [others, wan, own] = read(["http://gpu-1", "wan-2.5=http://gpu-2", "our-own=preview"]);
  expect(others?.models).toContain("ray-3");
  expect(others?.models).not.toContain("wan-2.5");
  expect([wan?.models, own?.models, own?.isSimulation]).toEqual([["wan-2.5"], ["our-own"], true]);
});

test("a FastVideo engine makes one video at a time by default", async () => {
  expect(read(["wan-2.5=fastvideo:http://gpu-1", "wan-2.5=sglang:http://gpu-2"])).toMatchObject([
    { concurrency: 1 },
    { concurrency: 16 },
  ]);
});

test("two engines may serve one model", () => {
  expect(read(["wan-2.5=http://gpu-1", "wan-2.5=http://gpu-2"])).toMatchObject([
    { name: "http://gpu-1", models: ["wan-2.5"] },
    { name: "http://gpu-2", models: ["wan-2.5"] },
  ]);
});

describe("an invalid --engine", () => {
  test.each([
    "",
    "gpu-1",
    "gpu-1:8091",
    "wan-2.5=",
    "=http://gpu-1",
    "ftp://gpu-1",
    "http://",
    "wan-2.5=previews",
    "vllm-omni:gpu-1",
  ])('"%s"', (text) => {
    expect(() => read([text])).toThrow(`Invalid engine: --engine "${text}".`);
  });

  test.each([
    ["fal", /^With the key in FAL_KEY: npm install @ai-sdk\/fal@latest, and --engine "veo-3\.1=ai-sdk:@ai-sdk\/fal#/],
    ["veo", /^With the key in OPENROUTER_API_KEY: -m veo-3\.1 --engine openrouter\n/],
    ["bytedance", /: -m seedance --engine openrouter\n/],
  ])("the name of a provider, a model or its maker, %s, gets the line to type", (text, hint) => {
    expect(() => read([text])).toThrow(expect.objectContaining({ hint: expect.stringMatching(hint) }));
  });

  test.each(["http://me:secret@gpu-1", "wan-2.5=http://gpu-1?key=secret"])(
    "%s, and its secret is not repeated",
    (text) => {
      expect(() => read([text])).toThrow(/^--engine takes a URL without a user name, a password or a query\.$/);
    },
  );
});

test("several images need a named kind that supports them, because a detected kind is known only later", () => {
  const engines = read(["kling-1.6-elements=vllm-omni:http://gpu-1", "http://gpu-2", "ray-3=sglang:http://gpu-3"]);
  expect(engines.map(({ maxImages }) => maxImages)).toEqual([12, 1, 1]);
  expect(engines[1]?.models).not.toContain("kling-1.6-elements");
  expect(read(["vllm-omni:http://gpu-1"])[0]?.models).toContain("kling-1.6-elements");
});

describe("a package of the AI SDK", () => {
  const spec = "kling-2.6=ai-sdk:@ai-sdk/fal#fal-ai/kling-video/v2.6/pro/text-to-video";

  test("serves only its named model", () => {
    const [sdk, others] = read([spec, "preview"]);
    expect(sdk).toMatchObject({
      name: "@ai-sdk/fal",
      upstreamModel: "fal-ai/kling-video/v2.6/pro/text-to-video",
      models: ["kling-2.6"],
      isSimulation: false,
    });
    expect(others?.models).not.toContain("kling-2.6");
    expect(read([spec, "kling-2.6=ai-sdk:@ai-sdk/fal#another"])).toHaveLength(2);
    expect(() => read([spec, spec])).toThrow("--engine names @ai-sdk/fal for kling-2.6 twice.");
  });

  test.each([
    "ai-sdk",
    "ai-sdk:@ai-sdk/fal",
    "ai-sdk:@ai-sdk/fal#a-model",
    "kling-2.6=ai-sdk:@ai-sdk/fal",
    "kling-2.6=ai-sdk:#a-model",
    "kling-2.6=ai-sdk:./fal#a-model",
    "kling-2.6=ai-sdk:../fal#a-model",
    "kling-2.6=ai-sdk:/tmp/fal#a-model",
    "kling-2.6=ai-sdk:@ai-sdk/../fal#a-model",
    "kling-2.6=ai-sdk:@ai-sdk/fal/dist/index.js#a-model",
    "kling-2.6=ai-sdk:file:///tmp/fal#a-model",
    "kling-2.6=ai-sdk:https://elsewhere.test/fal#a-model",
  ])("is named whole, with both models, and never by a path: %s", (text) => {
    expect(() => read([text])).toThrow(
      expect.objectContaining({
        message: `Invalid engine: --engine "${text}".`,
        hint: expect.stringContaining("Write model=ai-sdk:package#"),
      }),
    );
  });

  test("cannot serve a model that needs several images", () => {
    expect(() => read(["kling-1.6-elements=ai-sdk:@ai-sdk/fal#x"])).toThrow(/it needs 2 to 4 images/);
  });
});

test("an --engine for which the others leave no model is a usage error", () => {
  const all = models.map(({ id }) => `${id}=preview`);
  expect(() => read([...all, "http://gpu-1"])).toThrow(
    "--engine http://gpu-1 has no model left: the other engines serve all of them.",
  );
});

test.each([
  ["named, and not asked for", "sglang:http://gpu-1", "json"],
  ["named in capitals", "vLLM-Omni:http://gpu-1", "multipart"],
])("the kind is %s, and the upstream model goes along", async (_name, place, encoding) => {
  const stop = new AbortController();
  const { creates, fetch } = createSglang({
    fault({ route }) {
      if (route !== "create") throw new Error("asked for its kind");
      stop.abort(new Error("seen"));
      return undefined;
    },
  });
  const settings = { readKey: () => undefined, timeoutMs: 60_000, jobs: undefined, onNote: () => {} };
  const engines = [`wan-2.5=${place}#Wan-AI/Wan2.2`, "ray-3=http://gpu-2"];
  const io = { ...createVirtualClock(), fetch: ioFetch({ fetch }) };
  const [engine] = createEngines({ ...settings, engines }, io);
  const request = {
    prompt: "a fox",
    model: "wan-2.5",
    aspectRatio: "16:9",
    duration: 5,
    resolution: "720p" as const,
    extras: {},
  };
  const options = {
    resume: undefined,
    checkpoint: async () => {},
    confirm() {},
    progress: () => {},
    signal: stop.signal,
  };
  await engine?.render({ id: "1", request, images: [], file: "none", thumbnail: "none" }, options).catch(() => {});
  expect(creates).toMatchObject([{ encoding, fields: { model: "Wan-AI/Wan2.2" } }]);
});
