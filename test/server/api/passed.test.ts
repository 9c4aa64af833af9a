import { describe, expect, test } from "vitest";
import type { Clock } from "../../../src/io.ts";
import { createAiSdkEngine } from "../../../src/server/engines/ai-sdk/ai-sdk.ts";
import type { VideoCall } from "../../../src/server/engines/ai-sdk/video-model.ts";
import { createComfyUiEngine } from "../../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../../src/server/engines/comfyui/workflow.ts";
import type { Engine, Passes } from "../../../src/server/engines/engine.ts";
import { kinds } from "../../../src/server/engines/videos/kinds.ts";
import { createVideosEngine } from "../../../src/server/engines/videos/videos.ts";
import { createComfyUi } from "../engines/comfyui/fake.ts";
import { workflow, writeWorkflow } from "../engines/comfyui/run.ts";
import { type FakeOptions, ioFetch } from "../engines/videos/fakes/fake.ts";
import { engineUrl, fakes, kindIds, timeoutMs } from "../engines/videos/run.ts";
import { aPng } from "../queue/pictures.ts";
import {
  apiKey,
  baseUrl,
  bearer,
  createTestService,
  fakeEngine,
  otherKey,
  readError,
  type TestService,
} from "../service.ts";

// Each way in, with fields that vidgen does not know, against each kind of engine: a field arrives there, or the start is refused before it is charged.

/** An engine over its fake, and the values that arrived there, by name. */
type Scene = { engine: Engine; arrived(): Record<string, unknown>[] };

const common = {
  models: ["sora-2"],
  concurrency: 1,
  timeoutMs,
  onNote: () => {},
  key: undefined,
  upstreamModel: "sora-2",
};
const open = () => Promise.reject(new Error("unused"));

function createVideos(
  id: (typeof kindIds)[number],
  model = "google/veo-3.1",
  fault: FakeOptions["fault"] = () => undefined,
): (clock: Clock) => Scene {
  return (clock) => {
    const fake = fakes[id]({ now: clock.now, fault });
    const kind = kinds.find((each) => each.id === id);
    const upstreamModel = { openrouter: model, litellm: "wan-2.5" }[id as string];
    const options = { ...common, url: engineUrl, kind, upstreamModel };
    const engine = createVideosEngine(options, { ...clock, fetch: ioFetch(fake), open });
    return { engine, arrived: () => fake.creates.map(({ fields }) => fields) };
  };
}

const scenes: Record<string, (clock: Clock) => Scene> = {
  preview: (clock) => {
    const tasks: Record<string, unknown>[] = [];
    const render: Engine["render"] = async (task, { signal }) => {
      tasks.push(task.request.extras);
      await clock.sleep(1_000, signal);
      throw new Error("no video");
    };
    return { engine: fakeEngine({ name: "preview", render }), arrived: () => tasks };
  },
  comfyui: (clock) => {
    const fake = createComfyUi({ now: clock.now });
    const inputs = {
      multi_prompt: "{{multi_prompt=none}}",
      n: "{{n=1}}",
      path: "{{model_path=a}}",
      style: "a {{style=plain}} film",
      width: "{{width=640}}",
      height: "{{height=480}}",
    };
    const read = readWorkflow(writeWorkflow(workflow(inputs)), ["sora-2"]);
    const options = {
      ...common,
      url: engineUrl,
      upstreamModel: "wan.json",
      runningPatienceMs: timeoutMs,
      workflow: read,
    };
    const engine = createComfyUiEngine(options, { ...clock, fetch: ioFetch(fake), open });
    return { engine, arrived: () => fake.runs.map(({ graph }) => graph["6"]?.inputs ?? {}) };
  },
  "ai-sdk": (clock) => {
    const calls: Record<string, unknown>[] = [];
    const model = {
      provider: "made-up.video",
      async doStart(call: VideoCall) {
        calls.push({ ...call.providerOptions["made-up"], size: call.resolution });
        return { operation: {}, warnings: [] };
      },
      doStatus: async () => ({ status: "pending" }),
    };
    const sdk = { version: "1.0.0", openModel: () => model as never };
    const engine = createAiSdkEngine(
      { ...common, packageName: "made-up" },
      { ...clock, fetch: open, open },
      async () => sdk,
    );
    return { engine, arrived: () => calls };
  },
  ...Object.fromEntries(kindIds.map((id) => [id, createVideos(id)])),
};

