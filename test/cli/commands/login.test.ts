import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lacks } from "../../needs.ts";
import { apiKey, baseUrl, createWorld, failure } from "../../vidgen.ts";

async function loggedOut() {
  const world = await createWorld();
  world.env.VIDGEN_API_KEY = undefined;
  return { world, config: join(world.home, "config.json") };
}

test("checks the key with a look at a made-up id, saves it, and generate then uses it", async () => {
  const { world, config } = await loggedOut();
  world.stdin = `${apiKey}\n`;
  expect(await world.vidgen("login", "--with-token")).toMatchObject({ code: 0, stdout: "" });
  expect(world.requests.map(({ method, url }) => [method, url.split("?")[0]])).toEqual([
    ["GET", `${baseUrl}/api/generation-status`],
  ]);
  if (!lacks("file modes")) expect(statSync(config).mode & 0o777).toBe(0o600);
  world.stdin = undefined;
  world.env.VIDGEN_BASE_URL = undefined;
  expect(await world.vidgen("generate", "a fox", "--no-wait")).toMatchObject({ code: 0 });
});

test.each([`\ufeff${apiKey}\r\n`, Buffer.from(`\ufeff${apiKey}\r\n`, "utf16le")])(
  "the key is read from a file as Windows saves it: %j",
  async (bytes) => {
    const { world, config } = await loggedOut();
    world.stdin = bytes;
    expect(await world.vidgen("login", "--with-token")).toMatchObject({ code: 0, stdout: "" });
    expect(JSON.parse(readFileSync(config, "utf8")).keys).toEqual({ [baseUrl]: apiKey });
  },
);

test.skipIf(lacks("file modes") || lacks("symbolic links"))(
  "a config that a link leads to is replaced by one for the owner's eyes alone, and stays where it is",
  async () => {
    const { world, config } = await loggedOut();
    const real = join(world.folder, "dotfiles.json");
    writeFileSync(real, JSON.stringify({ model: "ray-3" }));
    chmodSync(real, 0o644);
    mkdirSync(world.home);
    symlinkSync(real, config);
    world.stdin = apiKey;
    expect(await world.vidgen("login", "--with-token")).toMatchObject({ code: 0 });
    expect([lstatSync(config).isSymbolicLink(), statSync(real).mode & 0o777]).toEqual([true, 0o600]);
    expect(JSON.parse(readFileSync(real, "utf8"))).toMatchObject({ model: "ray-3", keys: { [baseUrl]: apiKey } });
  },
);

test("a bad key is exit 3, and nothing is saved", async () => {
  const { world, config } = await loggedOut();
  world.stdin = "wrong-key";
  const run = await world.vidgen("login", "--with-token");
  expect(run).toMatchObject({ code: 3, stderr: expect.stringContaining("Nothing was saved") });
  expect(run.stderr).not.toContain("wrong-key");
  expect(existsSync(config)).toBe(false);
});

const answers: [string, () => Response, number, string][] = [
  ["403", () => Response.json({}, { status: 403 }), 3, "Nothing was saved"],
  ["500", () => new Response("oops", { status: 500 }), 8, "not available right now"],
  [
    "a redirect",
    () => new Response(null, { status: 302, headers: { Location: "/" } }),
    1,
    "does not respond like the video service",
  ],
  ["a page", () => new Response("<html>"), 1, "does not respond like the video service"],
  ["a page with 404", () => new Response("<html>", { status: 404 }), 0, "unusual"],
  ["400", () => Response.json({ error: "bad id" }, { status: 400 }), 0, "did not reject the key"],
  ["404", () => Response.json({ error: "no such id" }, { status: 404 }), 0, "accepted the key"],
];
test.each(answers)("%s is told apart in plain words", async (_, answer, code, words) => {
  const { world, config } = await loggedOut();
  world.stdin = apiKey;
  world.faults.push(answer);
  expect(await world.vidgen("login", "--with-token")).toMatchObject({ code, stderr: expect.stringContaining(words) });
  expect(existsSync(config)).toBe(code === 0);
});

