import { existsSync } from "node:fs";
import { chmod, mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { lacks } from "../../needs.ts";
import { apiKey, baseUrl, createWorld, type Fault, failure } from "../../vidgen.ts";

type Shown = { name: string; state: string; says: string; fix: string | null };

/** A run of doctor with --json; `fault` is what the service is like. */
async function examine(fault?: Fault, env: Record<string, string | undefined> = {}, ...argv: string[]) {
  const world = await createWorld();
  if (fault) world.faults.push(fault);
  Object.assign(world.env, env);
  const run = await world.vidgen("doctor", "--json", ...argv);
  const { ok, checks }: { ok: boolean; checks: Shown[] } = JSON.parse(run.stdout);
  const failed = checks.filter(({ state }) => state === "fail");
  return { world, run, ok, checks, failed, find: (name: string) => checks.find((check) => check.name === name) };
}

test("all is well: each check passes, and the key shows by its last four characters alone", async () => {
  const { run, ok, checks, find, world } = await examine();
  expect([run.code, run.stderr, ok]).toEqual([0, "", true]);
  expect(checks.map(({ name }) => name)).toEqual([
    "node",
    "config",
    "journal",
    "base URL",
    "key",
    "proxy",
    "dns",
    "connection",
    "service",
    "local service",
    "ffmpeg",
    "disk",
  ]);
  expect(checks.filter(({ state }) => state === "fail")).toEqual([]);
  expect(find("key")?.says).toBe("ends in 6789, from VIDGEN_API_KEY");
  expect(run.stdout).not.toContain(apiKey);
  expect(find("service")?.says).toMatch(/responded in \d+ ms, and accepted the key/);
  expect(world.requests.map(({ method }) => method)).toEqual(["GET"]);
});

test("the saved key of a provider is listed, and not shown", async () => {
  const world = await createWorld();
  const key = "sk-or-canary-0123456789";
  await mkdir(world.home);
  await writeFile(join(world.home, "config.json"), JSON.stringify({ keys: { "https://openrouter.ai": key } }));
  world.env.FAL_KEY = "fal-canary-0123456789";
  const { stdout } = await world.vidgen("doctor", "--local");
  expect(stdout).toMatch(/^pass {2}keys +for engines: FAL_KEY, openrouter \(saved\)$/m);
  expect(stdout).not.toContain("canary");
});

test.each([80, 50])(
  "at a terminal of %i columns, lines are wrapped between words, below their text",
  async (columns) => {
    const world = await createWorld();
    const words = (await world.vidgen("doctor")).stdout.split(/\s+/);
    Object.assign(world, { isTerminal: true, columns });
    const { stdout } = await world.vidgen("doctor", "--no-color");
    expect(stdout.split(/\s+/)).toEqual(words);
    // A path is not wrapped, so that it can be copied.
    expect(stdout.split("\n").filter((line) => line.length > columns && !/ \S*[/\\]\S*$/.test(line))).toEqual([]);
    expect(stdout).toMatch(/^ {21}\S/m);
  },
);

test("as text: a line a check, its fix below it", async () => {
  const world = await createWorld();
  world.env.VIDGEN_API_KEY = undefined;
  const { code, stdout, stderr } = await world.vidgen("doctor");
  expect([code, stderr]).toEqual([3, "error: 1 check failed: key.\n  See the fix below each failed check.\n"]);
  expect(stdout).toMatch(/^pass {2}node +20\.19\.0 on linux\n/);
  expect(stdout).toMatch(/^fail {2}key +No API key for https:.*\n {6}Save one with `vidgen login`/m);
  expect(stdout).toMatch(/^pass {2}service .*requires a key$/m);
});

const json =
  (status: number, body: unknown, headers = {}): Fault =>
  () =>
    Response.json(body, { status, headers });
const broken =
  (code: string): Fault =>
  () => {
    throw failure(code, false);
  };
const faults: [string, Fault, string, number, RegExp][] = [
  ["a key that is not accepted", json(401, { error: "no" }), "service", 3, /vidgen login/],
  ["a service in trouble", json(503, {}), "service", 8, /later/],
  ["a page of somebody else's", () => new Response("<html>", { status: 404 }), "service", 1, /base URL/],
  [
    "a redirect",
    () => new Response(null, { status: 302, headers: { Location: "https://x.example" } }),
    "service",
    1,
    /base URL/,
  ],
  ["a name that does not exist", broken("ENOTFOUND"), "dns", 8, /spelling/],
  ["a name server that does not answer", broken("EAI_AGAIN"), "dns", 8, /DNS/],
  ["a port without TLS", broken("ERR_SSL_WRONG_VERSION_NUMBER"), "connection", 8, /Client certificates/],
  ["a connection that is refused", broken("ECONNREFUSED"), "connection", 8, /firewall/],
  ["a certificate of nobody's", broken("DEPTH_ZERO_SELF_SIGNED_CERT"), "connection", 8, /this machine's clock/],
];
test.each(faults)(
  "%s fails, with its fix and the exit code that a command would end with",
  async (_, fault, name, code, fix) => {
    const { run, ok, failed } = await examine(fault);
    expect([run.code, ok, failed.map((check) => check.name)]).toEqual([code, false, [name]]);
    expect(failed[0]?.fix).toMatch(fix);
    expect(JSON.parse(run.stderr).error.message).toBe(`1 check failed: ${name}.`);
  },
);

test("a service that does not answer fails after 30 s", async () => {
  const { run, find, world } = await examine((_, { io }) => io.sleep(60_000).then(() => undefined));
  expect([run.code, find("service")?.says, world.io.now()]).toEqual([8, "no response within 30 s", 30_000]);
});

test("a proxy shows without its password, and is where to look when the way is broken", async () => {
  const env = { HTTPS_PROXY: "http://ann:secret@proxy.example:3128" };
  const { find, run } = await examine(broken("ECONNREFUSED"), env);
  expect(find("proxy")?.says).toBe("http://proxy.example:3128, from HTTPS_PROXY");
  expect(find("dns")?.says).toBe("resolved by the proxy");
  expect(find("connection")?.fix).toMatch(/HTTPS_PROXY/);
  expect(run.stdout).not.toContain("secret");
});

test("a clock that is wrong is a warning, and no failure", async () => {
  const { run, find } = await examine(json(404, { error: "x" }, { Date: "Thu, 01 Jan 2026 00:10:00 GMT" }));
  expect([run.code, find("clock")]).toEqual([
    0,
    expect.objectContaining({ state: "warn", says: expect.stringMatching(/^\d+ s behind/) }),
  ]);
});

test("the key is in nothing it prints, whoever says it", async () => {
  const { run } = await examine(json(401, { error: `bad key ${apiKey}` }), {}, "--verbose");
  expect(run.stdout).toContain("bad key [key]");
  expect(run.stdout + run.stderr).not.toContain(apiKey);
  const short = await examine(undefined, { VIDGEN_API_KEY: "short-key" });
  expect(short.find("key")?.says).toMatch(/^set, from/);
});

test.skipIf(lacks("file modes"))("the settings' sources are named, and a config that others can read", async () => {
  const world = await createWorld();
  const path = join(world.home, "config.json");
  await mkdir(world.home, { recursive: true });
  await writeFile(path, JSON.stringify({ base_url: baseUrl, keys: { [baseUrl]: apiKey } }));
  await chmod(path, 0o644);
  world.env.VIDGEN_API_KEY = undefined;
  world.env.VIDGEN_BASE_URL = undefined;
  const first = await world.vidgen("doctor");
  expect(first.code).toBe(0);
  expect(first.stdout).toMatch(/^warn {2}config .*read by other users \(0644\)\n {6}chmod 600 /m);
  expect(first.stdout).toContain(`${baseUrl}, from ${path}`);
  expect(first.stdout).toContain(`ends in 6789, from ${path}`);
  expect((await stat(path)).mode & 0o777).toBe(0o644);
});

test.skipIf(lacks("file modes"))(
  "a journal and a service folder that others can read are reported, and not changed",
  async () => {
    const world = await createWorld();
    const [journal, service] = [join(world.home, "journal.jsonl"), join(world.home, "service")];
    await mkdir(service, { recursive: true });
    await writeFile(journal, "");
    await chmod(journal, 0o664);
    await chmod(service, 0o755);
    const { code, stdout } = await world.vidgen("doctor");
    expect(code).toBe(0);
    expect(stdout).toContain(`${journal} can be read by other users (0664)\n      chmod 600 ${journal}\n`);
    expect(stdout).toContain(`${service} can be read by other users (0755)\n      chmod 700 ${service}\n`);
    expect([(await stat(journal)).mode & 0o777, (await stat(service)).mode & 0o777]).toEqual([0o664, 0o755]);
  },
);

test("a corrupt config, a journal that cannot be written, no base URL: each fails by itself", async () => {
  const world = await createWorld();
  await mkdir(join(world.home, "journal.jsonl"), { recursive: true });
  await writeFile(join(world.home, "config.json"), "{");
  world.env.VIDGEN_BASE_URL = undefined;
  const { code, stdout } = await world.vidgen("doctor");
  expect(code).toBe(2);
  expect(stdout).toMatch(/^fail {2}config .*JSON/m);
  expect(stdout).toMatch(/^fail {2}journal .*not a file\n {6}.*VIDGEN_HOME/m);
  expect(stdout).toMatch(/^fail {2}base URL /m);
});

test.skipIf(!existsSync("/proc/self"))("a folder that takes no files fails, though its mode lets one in", async () => {
  const { run, failed } = await examine(undefined, { VIDGEN_HOME: "/proc" });
  expect([run.code, failed.map(({ name }) => name)]).toEqual([9, ["journal", "local service"]]);
  for (const { says } of failed) expect(says).toContain("cannot be written: ");
});

test("what was tried leaves nothing behind", async () => {
  const { world } = await examine();
  expect(await readdir(world.folder)).toEqual([]);
  expect(existsSync(world.home) ? await readdir(world.home) : []).toEqual([]);
});

test.each<[string, Record<string, string | undefined>]>([
  ["no address at all", { VIDGEN_BASE_URL: "foo" }],
  ["a password in it", { VIDGEN_BASE_URL: "https://a:b@video.example" }],
  ["not https", { VIDGEN_BASE_URL: "http://video.example" }],
  ["none known", { VIDGEN_BASE_URL: undefined }],
  ["a key that none can be", { VIDGEN_API_KEY: "two words" }],
  ["no key", { VIDGEN_API_KEY: undefined }],
  ["a file for a home", { VIDGEN_HOME: fileURLToPath(import.meta.url) }],
])("no failure comes without what to do about it: %s", async (_, env) => {
  const { failed } = await examine(undefined, env);
  expect(failed.length).toBeGreaterThan(0);
  for (const { name, fix } of failed) expect([name, fix]).toEqual([name, expect.stringMatching(/\w/)]);
});

test("without a home nothing could be started: that fails, with the way out", async () => {
  const world = await createWorld();
  delete world.env.VIDGEN_HOME;
  world.io.home = "";
  const { code, stdout } = await world.vidgen("doctor");
  expect(code).toBe(9);
  for (const line of ["warn  config", "fail  journal", "fail  local service"])
    expect(stdout).toMatch(new RegExp(`^${line} .*\n      .*VIDGEN_HOME`, "m"));
});

test("--local leaves the remote service out", async () => {
  const { run, checks, world } = await examine(
    undefined,
    { VIDGEN_BASE_URL: undefined, VIDGEN_API_KEY: undefined },
    "--local",
  );
  expect([run.code, world.requests]).toEqual([0, []]);
  expect(checks.map(({ name }) => name)).toEqual(["node", "config", "journal", "local service", "ffmpeg", "disk"]);
});

test("who uses --local alone has nothing to fix: no base URL is a warning, with a key a failure", async () => {
  const nothing = { VIDGEN_BASE_URL: undefined, VIDGEN_API_KEY: undefined, npm_command: "exec" };
  const { run, ok, find } = await examine(undefined, nothing);
  expect([run.code, run.stderr, ok]).toEqual([0, "", true]);
  expect(find("base URL")).toMatchObject({
    state: "warn",
    fix: expect.stringContaining("Run `npx vidgen login`"),
  });
  const { run: withKey, failed } = await examine(undefined, { VIDGEN_BASE_URL: undefined });
  expect([withKey.code, failed.map(({ name }) => name)]).toEqual([2, ["base URL"]]);
});

test.each([
  ["5.1.9", " V....D libx264   libx264 H.264\n", "pass", "5.1.9, with libx264"],
  ["n7.1", " V....D libopenh264   OpenH264\n", "warn", "n7.1, without libx264: --join needs it for clips that differ"],
])("ffmpeg %s is found by FFMPEG_PATH, with its encoders", async (version, encoders, state, says) => {
  const world = await createWorld();
  const programs: string[] = [];
  world.env.FFMPEG_PATH = "/opt/ffmpeg-7/bin/ffmpeg";
  world.io.run = async (program, _, { env, onStdout }) => {
    programs.push(program);
    expect(env.VIDGEN_API_KEY).toBeUndefined();
    onStdout?.(encoders);
    return { code: 0, stdout: "", stderr: `ffmpeg version ${version} Copyright (c) 2000-2026\n` };
  };
  const { checks }: { checks: Shown[] } = JSON.parse((await world.vidgen("doctor", "--json", "--local")).stdout);
  expect(checks.find(({ name }) => name === "ffmpeg")).toMatchObject({ state, says });
  expect(programs).toEqual(["/opt/ffmpeg-7/bin/ffmpeg", join("/opt/ffmpeg-7/bin/ffprobe")]);
});

test("no ffmpeg is a warning with the line that installs it, and no failure", async () => {
  const { run, find } = await examine(undefined, {}, "--local");
  expect(run.code).toBe(0);
  expect(find("ffmpeg")).toMatchObject({
    state: "warn",
    says: "it was not found; only --from and --join need it",
    fix: expect.stringContaining("apt install ffmpeg, brew install ffmpeg, winget install ffmpeg"),
  });
});