type Way = (service: TestService, fields: object, key?: string) => Promise<Response>;

const post = (path: string, body: string | FormData, headers = {}, key = apiKey) =>
  new Request(baseUrl + path, { method: "POST", headers: { ...bearer(key), ...headers }, body });
const prompt = "a fox";
const asJson = { "Content-Type": "application/json" };
const generate: Way = (service, fields, key) =>
  service.api(post("/api/generate", JSON.stringify({ prompt, model: "sora-2", ...fields }), asJson, key));
const ways: Record<string, Way> = {
  "/api/generate": generate,
  "/v1/videos": (service, fields, key) =>
    service.api(post("/v1/videos", JSON.stringify({ prompt, model: "sora-2", ...fields }), asJson, key)),
  "a form": (service, fields, key) => {
    const form = new FormData();
    for (const [name, value] of Object.entries({ prompt, model: "sora-2", ...fields }))
      form.append(name, typeof value === "object" ? JSON.stringify(value) : String(value));
    return service.api(post("/v1/videos", form, {}, key));
  },
};

async function start(createScene: (clock: Clock) => Scene, way: Way, fields: object) {
  let scene: Scene | undefined;
  const service = await createTestService({
    engines(clock) {
      scene = createScene(clock);
      return [scene.engine];
    },
  });
  const response = await way(service, fields);
  const { status } = response;
  if (status === 200) await service.clock.sleep(5_000);
  const isCharged = (await service.store.balance("local")) !== 1_000;
  return {
    status,
    error: status === 200 ? undefined : await readError(response),
    isCharged,
    arrived: scene?.arrived()[0],
    scene,
    response,
  };
}

const multi_prompt = [{ text: "one" }, { text: "two" }];
const takesAll = ["preview", "comfyui", "tensorrt-llm"];