test("no answer is exit 8, and nothing is saved", async () => {
  const { world, config } = await loggedOut();
  world.stdin = apiKey;
  world.faults.push(() => Promise.reject(failure("ECONNREFUSED", false)));
  expect(await world.vidgen("login", "--with-token")).toMatchObject({
    code: 8,
    stderr: expect.stringContaining("Could not reach"),
  });
  expect(existsSync(config)).toBe(false);
});

test("the key belongs to its origin: another base url does not get it", async () => {
  const { world } = await loggedOut();
  world.stdin = apiKey;
  await world.vidgen("login", "--with-token");
  world.stdin = undefined;
  expect(await world.vidgen("generate", "a fox", "--base-url", "https://other.example")).toMatchObject({ code: 3 });
  expect(world.requests).toHaveLength(1);
});

test("at a terminal asks for the base url when none is known, and for the key without showing it", async () => {
  const { world } = await loggedOut();
  world.env.VIDGEN_BASE_URL = undefined;
  world.isTerminal = true;
  world.answers = [
    ["What should make your videos?", "\u001b[A\r"],
    ["base URL:", `${baseUrl}\r`],
    ["API key", `${apiKey}\r`],
    ["Where should", "\r"],
  ];
  const run = await world.vidgen("login", "--no-color");
  expect(run).toMatchObject({ code: 0, stdout: "" });
  expect(run.stderr).not.toContain(apiKey);
  expect(run.stderr).toMatch(/1,000 credits left\.\nNext: vidgen generate "a red fox [^"]*" -o fox\.mp4\n$/);
  expect(JSON.parse(readFileSync(join(world.home, "config.json"), "utf8"))).not.toHaveProperty("output");
});

test("at a terminal a key that is rejected is asked for again, twice, without the address", async () => {
  const { world, config } = await loggedOut();
  world.isTerminal = true;
  world.answers = [
    ["API key for", "wrong-key-1234567890\r"],
    ["(try 2 of 3):", `${apiKey}\r`],
    ["Where should", "\r"],
  ];
  const run = await world.vidgen("login", "--no-color");
  expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("1,000 credits left.") });
  expect(run.stderr).not.toContain("wrong-key");
  expect(run.stderr.match(/will be stored in plain text/g)).toHaveLength(1);
  expect(JSON.parse(readFileSync(config, "utf8")).keys).toEqual({ [baseUrl]: apiKey });
});

test("the third wrong key is the last: exit 3, and nothing is saved", async () => {
  const { world, config } = await loggedOut();
  world.isTerminal = true;
  const wrong = "wrong-key-1234567890\r";
  world.answers = [
    ["API key for", wrong],
    ["(try 2 of 3):", wrong],
    ["(try 3 of 3):", wrong],
  ];
  const run = await world.vidgen("login", "--no-color");
  expect([run.code, run.stderr.match(/The service rejected this key/g)?.length]).toEqual([3, 3]);
  expect(existsSync(config)).toBe(false);
});

test.each([
  ["previews", [["What should make", "\r"]], /Next: vidgen generate "[^"]*" --local -o fox\.mp4\n$/, undefined],
  [
    "OpenRouter",
    [
      ["What should make", "\u001b[B\r"],
      ["API key for https://openrouter.ai", "sk-or-0123456789\r"],
      ["Save the key", "y\r"],
    ],
    /Saved in plain text in \S+\nNext:\s+vidgen generate "[^"]*" -m veo-3\.1 --engine openrouter -o fox\.mp4\n$/,
    { engine: "openrouter", keys: { "https://openrouter.ai": "sk-or-0123456789" } },
  ],
] as const)(
  "at a terminal without a service, one answer is %s, which needs no login",
  async (_, answers, says, saved) => {
    const { world, config } = await loggedOut();
    world.env.VIDGEN_BASE_URL = undefined;
    world.isTerminal = true;
    world.answers = answers.map(([question, keys]) => [question, keys]);
    // OpenRouter does not answer: its key is saved as it is.
    const run = await world.vidgen("login", "--no-color");
    expect([run.code, run.stdout, run.stderr]).toEqual([0, "", expect.stringMatching(says)]);
    expect(existsSync(config) ? JSON.parse(readFileSync(config, "utf8")) : undefined).toEqual(saved);
    expect(run.stderr).not.toContain("sk-or-0123456789");
  },
);

