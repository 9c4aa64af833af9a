import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";
import { configPath, engineKeyNames, findKeys } from "../../src/connect/keys.ts";
import {
  findBaseUrl,
  findModelSetting,
  removeLogin,
  resolveApiKey,
  resolveBaseUrl,
  resolveKeyOfStart,
  saveLogin,
} from "../../src/connect/settings.ts";
import { folders } from "../../src/connect/storage.ts";
import { systemMachine } from "../../src/io.ts";
import { kinds } from "../../src/server/engines/videos/kinds.ts";
import { makeFolder } from "../folder.ts";
import { lacks } from "../needs.ts";

type Env = Record<string, string | undefined>;

const one = "https://one.example";
const two = "https://two.example";
const key = "canary-key-0123456789";

/** A machine of its own, with what `env` sets and `saved` in its saved file. */
async function createWorld({ env = {}, saved }: { env?: Env; saved?: string | object } = {}) {
  const home = makeFolder();
  const { disk } = systemMachine;
  const world = { env: { VIDGEN_HOME: join(home, "vidgen"), ...env }, home, platform: "linux", disk };
  if (saved !== undefined) {
    await mkdir(dirname(configPath(world)), { recursive: true });
    await writeFile(configPath(world), typeof saved === "string" ? saved : JSON.stringify(saved));
  }
  return world;
}

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o7777).toString(8);
}

const linux = "/home/ann/.config/vidgen /home/ann/.local/share/vidgen";
const apiKeyFor = async (...where: Parameters<typeof resolveApiKey>) => (await resolveApiKey(...where)).apiKey;

test.each([
  ["linux", {}, linux],
  ["freebsd", {}, linux],
  ["linux", { XDG_CONFIG_HOME: "/c", XDG_DATA_HOME: "/d" }, "/c/vidgen /d/vidgen"],
  ["linux", { XDG_CONFIG_HOME: "c", XDG_DATA_HOME: "./d" }, linux],
  ["linux", { XDG_CONFIG_HOME: "", XDG_DATA_HOME: "" }, linux],
  ["linux", { VIDGEN_HOME: "", XDG_CONFIG_HOME: "/c" }, "/c/vidgen /home/ann/.local/share/vidgen"],
  ["linux", { VIDGEN_HOME: "/v", XDG_CONFIG_HOME: "/c", XDG_DATA_HOME: "/d" }, "/v /v"],
  ["darwin", {}, "/home/ann/Library/Preferences/vidgen /home/ann/Library/Application Support/vidgen"],
  ["darwin", { VIDGEN_HOME: "/v" }, "/v /v"],
  ["win32", { APPDATA: "/roaming", LOCALAPPDATA: "/local" }, "/roaming/vidgen /local/vidgen"],
  ["win32", {}, "/home/ann/AppData/Roaming/vidgen /home/ann/AppData/Local/vidgen"],
  ["win32", { VIDGEN_HOME: "/v", APPDATA: "/roaming" }, "/v /v"],
])("on %s with %j the folders are %s", (platform, env: Env, found) => {
  const { config, data } = folders({ env, home: "/home/ann", platform });
  expect(normalize(`${config} ${data}`)).toBe(normalize(found));
});

const flag = "https://flag.example";
test.each([
  ["the flag", flag, { VIDGEN_BASE_URL: one }, { base_url: two }, flag],
  ["the environment", undefined, { VIDGEN_BASE_URL: one }, { base_url: two }, one],
  ["the saved file", undefined, {}, { base_url: two }, two],
  ["the saved file, the variable being empty", undefined, { VIDGEN_BASE_URL: "" }, { base_url: two }, two],
  ["nowhere", undefined, {}, {}, undefined],
  ["nowhere, without a file", undefined, {}, undefined, undefined],
])("the base URL is from %s", async (_, given, env: Env, saved, found) => {
  const world = await createWorld({ env, ...(saved && { saved }) });
  expect(await findBaseUrl(given, world)).toBe(found);
});