describe.each(Object.entries(scenes))("%s", (kind, scene) => {
  test.each(Object.entries(ways))("gets an unknown field by %s, or nothing is charged", async (_, way) => {
    const { status, error, isCharged, arrived } = await start(scene, way, { multi_prompt });
    if (takesAll.includes(kind)) {
      const value = arrived?.multi_prompt;
      expect([status, typeof value === "string" ? JSON.parse(value) : value]).toEqual([200, multi_prompt]);
    } else {
      expect([status, error?.code, isCharged, arrived]).toEqual([400, "invalid_multi_prompt", false, undefined]);
      expect(error?.message).toMatch(/ takes no multi_prompt.*; nothing was charged$/);
    }
  });

  test.each(Object.entries(ways))(
    "gets no misspelt field by %s, but the refusal names the right one",
    async (_, way) => {
      const { status, error, isCharged, arrived } = await start(scene, way, { guidence_scale: 4 });
      if (kind === "preview" || kind === "tensorrt-llm")
        expect([status, String(arrived?.guidence_scale)]).toEqual([200, "4"]);
      else {
        expect([status, isCharged, arrived]).toEqual([400, false, undefined]);
        expect(error?.message).toContain("; did you mean guidance_scale?");
      }
    },
  );

  test.each(
    Object.entries(ways).flatMap(([name, way]) =>
      ["callbackUrl", "Aspect_Ratio", "image", "guidanceScale"].map((field) => [field, name, way] as const),
    ),
  )("gets no %s by %s: it is another spelling of a field", async (field, _, way) => {
    const { status, error, isCharged } = await start(scene, way, { [field]: "x" });
    expect([status, error?.code, isCharged]).toEqual([400, `invalid_${field}`, false]);
    expect(error?.message).toMatch(new RegExp(`^${field} is no field: send \\w+; nothing was charged$`));
  });

  test.each(Object.entries(ways).slice(0, 2))("takes null by %s as no value", async (_, way) => {
    const { status, arrived } = await start(scene, way, { multi_prompt: null, webhook: null, seed: null });
    expect([status, arrived && Object.hasOwn(arrived, "webhook")]).toEqual([200, false]);
  });

  test.each([
    ...["samples", "batchSize", "image_count", "num_outputs_per_prompt", "numberOfVideos", "sampleCount"].map(
      (name) => [name, 2],
    ),
    ...["webhook_url", "callbackURLs", "notify", "api_key", "baseUrl", "headers", "extra_headers", "num_retries"].map(
      (name) => [name, "x"],
    ),
    ...["fallbacks", "timeout", "stream", "response_format", "save_output", "output", "lora_path"].map((name) => [
      name,
      "x",
    ]),
    ["elements", [{ n: 2 }]],
    ["elements", '{"webhook":"x"}'],
  ] as [string, unknown][])("does not get %s=%j", async (name, value) => {
    const { status, isCharged, arrived } = await start(scene, generate, { [name]: value });
    if (kind === "preview") expect([status, arrived]).toEqual([200, { [name]: value }]);
    else expect([status, isCharged, arrived]).toEqual([400, false, undefined]);
  });

  test("does not get counts of 1, which are no reason to refuse", async () => {
    const counts: Record<string, unknown> = kind === "comfyui" ? { n: 1 } : { n: 1, num_videos: "1" };
    const { status, arrived = {} } = await start(scene, generate, counts);
    const left = Object.fromEntries(Object.entries(arrived).filter(([name]) => name in counts));
    expect([status, left]).toEqual([200, kind === "preview" || kind === "comfyui" ? counts : {}]);
  });
});

test.each(["seconds", "input_reference", "image_reference", "format", "width"])(
  "%s, which vidgen writes itself, is refused",
  async (name) => {
    const { status, isCharged, arrived } = await start(createVideos("tensorrt-llm"), generate, { [name]: "x" });
    expect([status, isCharged, arrived]).toEqual([400, false, undefined]);
  },
);

test.each(kindIds)(
  "what OpenAI's clients send without effect is no reason to refuse, and does not reach %s",
  async (kind) => {
    const fields = { user: "u-1", metadata: { shot: "3" }, n: 1 };
    const { status, arrived = {} } = await start(createVideos(kind), ways["/v1/videos"] as Way, fields);
    expect([status, Object.keys(arrived).filter((name) => name in fields)]).toEqual([200, []]);
  },
);

test("a package of the AI SDK, which takes seeds as numbers, gets no seed that a number cannot hold", async () => {
  const { status, isCharged, arrived } = await start(scenes["ai-sdk"] as never, generate, { seed: "9007199254740993" });
  expect([status, isCharged, arrived]).toEqual([400, false, undefined]);
});

