import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { apiKey, baseUrl, createWorld, isStart, type World } from "../../vidgen.ts";

const configOf = (world: World) => join(world.home, "config.json");
const saved = (world: World) => JSON.parse(readFileSync(configOf(world), "utf8"));

function save(world: World, settings: object): void {
  mkdirSync(world.home, { recursive: true });
  writeFileSync(configOf(world), JSON.stringify(settings));
}

test("shows each setting, its value, and where that is from; of the key the last four characters", async () => {
  const world = await createWorld();
  world.env.VIDGEN_API_KEY = undefined;
  world.env.VIDGEN_OUTPUT = "clips/";
  save(world, { base_url: "https://other.example", model: "ray-3", keys: { [baseUrl]: apiKey } });
  const file = configOf(world);
  const rows = [
    ["base_url", baseUrl, "VIDGEN_BASE_URL"],
    ["api_key", "...6789", file],
    ["model", "ray-3", file],
    ["output", "clips/", "VIDGEN_OUTPUT"],
    ["engine", "", "not set"],
  ];
  const run = await world.vidgen("config");
  expect(run).toEqual({ code: 0, stdout: `${rows.map((row) => row.join("\t")).join("\n")}\n`, stderr: "" });
  expect(JSON.parse((await world.vidgen("config", "--json")).stdout)).toEqual(
    rows.map(([setting, value, source]) => ({
      setting,
      value: value || null,
      source: source === "not set" ? null : source,
    })),
  );
  world.isTerminal = true;
  world.columns = 200;
  expect((await world.vidgen("config")).stdout).toMatch(
    /^SETTING {3}VALUE +SOURCE\nbase_url {2}https:\S+ +VIDGEN_BASE/,
  );
});

test("without any settings it says what holds then", async () => {
  const world = await createWorld();
  world.env = { VIDGEN_HOME: world.home };
  const { stdout } = await world.vidgen("config");
  expect(stdout.split("\n").map((line) => line.split("\t"))).toEqual([
    ["base_url", "", "not set"],
    ["api_key", "", "not set"],
    ["model", "wan-2.5", "default"],
    ["output", "", "not set"],
    ["engine", "", "not set"],
    [""],
  ]);
});

test("of a short key hardly anything is shown", async () => {
  const world = await createWorld();
  world.env.VIDGEN_API_KEY = "abcdef";
  expect((await world.vidgen("config")).stdout).toContain("api_key\t...f\tVIDGEN_API_KEY\n");
  world.env.VIDGEN_API_KEY = "abc";
  expect((await world.vidgen("config")).stdout).toContain("api_key\t...\tVIDGEN_API_KEY\n");
});

test("set and unset change the file, and nothing else in it", async () => {
  const world = await createWorld();
  save(world, { theme: "dark", keys: { [baseUrl]: apiKey } });
  const before = saved(world);
  for (const [setting, value] of [
    ["model", "veo-3.1"],
    ["output", "clips/"],
    ["base_url", "https://video.example"],
  ] as const) {
    expect(await world.vidgen("config", "set", setting, value)).toMatchObject({ code: 0, stdout: "" });
    expect(saved(world)).toEqual({ ...before, [setting]: value });
    const { stdout } = await world.vidgen("config", "unset", setting, "--json");
    expect(JSON.parse(stdout)).toEqual({ ok: true, setting, was_set: true });
    expect(saved(world)).toEqual(before);
  }
  expect(await world.vidgen("config", "unset", "model")).toMatchObject({ code: 0, stderr: "model was not set.\n" });
  expect(JSON.parse((await world.vidgen("config", "set", "model", "ray-3", "--json")).stdout)).toEqual({
    ok: true,
    setting: "model",
    value: "ray-3",
  });
});

test("set says what overrides it, and that a model looks like a slip", async () => {
  const world = await createWorld();
  world.env.VIDGEN_MODEL = "sora-2";
  const { stderr } = await world.vidgen("config", "set", "model", "veo3");
  expect(stderr).toBe(
    `Saved model = veo3 in ${configOf(world)}.\nUnknown model "veo3"; did you mean veo-3.1?\nVIDGEN_MODEL is set and overrides it.\n`,
  );
});