test("without a base URL, every way to give one is named", async () => {
  const others = ", save one with `vidgen login`, or use --local";
  await expect(resolveBaseUrl(undefined, await createWorld(), others)).rejects.toMatchObject({
    code: "auth",
    exit: 3,
    hint: expect.stringMatching(/--base-url.*VIDGEN_BASE_URL.*vidgen login.*--local/),
  });
});

test.each([
  ["the flag", "http://x.example", {}, {}, "--base-url must be https"],
  ["the empty flag", "", {}, {}, "--base-url is not an http(s) URL"],
  ["the environment", undefined, { VIDGEN_BASE_URL: "x.example" }, {}, "VIDGEN_BASE_URL is not an http(s) URL"],
  ["the saved file", undefined, {}, { base_url: "http://x.example" }, "config.json must be https"],
])("a base URL that cannot be used is said to be from %s", async (_, given, env: Env, saved, message) => {
  const world = await createWorld({ env, saved });
  await expect(findBaseUrl(given, world)).rejects.toMatchObject({
    code: "usage",
    message: expect.stringContaining(message),
  });
});

const lan = "http://gpu-1:8787";
const lanRule = "must be https, because the key is sent with each request";
test.each([
  ["its own origin, in the saved file", lan, {}, { allow_http: [lan] }, true],
  ["its own origin, with a path", `${lan}/v1`, {}, { allow_http: [lan] }, true],
  ["its own origin, in the environment", lan, { VIDGEN_ALLOW_HTTP: `${lan}/` }, {}, true],
  ["nothing", lan, {}, {}, false],
  ["another port", lan, { VIDGEN_ALLOW_HTTP: "http://gpu-1:8788" }, { allow_http: ["http://gpu-1"] }, false],
  ["another host", "http://gpu-2:8787", { VIDGEN_ALLOW_HTTP: lan }, { allow_http: [lan] }, false],
  ["a host that begins so", "http://gpu-1.evil.example:8787", { VIDGEN_ALLOW_HTTP: lan }, { allow_http: [lan] }, false],
])("plain http that is allowed for %s: %s", async (_, url, env: Env, saved, isUsable) => {
  const world = await createWorld({ env, saved });
  const found = findBaseUrl(url, world);
  if (isUsable) expect(await found).toBe(url);
  else await expect(found).rejects.toMatchObject({ code: "usage", message: expect.stringContaining(lanRule) });
});

test.each([
  "1",
  "true",
  "*",
  "gpu-1",
  "https://gpu-1",
  "http://gpu-1:8787/api",
  "http://a http://b",
  "http://u:p@gpu-1",
])("VIDGEN_ALLOW_HTTP=%s allows nothing: it must name one origin", async (VIDGEN_ALLOW_HTTP) => {
  const world = await createWorld({ env: { VIDGEN_ALLOW_HTTP } });
  await expect(findBaseUrl(lan, world)).rejects.toMatchObject({
    message: expect.stringContaining("the one http origin"),
  });
});

test("what a login allows is for its origin, and a logout forgets it with the key", async () => {
  const world = await createWorld();
  await saveLogin(lan, { key, isHttpAllowed: true }, world);
  expect(await findBaseUrl(undefined, world)).toBe(lan);
  await saveLogin(one, { key: "key-1" }, world);
  expect(await findBaseUrl(lan, world)).toBe(lan);
  await expect(findBaseUrl("http://gpu-2:8787", world)).rejects.toMatchObject({ code: "usage" });
  expect(await removeLogin(lan, world)).toBe(true);
  await expect(findBaseUrl(lan, world)).rejects.toMatchObject({ code: "usage" });
  expect(await findBaseUrl(undefined, world)).toBe(one);
});

test("a service that only the journal names gets no key by plain http, once that is no longer allowed", async () => {
  const saved = { base_url: one, keys: { [one]: "key-1", [lan]: key } };
  const allowed = await createWorld({ saved: { ...saved, allow_http: [lan] } });
  expect(await resolveKeyOfStart(lan, allowed)).toMatchObject({ apiKey: key });
  await expect(resolveKeyOfStart(lan, await createWorld({ saved }))).rejects.toMatchObject({ code: "usage" });
});