test("at a terminal the base url is tried before the key is asked for, without the key that is set", async () => {
  const { world } = await loggedOut();
  world.env.VIDGEN_BASE_URL = undefined;
  world.env.VIDGEN_API_KEY = "of-another-service-0123";
  world.isTerminal = true;
  world.answers = [
    ["What should make your videos?", "\u001b[A\r"],
    ["base URL:", "https://nobody.example\r"],
    ["Could not reach https://nobody.example", `${"\u007f".repeat(30)}${baseUrl}\r`],
    ["API key", "\u0003"],
  ];
  expect(await world.vidgen("login")).toMatchObject({ code: 130 });
  expect(world.requests.map(({ url }) => new URL(url).origin)).toEqual(["https://nobody.example", baseUrl]);
  for (const { headers } of world.requests) expect(headers.has("Authorization")).toBe(false);
});

test.each<[string, () => Response | Promise<Response>, number, string]>([
  ["nobody answers", () => Promise.reject(failure("ECONNREFUSED", false)), 8, "Could not reach"],
  ["a web page answers", () => new Response("<html>"), 1, "does not respond like the video service"],
  ["it is down", () => new Response("oops", { status: 503 }), 8, "not available right now"],
])("a base url at which %s is not worth a key", async (_, answer, code, says) => {
  const { world, config } = await loggedOut();
  world.isTerminal = true;
  world.faults.push(answer);
  const run = await world.vidgen("login", "--no-color");
  expect([run.code, run.stderr.replace(/\s+/g, " ")]).toEqual([code, expect.stringContaining(says)]);
  expect(run.stderr).not.toContain("API key for");
  expect(existsSync(config)).toBe(false);
});

test("login asks where to save, once, and saves there from then on", async () => {
  const { world, config } = await loggedOut();
  world.isTerminal = true;
  world.answers = [
    ["API key", `${apiKey}\r`],
    ["Where should", `${join(world.folder, "clips")}/\r`],
  ];
  const run = await world.vidgen("login", "--no-color");
  expect(run.stderr).toMatch(/Next: vidgen generate "[^"]*"\n$/);
  expect(JSON.parse(readFileSync(config, "utf8")).output).toBe(`${join(world.folder, "clips")}/`);
  world.answers = [["API key", `${apiKey}\r`]];
  expect(await world.vidgen("login")).toMatchObject({ code: 0 });
  expect((await world.vidgen("generate", "a fox")).stdout).toContain(join(world.folder, "clips/a-fox"));
});

test("a service that does not tell the balance gets no guess", async () => {
  const { world } = await loggedOut();
  world.stdin = apiKey;
  world.faults.push(() => Response.json({ error: "no such id" }, { status: 404 }));
  const run = await world.vidgen("login", "--with-token");
  expect(run.stderr).not.toContain("credits left");
  expect(run.stderr).toContain("Next: vidgen generate");
});

test.each([
  ["without a terminal", []],
  ["with --no-input at a terminal", ["--no-input"]],
])("%s says how to pipe the key in", async (_, flags) => {
  const { world } = await loggedOut();
  world.isTerminal = flags.length > 0;
  expect(await world.vidgen("login", ...flags)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--with-token"),
  });
});

test("an empty key and one that no header can hold are usage errors", async () => {
  for (const stdin of ["", "two words", "naïve"]) {
    const { world } = await loggedOut();
    world.stdin = stdin;
    expect(await world.vidgen("login", "--with-token")).toMatchObject({ code: 2 });
    expect(world.requests).toEqual([]);
  }
});

test("logout deletes the key", async () => {
  const { world, config } = await loggedOut();
  world.stdin = apiKey;
  await world.vidgen("login", "--with-token");
  expect(await world.vidgen("logout")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: expect.stringContaining("Deleted"),
  });
  expect(readFileSync(config, "utf8")).not.toContain(apiKey);
  expect(await world.vidgen("logout")).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("No API key was saved"),
  });
  expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 3 });
});