describe("the fields of a kind's list", () => {
  const fields = {
    enable_teacache: true,
    enable_upscaling: true,
    upscaling_scale: 2,
    output_quality: "high",
    output_compression: 90,
  };
  const imageUrl = `data:image/png;base64,${Buffer.from(aPng(2, 2)).toString("base64")}`;

  test.each([{}, { imageUrl }])("reach SGLang in JSON and beside a file, %j", async (image) => {
    const { scene } = await start(createVideos("sglang"), generate, { ...fields, ...image });
    const sent =
      "imageUrl" in image
        ? Object.entries(fields).map(([name, value]) => [name, String(value)])
        : Object.entries(fields);
    // The file is read from the disk.
    await expect.poll(() => scene?.arrived()).toMatchObject([Object.fromEntries(sent)]);
  });

  test.each([
    ["fastvideo", { enable_teacache: true }, 200],
    ["fastvideo", { enable_upscaling: true }, 400],
    ["sglang", { diffusers_kwargs: { a: 1 } }, 400],
    ["sglang", { upscaling_model_path: "/a" }, 400],
    ["vllm-omni", { enable_teacache: true }, 400],
    ["litellm", { enable_teacache: true }, 400],
  ] as const)("are those that %s reads: %j", async (kind, passed, expected) => {
    const { status, isCharged } = await start(createVideos(kind), generate, passed);
    expect([status, isCharged]).toEqual([expected, expected === 200]);
  });

  test.each([
    ["sglang", { lora: { name: "snow" } }, "SGLang ignores lora"],
    ["vllm-omni", { generate_audio: true }, "vLLM-Omni ignores generate_audio"],
    ["fastvideo", { flow_shift: 3 }, undefined],
  ] as const)(
    "of %s that it drops, %j, are refused if the video would be another one",
    async (kind, dropped, fault) => {
      const { status, error, isCharged } = await start(createVideos(kind), generate, dropped);
      expect([status, error?.message, isCharged]).toEqual(
        fault === undefined ? [200, undefined, true] : [400, `sora-2: ${fault}`, false],
      );
    },
  );
});

describe("a resolution or a ratio", () => {
  const listed = createVideos("openrouter", "bytedance/seedance-2.0-fast");
  const servers = kindIds.filter((kind) => kind !== "openrouter");

  test.each([
    [{ resolution: "4k" }, { resolution: "4K" }],
    [{ resolution: "2160p" }, { resolution: "4K" }],
    [{ resolution: "768P" }, { resolution: "768p" }],
    [{ aspectRatio: "21:9" }, { aspect_ratio: "21:9" }],
    [
      { aspectRatio: "adaptive", resolution: "1080p" },
      { aspect_ratio: "adaptive", resolution: "1080p" },
    ],
  ])("in a provider's list is sent by the list's own name: %j", async (fields, sent) => {
    expect(await start(listed, generate, fields)).toMatchObject({ status: 200, arrived: sent });
  });

  test.each([
    [{ resolution: "2k" }, "takes resolution 480p, 768p, 1080p or 4K, not 2k"],
    [{ resolution: "1440p" }, "takes resolution 480p, 768p, 1080p or 4K, not 1440p"],
    [{ resolution: "8k" }, "takes resolution 480p, 768p, 1080p or 4K, not 8k"],
    [{ aspectRatio: "1:1" }, "takes aspectRatio 16:9, 21:9 or adaptive, not 1:1"],
  ])("that is not in a provider's list is refused with the list: %j", async (fields, words) => {
    const { status, error, isCharged, arrived } = await start(listed, generate, fields);
    expect([status, error?.code, isCharged, arrived]).toEqual([400, "outside_limits", false, undefined]);
    expect(error?.message).toContain(words);
  });

  test.each(
    [...servers, "ai-sdk"].flatMap((kind) =>
      [
        ["4k", "16:9", "3840x2160"],
        ["2160p", "9:16", "2160x3840"],
        ["1440p", "21:9", "3360x1440"],
        ["2K", "1:1", "1440x1440"],
      ].map((size) => [kind, ...size] as [string, string, string, string]),
    ),
  )("reaches %s, which needs pixels: %s in %s is %s", async (kind, resolution, aspectRatio, size) => {
    const { status, arrived } = await start(scenes[kind] as never, generate, { resolution, aspectRatio });
    expect([status, arrived?.size]).toEqual([200, size]);
  });

  test("reaches a workflow of ComfyUI as its width and height", async () => {
    const { status, arrived } = await start(scenes.comfyui as never, generate, { resolution: "4k" });
    expect([status, arrived]).toMatchObject([200, { width: 3840, height: 2160 }]);
  });

  test.each(
    [...servers, "comfyui"].flatMap((kind) => [
      [kind, { resolution: "8k" }, "resolution must be 480p, 720p, 1080p, 1440p or 2160p"] as const,
      [kind, { aspectRatio: "adaptive" }, 'aspectRatio must be a ratio such as "16:9"'] as const,
    ]),
  )("without pixels is refused by %s before anything is charged: %j", async (kind, fields, words) => {
    const { status, error, isCharged, arrived } = await start(scenes[kind] as never, generate, fields);
    expect([status, error?.code, isCharged, arrived]).toEqual([400, "outside_limits", false, undefined]);
    expect(error?.message).toBe(`sora-2: ${words}`);
  });

  test.each([
    [{ resolution: "4k" }, "invalid_resolution", "resolution must be 480p, 720p or 1080p"],
    [{ resolution: "1440p" }, "invalid_resolution", "resolution must be 480p, 720p or 1080p"],
    [
      { size: "3840x2160" },
      "invalid_size",
      "size must have a shorter side of 480, 720 or 1080: sora-2 is a preview here",
    ],
    [{ aspectRatio: "adaptive" }, "invalid_aspectRatio", 'aspectRatio must be a ratio such as "16:9"'],
  ])("of a preview is at most 1080p: %j", async (fields, code, message) => {
    const { status, error, isCharged } = await start(scenes.preview as never, generate, fields);
    expect([status, error, isCharged]).toEqual([400, { code, message }, false]);
  });
});

