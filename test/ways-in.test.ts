import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "vidgen";
import { createVidgen } from "vidgen/ai-sdk";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Clock } from "../src/io.ts";
import { createComfyUiEngine } from "../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../src/server/engines/comfyui/workflow.ts";
import type { Engine } from "../src/server/engines/engine.ts";
import { kinds } from "../src/server/engines/videos/kinds.ts";
import { createVideosEngine } from "../src/server/engines/videos/videos.ts";
import { connectAgent } from "./mcp/agent.ts";
import { createComfyUi } from "./server/engines/comfyui/fake.ts";
import { workflow, writeWorkflow } from "./server/engines/comfyui/run.ts";
import { ioFetch } from "./server/engines/videos/fakes/fake.ts";
import { engineUrl, fakes, timeoutMs } from "./server/engines/videos/run.ts";
import { apiKey, baseUrl, createTestService, fakeEngine, type TestService } from "./server/service.ts";
import { createWorld, isStart, type Run, type World } from "./vidgen.ts";

// Each way into vidgen, with fields that are unknown, forbidden, null or misspelt, against engines that take a name by a placeholder, take none, or take all:
// a value arrives there, or the start is refused before anything is charged. test/server/api/passed.test.ts has the same for each kind of engine.

type Scene = { engine: Engine; arrived(): Record<string, unknown>[] };

const common = { models: ["sora-2"], concurrency: 1, timeoutMs, onNote: () => {}, key: undefined };
const open = () => Promise.reject(new Error("unused"));