test("Ctrl-C at the prompt is exit 130, and no key is sent or saved", async () => {
  const { world, config } = await loggedOut();
  world.isTerminal = true;
  world.answers = [["API key", "\u0003"]];
  const run = await world.vidgen("login");
  expect(run).toMatchObject({ code: 130, stdout: "" });
  for (const { headers } of world.requests) expect(headers.has("Authorization")).toBe(false);
  expect(existsSync(config)).toBe(false);
});

test.each([
  ["login", 2],
  ["logout", 3],
])("%s with no base URL says both ways to give one: exit %d", async (command, code) => {
  const { world } = await loggedOut();
  world.env.VIDGEN_BASE_URL = undefined;
  const run = await world.vidgen(command);
  expect(run).toMatchObject({
    code,
    stderr: expect.stringContaining("Pass --base-url <url> or set VIDGEN_BASE_URL."),
  });
});

test.each([
  ["no base URL", { VIDGEN_BASE_URL: undefined, VIDGEN_API_KEY: undefined }],
  ["a key but no base URL", { VIDGEN_BASE_URL: undefined }],
  ["no key", { VIDGEN_API_KEY: undefined }],
])("with %s every command that needs the service ends with 3, and says how to log in", async (_, env) => {
  const world = await createWorld();
  Object.assign(world.env, env);
  const shots = join(world.folder, "shots.txt");
  writeFileSync(shots, "a fox\n");
  for (const argv of [
    ["generate", "a fox"],
    ["batch", shots],
    ["status", "x"],
    ["wait", "x"],
    ["cancel", "x"],
    ["accounts"],
  ]) {
    const run = await world.vidgen(...argv);
    expect([argv[0], run.code, run.stderr]).toEqual([argv[0], 3, expect.stringContaining("`vidgen login`")]);
  }
  expect(world.requests).toEqual([]);
});

test("with --json each prints one document, which holds no key", async () => {
  const { world } = await loggedOut();
  world.stdin = apiKey;
  const runs = [];
  for (const argv of [["login", "--with-token"], ["logout"], ["logout"]])
    runs.push(await world.vidgen(...argv, "--json"));
  expect(runs.map(({ stdout }) => JSON.parse(stdout))).toEqual([
    { ok: true, base_url: baseUrl, remaining_credits: 1000 },
    { ok: true, base_url: baseUrl, was_saved: true },
    { ok: true, base_url: baseUrl, was_saved: false },
  ]);
  expect(runs.map(({ stderr }) => stderr)).toEqual(["", "", ""]);
});

test("login takes a host without a scheme", async () => {
  const { world } = await loggedOut();
  world.env.VIDGEN_BASE_URL = undefined;
  world.stdin = apiKey;
  const host = new URL(baseUrl).host;
  const { stdout } = await world.vidgen("login", "--base-url", host, "--with-token", "--json");
  expect(JSON.parse(stdout)).toMatchObject({ ok: true, base_url: baseUrl });
});

test("the service replaces a saved engine, which it says, so that the next command uses the service", async () => {
  const { world, config } = await loggedOut();
  mkdirSync(world.home);
  writeFileSync(config, JSON.stringify({ engine: "openrouter", model: "ray-3" }));
  world.stdin = apiKey;
  const { code, stderr } = await world.vidgen("login", "--with-token", "--base-url", baseUrl);
  expect(code).toBe(0);
  expect(stderr).toContain("Removed the saved engine (openrouter): commands now use");
  expect(stderr).toContain("To use the engine again, add --engine openrouter");
  expect(JSON.parse(readFileSync(config, "utf8"))).toEqual({
    base_url: baseUrl,
    model: "ray-3",
    keys: { [baseUrl]: apiKey },
  });
  world.stdin = undefined;
  world.env.VIDGEN_BASE_URL = undefined;
  expect(await world.vidgen("generate", "a fox", "--no-wait")).toMatchObject({ code: 0 });
});

test("an engine of the environment still wins after a login, which says so", async () => {
  const { world } = await loggedOut();
  world.env.VIDGEN_ENGINE = "preview";
  world.stdin = apiKey;
  const { stderr } = await world.vidgen("login", "--with-token");
  expect(stderr).toContain("VIDGEN_ENGINE is set and overrides the saved service.");
});