test("a field of the owner's own workflow may have any name", async () => {
  const fields = { n: 3, model_path: "b.safetensors", multi_prompt: [1], style: { a: 1 } };
  const { status, arrived } = await start(scenes.comfyui as never, generate, fields);
  expect([status, arrived]).toMatchObject([
    200,
    { n: 3, path: "b.safetensors", multi_prompt: [1], style: 'a {"a":1} film' },
  ]);
});

test.each([
  ["https://cdn.example/a.png?x=1", apiKey, 200],
  ["http://10.0.0.1/a.png", apiKey, 400],
  ["http://127.0.0.1/a.png", apiKey, 200],
  ["http://127.0.0.1/a.png", otherKey, 400],
  ["http://[::1]:8188/view", otherKey, 400],
])("an address in a field, %s, is checked as that of an image", async (address, key, status) => {
  const engines = (clock: Clock) => [createVideos("tensorrt-llm")(clock).engine];
  const service = await createTestService({ engines, hasPassthrough: true });
  for (const elements of [[{ url: address }], JSON.stringify({ url: address })]) {
    const response = await generate(service, { elements }, key);
    expect(response.status).toBe(status);
  }
});

/** OpenRouter with this reply in place of its list of models. */
const createRouter = (list: () => Response) => {
  const fault: FakeOptions["fault"] = ({ request }) => (request.url.endsWith("/v1/videos/models") ? list() : undefined);
  return createVideos("openrouter", "google/veo-3.1", fault);
};
const allowing = () =>
  Response.json({ data: [{ id: "google/veo-3.1", allowed_passthrough_parameters: ["personGeneration", "cfg"] }] });

test.each([
  { options: { "google-vertex": { personGeneration: "allow_all" } } },
  { options: { google: { parameters: { cfg: 2, personGeneration: "x" } }, other: { cfg: 1 } } },
])("OpenRouter gets the options that its list allows, by each way in: %j", async (provider) => {
  for (const way of Object.values(ways)) {
    const { status, arrived } = await start(createRouter(allowing), way, { provider });
    expect([status, arrived?.provider]).toEqual([200, provider]);
  }
});