const scenes: Record<string, (clock: Clock) => Scene> = {
  "a workflow with a placeholder": (clock) => {
    const fake = createComfyUi({ now: clock.now });
    const read = readWorkflow(writeWorkflow(workflow({ multi_prompt: "{{multi_prompt=none}}" })), ["sora-2"]);
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
  "an engine that takes no unknown names": (clock) => {
    const fake = fakes.litellm({ now: clock.now, fault: () => undefined });
    const kind = kinds.find(({ id }) => id === "litellm");
    const options = { ...common, url: engineUrl, kind, upstreamModel: "wan-2.5" };
    const engine = createVideosEngine(options, { ...clock, fetch: ioFetch(fake), open });
    return { engine, arrived: () => fake.creates.map(({ fields }) => fields) };
  },
  "a preview": (clock) => {
    const requests: Record<string, unknown>[] = [];
    const render: Engine["render"] = async ({ request }, { signal }) => {
      requests.push(request.extras);
      await clock.sleep(1_000, signal);
      throw new Error("no video");
    };
    return { engine: fakeEngine({ name: "preview", render }), arrived: () => requests };
  },
};

/** Whether the start was accepted; otherwise the words of the refusal. */
type Way = (fields: Record<string, unknown>, site: { world: World; service: TestService }) => Promise<true | string>;

const request = { prompt: "a fox", model: "sora-2" };
const resultOf = ({ code, stderr }: Run) => code === 0 || stderr;
const toFlags = (fields: object) =>
  Object.entries(fields).flatMap(([name, value]) => ["--set", `${name}=${JSON.stringify(value)}`]);
const words = (error: unknown) => String(error instanceof Error ? error.message : error);

/** Runs a batch of one row until it has been started, since its engine makes no video. */
async function startRows(world: World, name: string, content: string): Promise<true | string> {
  writeFileSync(join(world.folder, name), content);
  const run = world.vidgen("batch", join(world.folder, name), "-m", "sora-2", "--timeout", "1s");
  const { code, stderr } = await run;
  return code === 5 || code === 4 || stderr;
}

/** The ways that can carry a field of any name. */
const carrying: Record<string, Way> = {
  flags: async (fields, { world }) =>
    resultOf(await world.vidgen("generate", "a fox", "-m", "sora-2", "--no-wait", ...toFlags(fields))),
  questions: async (fields, { world }) => {
    Object.assign(world, { isTerminal: true, columns: 200 });
    world.answers = [
      ["What should", "a fox\r"],
      ["Which aspect", "\r"],
      ["How long", "\r"],
      ["Start it?", "y\r"],
    ];
    return resultOf(await world.vidgen("generate", "-m", "sora-2", "--no-wait", ...toFlags(fields)));
  },
  "a row of CSV": (fields, { world }) => {
    const cells = Object.values(fields).map((value) => `"${JSON.stringify(value).replaceAll('"', '""')}"`);
    const names = Object.keys(fields).map((name) => `set.${name}`);
    return startRows(world, "shots.csv", `${["prompt", ...names].join()}\n${["a fox", ...cells].join()}\n`);
  },
  "a row of JSON": (fields, { world }) =>
    startRows(world, "shots.jsonl", JSON.stringify({ prompt: "a fox", set: fields })),
  "the library": async (extra, { service }) => {
    const fetch = (async (url: string, init: RequestInit) =>
      service.api(new Request(url, init))) as typeof globalThis.fetch;
    const client = createClient({ baseUrl, apiKey, fetch });
    return client.start({ ...request, extra }).then(() => true as const, words);
  },
  "the AI SDK": async (vidgen, { service }) => {
    const fetch = (async (url: string, init: RequestInit) =>
      service.api(new Request(url, init))) as typeof globalThis.fetch;
    const left = {
      aspectRatio: undefined,
      resolution: undefined,
      duration: undefined,
      fps: undefined,
      seed: undefined,
    };
    const call = {
      ...left,
      generateAudio: undefined,
      image: undefined,
      frameImages: undefined,
      inputReferences: undefined,
    };
    const model = createVidgen({ baseUrl, apiKey, fetch })("sora-2");
    const providerOptions = { vidgen: vidgen as Record<string, string> };
    return model.doStart({ ...call, prompt: "a fox", n: 1, providerOptions }).then(() => true as const, words);
  },
};

/** The ways that refuse a name that they do not know. */
const closed: Record<string, Way> = {
  "vidgen.json": async (fields, { world }) => {
    writeFileSync(join(world.folder, "vidgen.json"), JSON.stringify(fields));
    return resultOf(await world.vidgen("generate", "a fox", "--no-wait"));
  },
  "a preset of vidgen.json": async (fields, { world }) => {
    writeFileSync(join(world.folder, "vidgen.json"), JSON.stringify({ presets: { draft: fields } }));
    return resultOf(await world.vidgen("generate", "a fox", "--no-wait", "--preset", "draft"));
  },
  settings: async (fields, { world }) => {
    const [[name = "", value] = []] = Object.entries(fields);
    return resultOf(await world.vidgen("config", "set", name, JSON.stringify(value)));
  },
  "a flag of its name": async (fields, { world }) => {
    const [[name = "", value] = []] = Object.entries(fields);
    return resultOf(await world.vidgen("generate", "a fox", "--no-wait", `--${name}`, JSON.stringify(value)));
  },
  "an agent": async (fields, { world }) => {
    const { call, leave } = await connectAgent(world);
    const { isError, text } = await call("generate_video", { prompt: "a fox", ...fields });
    await leave();
    return !isError || text;
  },
  "a field of the library": async (fields, { service }) => {
    const fetch = (async (url: string, init: RequestInit) =>
      service.api(new Request(url, init))) as typeof globalThis.fetch;
    const client = createClient({ baseUrl, apiKey, fetch });
    return client.start({ ...request, ...fields }).then(() => true as const, words);
  },
};

async function start(createScene: (clock: Clock) => Scene, way: Way, fields: Record<string, unknown>) {
  let scene: Scene | undefined;
  const service = await createTestService({
    engines(clock) {
      scene = createScene(clock);
      return [scene.engine];
    },
  });
  const world = await createWorld();
  const home = process.cwd();
  onTestFinished(() => process.chdir(home));
  process.chdir(world.folder);
  world.faults.push((sent) => (sent.url.startsWith(baseUrl) ? service.api(sent) : undefined));
  const result = await way(fields, { world, service });
  if (result === true) await service.clock.sleep(5_000);
  const isCharged = (await service.store.balance("local")) !== 1_000;
  return { result, isCharged, arrived: scene?.arrived()[0] };
}

const multi_prompt = [{ text: "one" }, { text: "two" }];
const parsed = (value: unknown) => (typeof value === "string" ? JSON.parse(value) : value);

describe.each(Object.entries(scenes))("%s", (kind, scene) => {
  const [takesName, takesAll] = [kind !== "an engine that takes no unknown names", kind === "a preview"];

  test.each(Object.entries(carrying))("gets what %s say, or nothing is charged", async (_, way) => {
    const unknown = await start(scene, way, { multi_prompt });
    if (takesName) expect([unknown.result, parsed(unknown.arrived?.multi_prompt)]).toEqual([true, multi_prompt]);
    else expect(unknown).toMatchObject({ result: expect.stringContaining("multi_prompt"), isCharged: false });
    const forbidden = await start(scene, way, { webhook_url: "x" });
    if (takesAll) expect(forbidden).toMatchObject({ result: true, arrived: { webhook_url: "x" } });
    else expect(forbidden).toMatchObject({ result: expect.stringContaining("webhook_url"), isCharged: false });
    const absent = await start(scene, way, { multi_prompt: null });
    expect([absent.result, absent.arrived?.multi_prompt ?? "none"]).toEqual([true, "none"]);
    const misspelt = await start(scene, way, { guidanceScale: 4 });
    expect(misspelt).toMatchObject({ result: expect.stringContaining("guidance_scale"), isCharged: false });
  });
});

test.each(
  Object.entries(closed).flatMap(([name, way]) =>
    [{ multi_prompt }, { webhook_url: "x" }, { multi_prompt: null }, { guidanceScale: 4 }].map(
      (fields) => [name, Object.keys(fields)[0] as string, fields, way] as const,
    ),
  ),
)("%s: %s is refused by its name, and nothing is charged", async (_, name, fields, way) => {
  const found = await start(scenes["a preview"] as never, way, fields);
  expect(found).toMatchObject({ result: expect.stringContaining(name), isCharged: false });
});

test.each([
  ["generate", "a fox — naïve", "--set", 'elements=[{"a": 1.0, "b": "\\u00e9"}]', "--seed", "18446744073709551615"],
  ["generate", "a fox", "-a", "16:09", "-d", "8s", "-r", "720", "-i", "https://example.com/fox.png"],
  ["generate", "a fox", "-m", "kling-1.6-elements", "-i", "https://a.example/1.png", "-i", "https://a.example/2.png"],
])("what a dry run shows is what is sent, byte for byte: %s %s %s", async (...line) => {
  const world = await createWorld();
  const { stdout } = await world.vidgen(...line, "--dry-run", "--json");
  expect(await world.vidgen(...line, "--no-wait")).toMatchObject({ code: 0 });
  const [sent] = world.requests.filter(isStart);
  expect(JSON.stringify(JSON.parse(stdout).body)).toBe(sent?.body);
});