const lan = "http://gpu-1:8787";

/** A world in which the service is reached at an address of its own network, by plain http. */
async function inLan() {
  const { world, config } = await loggedOut();
  world.env.VIDGEN_BASE_URL = undefined;
  world.stdin = apiKey;
  const notFound = () => Response.json({ error: "no such generation" }, { status: 404 });
  world.faults.push(({ url }) => (url.startsWith(lan) ? notFound() : undefined));
  return { world, config };
}

test("plain http is refused with the three ways to reach a service, the safest first", async () => {
  const { world } = await inLan();
  const run = await world.vidgen("login", "--base-url", lan, "--with-token");
  expect(run).toMatchObject({ code: 2, stdout: "" });
  expect(run.stderr).toMatch(
    /must be https.*\n.*vidgen help accounts.*\n.*1\..*`ssh -N -L 8787:127\.0\.0\.1:8787 -L 8788:127\.0\.0\.1:8788 gpu-1`.*\n.*2\..*TLS.*\n.*3\..*`vidgen login --base-url http:\/\/gpu-1:8787 --allow-http`.*VIDGEN_ALLOW_HTTP=http:\/\/gpu-1:8787\n$/,
  );
  expect(world.requests).toEqual([]);
});

test("--allow-http allows plain http for this origin, says who can get the key, and is saved with it", async () => {
  const { world, config } = await inLan();
  const run = await world.vidgen("login", "--base-url", lan, "--with-token", "--allow-http");
  expect(run).toMatchObject({ code: 0, stdout: "" });
  expect(run.stderr).toContain("in another network, the machine with this address would receive it");
  expect(JSON.parse(readFileSync(config, "utf8"))).toMatchObject({ keys: { [lan]: apiKey }, allow_http: [lan] });
  const { stdout } = await world.vidgen("doctor");
  expect(stdout).toContain(`plain http     allowed for ${lan} in a private network, by ${config}`);
  expect((await world.vidgen("config")).stdout).toContain(`allow_http\t${lan}\t${config}\n`);
  const { length } = world.requests;
  expect(await world.vidgen("status", "x", "--base-url", "http://gpu-2:8787")).toMatchObject({ code: 2 });
  expect(world.requests).toHaveLength(length);
});

test("--allow-http for an https service changes nothing, and says so", async () => {
  const { world, config } = await loggedOut();
  world.stdin = apiKey;
  const run = await world.vidgen("login", "--with-token", "--allow-http");
  expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining(`--allow-http was ignored: ${baseUrl}`) });
  expect(JSON.parse(readFileSync(config, "utf8"))).not.toHaveProperty("allow_http");
});

test.each(["/api", "/v1"])(
  "a base URL that ends with %s: login, config and the 404 of a start name the address without it",
  async (path) => {
    const world = await createWorld();
    const without = `the base URL may be ${baseUrl}, without ${path}`;
    world.faults.push(({ url }) =>
      url.startsWith(baseUrl + path) ? Response.json({ error: "not found" }, { status: 404 }) : undefined,
    );
    world.stdin = Buffer.from("canary-key-0123456789");
    const login = await world.vidgen("login", "--with-token", "--base-url", baseUrl + path);
    expect([login.code, login.stderr]).toEqual([0, expect.stringContaining(without)]);
    world.stdin = undefined;
    expect((await world.vidgen("config", "set", "base_url", baseUrl + path)).stderr).toContain(without);
    expect((await world.vidgen("config", "set", "base_url", baseUrl)).stderr).not.toContain("without");
    world.env.VIDGEN_BASE_URL = baseUrl + path;
    expect(await world.vidgen("generate", "a fox")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(without),
    });
  },
);

test("the hint about --help follows a fault of the line, not of a file", async () => {
  const world = await createWorld();
  expect((await world.vidgen("generate", "a fox", "-d", "long")).stderr).toMatch(/--help|duration/);
  for (const line of [
    ["generate", "@missing.txt"],
    ["batch", "missing.csv"],
  ]) {
    const { code, stderr } = await world.vidgen(...line);
    expect([code, stderr]).toEqual([2, expect.not.stringContaining("--help")]);
  }
});