const list = "(OpenRouter's list for google/veo-3.1 has: personGeneration, cfg)";
test.each<[object, string]>([
  [{ options: { google: { style: "noir" } } }, `takes no provider with style ${list}`],
  [{ options: { google: { cfg: 1 } }, order: ["google"] }, `takes no provider ${list}`],
  [{ options: { google: { cfg: { n: 2 } } } }, "does not get n: vidgen passes on no count"],
  [{ options: {} }, `takes no provider ${list}`],
])("OpenRouter gets no other form: %j", async (provider, words) => {
  const { status, error, isCharged, arrived } = await start(createRouter(allowing), generate, { provider });
  expect([status, error?.code, isCharged, arrived]).toEqual([400, "invalid_provider", false, undefined]);
  expect(error?.message).toContain(words);
});

test("a field of OpenRouter's list is refused beside the prompt, with the form to send", async () => {
  const { status, error } = await start(createRouter(allowing), generate, { personGeneration: "x" });
  expect([status, error?.message]).toEqual([400, expect.stringContaining('provider={"options": {"<provider>": ')]);
});

test("while OpenRouter's list cannot be read, a start with such a field may be repeated later", async () => {
  const unreadable = createRouter(() => new Response("no", { status: 503 }));
  const { status, error, isCharged, arrived, response } = await start(unreadable, generate, { provider: {} });
  expect([status, error?.code, isCharged, arrived]).toEqual([429, "fields_unreadable", false, undefined]);
  expect(Number(response.headers.get("Retry-After"))).toBeGreaterThan(0);
  expect((await start(unreadable, generate, {})).status).toBe(200);
});

test("another spelling of a field is left out if the field has the same value", async () => {
  const fields = { aspectRatio: "9:16", Aspect_Ratio: "9:16" };
  const { status, arrived } = await start(createVideos("tensorrt-llm"), generate, fields);
  expect([status, Object.keys(arrived ?? {}).filter((name) => /ratio/i.test(name))]).toEqual([200, []]);
  const other = { ...fields, Aspect_Ratio: "16:9" };
  expect(await start(createVideos("tensorrt-llm"), generate, other)).toMatchObject({ status: 400, isCharged: false });
});

test.each([
  ["preview", 990],
  ["sglang", 1_000],
])("another vidgen serve, with %s, decides itself about a field that vidgen does not know", async (name, balance) => {
  const scene = scenes[name] as (clock: Clock) => Scene;
  const remote = await createTestService({ engines: (clock) => [scene(clock).engine] });
  const fetch = ioFetch({
    fetch: async (request) => {
      const headers = new Headers(request.headers);
      headers.set("Authorization", `Bearer ${apiKey}`);
      return remote.api(new Request(request, { headers }));
    },
  });
  const kind = kinds.find(({ id }) => id === "vidgen");
  const service = await createTestService({
    engines: (clock) => [createVideosEngine({ ...common, url: baseUrl, kind }, { ...clock, fetch, open })],
  });
  const id = await service.startId({ multi_prompt });
  await service.clock.sleep(5_000);
  const made = await remote.store.generations({ account: "local", limit: 1 });
  expect(made.map(({ request }) => request.extras.multi_prompt)).toEqual(balance === 990 ? [multi_prompt] : []);
  const { error } = (await service.store.generation(id)) ?? {};
  expect([error, await service.store.balance("local")]).toEqual([
    expect.stringContaining(balance === 990 ? "no video" : "takes no multi_prompt"),
    balance,
  ]);
});

/** A service whose one engine is busy when a generation with a field is started, and takes what `passes` returns once it is free. */
async function startLate(passes: () => Passes | undefined) {
  const taken = { passes: (): Passes | undefined => ({ names: ["elements"] }) };
  const rendered: string[] = [];
  let end: () => void = () => {};
  const engine = fakeEngine({
    isSimulation: false,
    passes: async () => taken.passes(),
    render: (task, { signal }) => {
      rendered.push(task.id);
      return new Promise((_, reject) => {
        end = () => reject(new Error("no video"));
        signal.addEventListener("abort", () => reject(signal.reason));
      });
    },
  });
  const service = await createTestService({ engines: [engine] });
  const first = await service.startId();
  await service.clock.sleep(1_000);
  const late = await service.startId({ elements: [1] });
  await service.clock.sleep(1_000);
  taken.passes = passes;
  end();
  await service.clock.sleep(1_000);
  return { service, late, rendered: () => rendered.filter((id) => id !== first), taken };
}