test("VIDGEN_API_KEY goes to the configured service, and to no other that the journal names", async () => {
  const world = await createWorld({ env: { VIDGEN_API_KEY: key, VIDGEN_BASE_URL: one } });
  expect(await resolveKeyOfStart(one, world)).toMatchObject({ apiKey: key });
  await expect(resolveKeyOfStart(two, world)).rejects.toMatchObject({ code: "auth" });
});

test.each([
  ["the environment", { VIDGEN_API_KEY: "env-key" }, { keys: { [one]: "saved-key" } }, "env-key"],
  ["the saved file", {}, { keys: { [one]: "saved-key" } }, "saved-key"],
  ["the saved file, the variable being empty", { VIDGEN_API_KEY: "" }, { keys: { [one]: "saved-key" } }, "saved-key"],
])("the key is from %s", async (_, env: Env, saved, found) => {
  expect(await apiKeyFor(one, await createWorld({ env, saved }))).toBe(found);
});

test.each([
  ["the environment", { VIDGEN_MODEL: "ray-3" }, { model: "sora-2" }, "ray-3"],
  ["the saved file", { VIDGEN_MODEL: "" }, { model: "sora-2" }, "sora-2"],
  ["nowhere", {}, {}, undefined],
])("the model is from %s", async (_, env: Env, saved, found) => {
  expect(await findModelSetting(await createWorld({ env, saved }))).toBe(found);
});

test("a saved key is for its origin and no other", async () => {
  const world = await createWorld();
  await saveLogin(`${one}/v1`, { key }, world);
  expect(await apiKeyFor(`${one}/v2`, world)).toBe(key);
  for (const other of [two, `${one}:8443`, "https://api.one.example", "http://one.example"])
    await expect(apiKeyFor(other, world)).rejects.toMatchObject({ code: "auth", exit: 3 });
});

test("two logins are both kept, and a logout forgets one", async () => {
  const world = await createWorld();
  expect(await saveLogin(one, { key: "key-1" }, world)).toEqual({ path: configPath(world), engine: undefined });
  await saveLogin(two, { key: "key-2" }, world);
  expect(await findBaseUrl(undefined, world)).toBe(two);
  expect([await apiKeyFor(one, world), await apiKeyFor(two, world)]).toEqual(["key-1", "key-2"]);
  expect(await removeLogin(one, world)).toBe(true);
  expect(await removeLogin(one, world)).toBe(false);
  await expect(apiKeyFor(one, world)).rejects.toMatchObject({ code: "auth" });
  expect(await apiKeyFor(two, world)).toBe("key-2");
  expect(await readFile(configPath(world), "utf8")).not.toContain("key-1");
});

test("a login keeps what else is in the file", async () => {
  const world = await createWorld({ saved: { model: "ray-3", theme: { dark: true } } });
  await saveLogin(one, { key }, world);
  expect(JSON.parse(await readFile(configPath(world), "utf8"))).toEqual({
    model: "ray-3",
    theme: { dark: true },
    base_url: one,
    keys: { [one]: key },
  });
});

test("logging out of what was never logged in to makes no file", async () => {
  const world = await createWorld();
  expect(await removeLogin(one, world)).toBe(false);
  await expect(stat(configPath(world))).rejects.toThrow("ENOENT");
});

test.skipIf(lacks("file modes"))("what is saved is for its owner alone", async () => {
  const world = await createWorld();
  await saveLogin(one, { key }, world);
  expect([await modeOf(configPath(world)), await modeOf(world.env.VIDGEN_HOME)]).toEqual(["600", "700"]);
  expect(await readdir(world.env.VIDGEN_HOME)).toEqual(["config.json"]);
});