test.each([
  [["set", "api_key", "x"], "The setting must be base_url, model, output or engine"],
  [["set", "model", " "], "The model is empty."],
  [["set", "output", "-"], "output cannot be -"],
  [["set", "output", ""], "output is empty"],
  [["set", "output", "{nme}.mp4"], "unknown placeholder {nme}"],
  [["set", "base_url", "http://video.example"], "must be https"],
  [["set", "engine", "no-such-engine"], "no-such-engine"],
  [["set", "model"], "config set needs <value>"],
  [["set", "model", "--json"], "config set needs <value>"],
  [["unset", "nothing"], "The setting must be"],
])("config %j is a usage error, and saves nothing", async (argv, says) => {
  const world = await createWorld();
  const run = await world.vidgen("config", ...argv);
  expect([run.code, run.stdout, run.stderr.toLowerCase()]).toEqual([
    2,
    "",
    expect.stringContaining(says.toLowerCase()),
  ]);
  expect(existsSync(configOf(world))).toBe(false);
});

test("a saved engine that VIDGEN_BASE_URL overrides is not shown as the one that is used", async () => {
  const world = await createWorld();
  save(world, { engine: "openrouter" });
  const engine = async () => JSON.parse((await world.vidgen("config", "--json")).stdout).at(-1);
  const overridden = `${configOf(world)}, overridden by VIDGEN_BASE_URL`;
  expect(await engine()).toEqual({ setting: "engine", value: null, source: overridden });
  const { stderr } = await world.vidgen("config", "set", "engine", "openrouter");
  expect(stderr).toContain("VIDGEN_BASE_URL is set and overrides it.");
  world.env.VIDGEN_BASE_URL = undefined;
  expect(await engine()).toEqual({ setting: "engine", value: "openrouter", source: configOf(world) });
});

test("an engine and a service are not both saved, since a start could not choose", async () => {
  const world = await createWorld();
  save(world, { base_url: baseUrl });
  expect(await world.vidgen("config", "set", "engine", "openrouter")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("`vidgen config unset base_url`"),
  });
  expect(await world.vidgen("config", "unset", "base_url")).toMatchObject({ code: 0 });
  expect(await world.vidgen("config", "set", "engine", "openrouter")).toMatchObject({ code: 0 });
  expect(await world.vidgen("config", "set", "base_url", baseUrl)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("`vidgen config unset engine`"),
  });
});

/** Runs `work` in the world's folder. */
async function inside<Result>(world: World, work: () => Promise<Result>): Promise<Result> {
  const before = process.cwd();
  process.chdir(world.folder);
  return work().finally(() => process.chdir(before));
}

test.each<[string, (world: World) => void]>([
  ["VIDGEN_OUTPUT", ({ env }) => Object.assign(env, { VIDGEN_OUTPUT: "clips/" })],
  ["the saved setting", (world) => save(world, { output: "clips/" })],
])("%s saves each video from then on, of generate and of wait", async (_, set) => {
  const world = await createWorld();
  set(world);
  await inside(world, async () => {
    expect((await world.vidgen("generate", "a fox")).stdout).toMatch(/^clips[/\\]a-fox-\S+\.mp4\n$/);
    const started = await world.vidgen("generate", "an owl", "--no-wait");
    expect(started).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\S{36}\n$/) });
    expect((await world.vidgen("wait", started.stdout.trim())).stdout).toMatch(/^clips[/\\]an-owl-\S+\.mp4\n$/);
    expect((await world.vidgen("generate", "a hare", "-o", "hare.mp4")).stdout).toBe("hare.mp4\n");
  });
});

test("the same run needs the same output, wherever that is set: an interrupted one is resumed, not paid for again", async () => {
  const world = await createWorld();
  save(world, { output: "clips/" });
  await inside(world, async () => {
    expect(await world.vidgen("generate", "a fox", "--timeout", "1s")).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("-o clips/"),
    });
    const again = await world.vidgen("generate", "a fox", "-o", "clips/");
    expect(again).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming ") });
  });
  expect(world.requests.filter(isStart)).toHaveLength(1);
});

test.each([
  ["VIDGEN_OUTPUT", "-", "VIDGEN_OUTPUT cannot be -"],
  ["VIDGEN_OUTPUT", "{nme}.mp4", "unknown placeholder {nme}"],
])("%s=%s is said before anything is sent", async (name, value, says) => {
  const world = await createWorld();
  world.env[name] = value;
  const run = await world.vidgen("generate", "a fox");
  expect([run.code, run.stderr, world.requests]).toEqual([2, expect.stringContaining(says), []]);
});

test("a settings file that cannot be read stops a start that does not say where to save: it may be another run", async () => {
  const world = await createWorld();
  mkdirSync(world.home, { recursive: true });
  writeFileSync(configOf(world), "{");
  expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 2 });
  expect(world.requests).toEqual([]);
  expect(await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"))).toMatchObject({ code: 0 });
});