test("an engine that takes a field no more when its turn comes gets nothing, and the start is refunded", async () => {
  const { service, late, rendered } = await startLate(() => ({ names: [] }));
  expect(await service.store.generation(late)).toMatchObject({
    status: "failed",
    error: "fake takes no elements (it takes: none); nothing was submitted",
  });
  expect([rendered(), await service.store.balance("local")]).toEqual([[], 1_000]);
});

test("while an engine's fields cannot be read, a generation waits", async () => {
  const { service, late, rendered, taken } = await startLate(() => undefined);
  expect(await service.store.generation(late)).toMatchObject({ status: "processing", checkpoint: null });
  expect(rendered()).toEqual([]);
  taken.passes = () => ({ names: "all" });
  await service.clock.sleep(2 * 60_000);
  expect(rendered()).toEqual([late]);
});

/** A service with two engines of a model, and how often each got a create. */
async function createTwo(first: (typeof kindIds)[number], second: (typeof kindIds)[number]) {
  const scenes: Scene[] = [];
  const service = await createTestService({
    engines(clock) {
      scenes.push(...[first, second].map((id) => createVideos(id)(clock)));
      const [one, two] = scenes.map(({ engine }, index) => ({ ...engine, name: `gpu-${index}`, concurrency: 9 }));
      return [one, two].flatMap((engine) => engine ?? []);
    },
  });
  return { service, creates: () => scenes.map(({ arrived }) => arrived().length) };
}

test.each([
  ["sglang", "tensorrt-llm"],
  ["tensorrt-llm", "sglang"],
] as const)(
  "of %s and %s, only the engine that takes a field gets its generations, and both get the others",
  async (first, second) => {
    const { service, creates } = await createTwo(first, second);
    for (let count = 0; count < 4; count++) expect((await service.start({ multi_prompt })).status).toBe(200);
    await service.clock.sleep(5_000);
    const named = first === "sglang" ? [0, 4] : [4, 0];
    expect(creates()).toEqual(named);
    for (let count = 0; count < 4; count++) expect((await service.start()).status).toBe(200);
    await service.clock.sleep(5_000);
    const others = creates().map((count, index) => count - (named[index] ?? 0));
    expect(others.toSorted()).toEqual([2, 2]);
  },
);

test("fields that two engines take only together are refused with both reasons", async () => {
  const { service, creates } = await createTwo("vllm-omni", "tensorrt-llm");
  const response = await service.start({ multi_prompt, format: "avi" });
  expect(await readError(response)).toEqual({
    code: "invalid_format",
    message:
      "gpu-0 takes no format (it takes: none); gpu-1 gets format from vidgen, which writes it for each video; nothing was charged",
  });
  expect([creates(), await service.store.balance("local")]).toEqual([[0, 0], 1_000]);
});

test("half an hour after the only engine that takes a field has gone, its generation is not submitted, and refunded", async () => {
  const engines: Engine[] = [];
  let arrived: Scene["arrived"] = () => [];
  const service = await createTestService({
    engines(clock) {
      const scene = createVideos("sglang")(clock);
      const busy: Engine = { ...createVideos("tensorrt-llm")(clock).engine, name: "busy", concurrency: 0 };
      engines.push(scene.engine, busy);
      ({ arrived } = scene);
      return engines;
    },
  });
  const id = await service.startId({ multi_prompt });
  engines.pop();
  service.queue.updateEngines();
  await service.clock.sleep(29 * 60_000);
  expect(await service.store.generation(id)).toMatchObject({ status: "processing" });
  const reason = "no engine that makes sora-2 takes multi_prompt";
  expect(await (await service.status(id)).json()).toMatchObject({ status: "processing", not_submitted: reason });
  await service.clock.sleep(3 * 60_000);
  expect(await service.store.generation(id)).toMatchObject({
    status: "failed",
    error_code: "not_submitted",
    error: reason,
  });
  expect([arrived(), await service.store.balance("local")]).toEqual([[], 1_000]);
  expect(service.troubles).toEqual([`Generations wait for an engine: Error: ${reason}`]);
});