test.skipIf(lacks("file modes"))(
  "reading leaves the modes as they are, and a login makes its own file private",
  async () => {
    const world = await createWorld({ saved: { base_url: one, keys: { [one]: key } } });
    await chmod(configPath(world), 0o644);
    await chmod(world.env.VIDGEN_HOME, 0o2775);
    const modes = async () => [await modeOf(configPath(world)), await modeOf(world.env.VIDGEN_HOME)];
    await apiKeyFor(one, world);
    expect(await modes()).toEqual(["644", "2775"]);
    await saveLogin(two, { key }, world);
    expect(await modes()).toEqual(["600", "2775"]);
  },
);

test.each(["utf8", "utf16le"] as const)("a saved file with a byte order mark, in %s, is read", async (encoding) => {
  const world = await createWorld({ saved: "" });
  const saved = { base_url: one, keys: { [one]: key } };
  await writeFile(configPath(world), Buffer.from(`\ufeff${JSON.stringify(saved)}`, encoding));
  expect(await findBaseUrl(undefined, world)).toBe(one);
  expect(await apiKeyFor(one, world)).toBe(key);
  expect(findKeys(world)).toEqual([key]);
});

const corrupt = [
  "{",
  "",
  "not json",
  "[]",
  "[1]",
  "null",
  '"text"',
  "5",
  '{"keys":5}',
  '{"keys":{"a":1}}',
  '{"base_url":5}',
];
test.each(corrupt)("a saved file that holds %j is reported with its path, and left as it is", async (saved) => {
  const world = await createWorld({ saved });
  const error = { code: "usage", message: expect.stringContaining(configPath(world)) };
  await expect(findBaseUrl(undefined, world)).rejects.toMatchObject(error);
  await expect(apiKeyFor(one, world)).rejects.toMatchObject(error);
  await expect(saveLogin(one, { key }, world)).rejects.toMatchObject(error);
  await expect(removeLogin(one, world)).rejects.toMatchObject(error);
  expect(await readFile(configPath(world), "utf8")).toBe(saved);
  expect(await readdir(world.env.VIDGEN_HOME)).toEqual(["config.json"]);
});

test.each(corrupt)("with all from the environment, a saved file that holds %j is in nobody's way", async (saved) => {
  const world = await createWorld({ saved, env: { VIDGEN_API_KEY: key, VIDGEN_BASE_URL: one } });
  expect(await resolveBaseUrl(undefined, world)).toBe(one);
  expect(await apiKeyFor(one, world)).toBe(key);
  expect(await findModelSetting(world)).toBe(undefined);
});

test("a folder in the file's place is reported", async () => {
  const world = await createWorld();
  await mkdir(configPath(world), { recursive: true });
  await expect(findBaseUrl(undefined, world)).rejects.toMatchObject({ code: "usage", message: /EISDIR/ });
});

test("a place that cannot be written to is an output error", async () => {
  const world = await createWorld({ saved: {} });
  const inside = { ...world, env: { VIDGEN_HOME: join(configPath(world), "home") } };
  await expect(saveLogin(one, { key }, inside)).rejects.toMatchObject({ code: "output", message: /ENOTDIR/ });
});

test("a key of the environment or the saved file is checked as a typed one is", async () => {
  const fromEnv = await createWorld({ env: { VIDGEN_API_KEY: "sec ret" } });
  await expect(apiKeyFor(one, fromEnv)).rejects.toMatchObject({ code: "usage" });
  const fromFile = await createWorld({ saved: { keys: { [one]: "sec\nret" } } });
  await expect(apiKeyFor(one, fromFile)).rejects.toMatchObject({ code: "usage" });
  const padded = await createWorld({ env: { VIDGEN_API_KEY: `${key}\n` } });
  expect(await apiKeyFor(one, padded)).toBe(key);
});

test("the usual keys of all providers are known, so that none is printed or passed on", () => {
  const variables = kinds.flatMap(({ provider }) => provider?.keyVariable ?? []);
  const env = Object.fromEntries(
    ["VIDGEN_ENGINE_KEY", "VIDGEN_ENGINE_KEY_GPU_1", ...variables].map((name) => [name, "x"]),
  );
  expect(engineKeyNames({ ...env, VIDGEN_ENGINE_KEYBOARD: "x", HOME: "x" })).toEqual(Object.keys(env));
});