test.each(["completes", "is cancelled"])(
  "a secret in a field reaches the engine, is kept until the generation %s, and is shown only as a hash",
  async (end) => {
    let arrived: unknown;
    let cancel: () => void = () => {};
    const engine = fakeEngine({
      isSimulation: false,
      passes: async () => ({ names: "all" }),
      render: (task, { signal }) => {
        arrived = task.request.extras;
        return new Promise((_, reject) => {
          cancel = () => reject(new Error("no video"));
          signal.addEventListener("abort", () => reject(signal.reason));
        });
      },
    });
    const service = await createTestService({ engines: [engine] });
    const fields = { hub_token: "canary-1", elements: [{ url: "https://cdn.example/a.png?sig=canary-2", size: 2 }] };
    const id = await service.startId({ ...fields, seed: 7 });
    const isHidden = async () => {
      const { request } = (await service.store.generation(id)) ?? {};
      const shown = JSON.stringify([request, await service.store.list({ limit: 9 })]);
      expect([shown.match(/sha256:/g)?.length, shown.includes("canary")]).toEqual([2, false]);
      return request;
    };
    const request = await isHidden();
    expect(request?.extras).toMatchObject({ seed: 7, elements: [{ size: 2 }] });
    expect(await service.store.secrets(id)).toEqual(fields);
    await service.clock.sleep(1_000);
    expect(arrived).toEqual({ ...fields, seed: 7 });
    if (end === "completes") cancel();
    else await service.cancel(id);
    await service.clock.sleep(1_000);
    expect(await service.store.generation(id)).toMatchObject({ status: "failed" });
    await isHidden();
    expect(await service.store.secrets(id)).toEqual({});
    // What the page and `again` send.
    const again = await service.start({ ...request?.extras, hub_token: "another" });
    expect(await readError(again)).toEqual({
      code: "invalid_elements",
      message: "elements is only a hash of the value that was sent: send the value again; nothing was charged",
    });
  },
);

test("another account than the owner's may send such a field to a preview, and to a real model only with passthrough", async () => {
  for (const [engine, hasPassthrough, status] of [
    ["preview", false, 200],
    ["tensorrt-llm", false, 400],
    ["tensorrt-llm", true, 200],
  ] as const) {
    const engines = (clock: Clock) => [(scenes[engine] as (clock: Clock) => Scene)(clock).engine];
    const service = await createTestService({ engines, hasPassthrough });
    const response = await generate(service, { multi_prompt }, otherKey);
    expect(response.status).toBe(status);
    if (status === 400)
      expect((await readError(response)).message).toMatch(
        /^multi_prompt is no field of this service: .*`passthrough`; nothing/,
      );
  }
});

test("a preview says which fields it does not show", async () => {
  const { response } = await start(scenes.preview as never, generate, {
    multi_prompt,
    style: "noir",
  });
  expect(await response.json()).toMatchObject({ warnings: ["The preview does not show multi_prompt, style."] });
});

test("fields that are too many, too large or nested too deeply are refused", async () => {
  const service = await createTestService();
  for (const fields of [
    Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`x${index}`, 1])),
    { x: "x".repeat(40_000) },
    { x: [[[[[[[[[1]]]]]]]]] },
    { x: `${"[".repeat(9)}1${"]".repeat(9)}` },
    { "a b": 1 },
  ])
    expect((await service.start(fields)).status).toBe(400);
  expect(await service.store.balance("local")).toBe(1_000);
});
