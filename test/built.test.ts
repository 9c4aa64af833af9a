import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readPage } from "../src/docs.ts";
import { spawnProcess } from "./faults/spawned.ts";
import { tinyMp4 } from "./mp4.ts";
import { hasJq, lacks } from "./needs.ts";
import { cookieOf, useLink } from "./server/page/sign-in.ts";
import { aPng } from "./server/queue/pictures.ts";
import { slowness } from "./slowness.ts";

// The program as it is installed: bin/vidgen.js over dist/, in processes of their own, over real sockets on loopback.

const bin = fileURLToPath(new URL("../bin/vidgen.js", import.meta.url));
const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
let folder: string;
let server: ReturnType<typeof run>;
let address: { base_url: string; media_url: string; api_key: string; page_url: string };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "vidgen-built-"));
  server = run(["serve", "--port", "0", "--media-port", "0", "--json", "--credits", "500"]);
  while (!server.stdout.includes("}")) await once(server.child.stdout as NodeJS.ReadableStream, "data");
  address = JSON.parse(server.stdout);
});

afterAll(async () => {
  server.child.kill("SIGTERM");
  await server.ended;
  await rm(folder, { recursive: true, force: true });
});

type Env = Record<string, string>;

function run(argv: string[], env: Env = {}, stdin = "") {
  const { NODE_EXTRA_CA_CERTS: _, VIDGEN_API_KEY: __, VIDGEN_BASE_URL: ___, ...inherited } = process.env;
  const child: ChildProcess = spawn(process.execPath, [bin, ...argv], {
    cwd: folder,
    env: { ...inherited, VIDGEN_HOME: join(folder, "home"), CI: "", ...env },
  });
  const result = {
    child,
    stdout: "",
    stderr: "",
    ended: Promise.resolve({ code: 0, signal: null, stdout: "", stderr: "" }),
  };
  child.stdout?.on("data", (chunk) => (result.stdout += chunk));
  child.stderr?.on("data", (chunk) => (result.stderr += chunk));
  child.stdin?.end(stdin);
  result.ended = once(child, "close").then(([code, signal]) => {
    const { stdout, stderr } = result;
    return { code, signal, stdout, stderr };
  });
  return result;
}

const remote = (): Env => ({ VIDGEN_BASE_URL: address.base_url, VIDGEN_API_KEY: address.api_key });
const vidgen = (argv: string[], env: Env = remote()) => run(argv, env).ended;

test("serve prints one document with --json: its addresses, a key, and a link to its page", async () => {
  const names = ["base_url", "media_url", "metrics_url", "api_key", "webhook_secret", "page_url", "engines"];
  expect(Object.keys(address)).toEqual(names);
  expect(address.base_url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  const signedIn = await useLink(address.page_url);
  expect(signedIn.status).toBe(200);
  const headers = { Cookie: cookieOf(signedIn) };
  const page = await (await fetch(address.base_url, { headers })).text();
  const [script = ""] = /\/assets\/page[^"]*\.js/.exec(page) ?? [];
  expect((await fetch(address.base_url + script)).headers.get("Content-Type")).toMatch(/^text\/javascript/);
  expect(statSync(join(folder, "home/service/service.json")).mode & 0o777).toBe(lacks("file modes") ? 0o666 : 0o600);
});

test("--verbose shows where a defect is, in the files of src", async () => {
  const defect = join(folder, "defect.cjs");
  writeFileSync(
    defect,
    `const { padEnd } = String.prototype;
    String.prototype.padEnd = function (width) {
      if (String(this) === "wan-2.5") throw new Error("on purpose");
      return padEnd.call(this, width);
    };`,
  );
  const { code, stderr } = await vidgen(["models", "--verbose"], { NODE_OPTIONS: `--require=${defect}` });
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/on purpose[\s\S]*[\\/]src[\\/]cli[\\/]commands[\\/]models\.ts:\d+:\d+/),
  ]);
});

test("a crash in the middle of a command shows no key, wherever that is from", async () => {
  const [key, saved] = ["canary-key-0123456789", "saved-key-9876543210"];
  const home = await mkdtemp(join(folder, "home-"));
  writeFileSync(join(home, "config.json"), JSON.stringify({ keys: { "https://x.example": saved } }));
  const defect = join(home, "defect.cjs");
  writeFileSync(
    defect,
    `const isCaught = () => process.listenerCount("uncaughtException") > 0;
    const crash = () => { throw new TypeError("cannot read ${key} and ${saved}"); };
    setInterval(() => isCaught() && crash(), 10);`,
  );
  const env = { VIDGEN_HOME: home, VIDGEN_API_KEY: key, NODE_OPTIONS: `--require=${defect}` };
  expect(await vidgen(["listen", "--port", "0"], env)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^error: Internal error in vidgen: cannot read \[key\] and \[key\]\n$/m),
  });
});

test("without the built program it says so, and what to do", async () => {
  const bare = await mkdtemp(join(folder, "bare-"));
  cpSync(dirname(bin), join(bare, "bin"), { recursive: true });
  writeFileSync(join(bare, "package.json"), '{"type":"module"}');
  const { code, stderr } = await spawnProcess(process.execPath, [join(bare, "bin/vidgen.js"), "models"], {}, bare)
    .ended;
  const line =
    /^error: Cannot load vidgen: .*cli\.cjs.*\n {2}Reinstall vidgen; an installation from git needs npm's scripts\.\n$/;
  expect([code, stderr]).toEqual([1, expect.stringMatching(line)]);
  // As in a fresh clone after `npm install -g .`.
  mkdirSync(join(bare, "src"));
  writeFileSync(join(bare, "src/build.mjs"), "");
  const clone = await spawnProcess(process.execPath, [join(bare, "bin/vidgen.js"), "models"], {}, bare).ended;
  const advice = `error: vidgen is not built yet. Build it with: cd "${realpathSync(bare)}" && npm ci && npm run build\n`;
  expect(clone).toMatchObject({ code: 1, stderr: advice });
});

test("a real round trip: generate, status, wait", async () => {
  const made = await vidgen(["generate", "a fox", "-d", "1", "-o", "fox.mp4"]);
  expect(made).toMatchObject({ code: 0, stdout: "fox.mp4\n" });
  const id = new RegExp(uuid).exec(made.stderr)?.[0] ?? "";
  const url = `${address.media_url}/${id}.mp4`;
  expect(await vidgen(["status", id, "--exit-status"])).toMatchObject({
    code: 0,
    stdout: `${id}\tcompleted\t${url}\n`,
  });
  expect(await vidgen(["wait", id, "-o", "again.mp4"])).toMatchObject({ code: 0, stdout: "again.mp4\n" });
  expect(readFileSync(join(folder, "again.mp4"))).toEqual(readFileSync(join(folder, "fox.mp4")));
});

const slowReader = `
  const { readSync } = require("node:fs");
  const piece = Buffer.alloc(4096);
  let bytes = 0;
  for (let read; (read = readSync(0, piece)) > 0; bytes += read) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
  console.log(bytes);`;

test.skipIf(lacks("sh"))("-o - to a slow reader hands over the last byte, too", async () => {
  const { stderr } = await vidgen(["generate", "a fox", "-o", "whole.mp4"]);
  const id = new RegExp(uuid).exec(stderr)?.[0] ?? "";
  const line = '"$0" "$1" wait "$2" -o - | "$0" -e "$3"';
  const env = { PATH: process.env.PATH, HOME: folder, VIDGEN_HOME: join(folder, "home"), ...remote() };
  const child = spawn("sh", ["-c", line, process.execPath, bin, id, slowReader], { cwd: folder, env });
  let bytes = "";
  child.stdout.on("data", (chunk) => (bytes += chunk));
  await once(child, "close");
  const { size } = statSync(join(folder, "whole.mp4"));
  expect(size).toBeGreaterThan(200_000);
  expect(bytes).toBe(`${size}\n`);
});

test("many ids in one wait are followed side by side, with no word from Node itself", async () => {
  const answer = JSON.stringify({ status: "processing", video_url: null });
  const busy = createServer((_, response) => void response.end(answer)).listen(0, "127.0.0.1");
  await once(busy, "listening");
  const VIDGEN_BASE_URL = `http://127.0.0.1:${(busy.address() as AddressInfo).port}`;
  const ids = Array.from({ length: 20 }, (_, i) => `id-${i}`);
  const { code, stderr } = await vidgen(["wait", ...ids, "--timeout", `${Math.ceil(slowness)}s`], {
    ...remote(),
    VIDGEN_BASE_URL,
  });
  busy.close();
  expect(stderr).not.toContain("node:");
  expect([code, stderr.match(/vidgen wait id-/g)?.length]).toEqual([5, 1]);
});

test("--local uses the serve that runs on this machine", async () => {
  const started = await vidgen(["generate", "a fox", "--local", "--no-wait"], {});
  expect(started.code).toBe(0);
  expect(await vidgen(["status", started.stdout.trim()])).toMatchObject({ code: 0 });
});

test.skipIf(lacks("signals"))(
  "listen receives the callback of the local service, knows its secret by itself, and ends well at SIGTERM",
  async () => {
    const seen: string[] = [];
    const application = createServer((request, response) => {
      seen.push(String(request.headers["webhook-id"]));
      response.writeHead(204).end();
    }).listen(0, "127.0.0.1");
    await once(application, "listening");
    const forward = `http://127.0.0.1:${(application.address() as AddressInfo).port}/hooks`;
    const listening = run(["listen", "--port", "0", "--forward", forward]);
    while (!listening.stderr.includes("Ctrl-C")) await once(listening.child.stderr as NodeJS.ReadableStream, "data");
    const [, url = ""] = /--callback-url (\S+)/.exec(listening.stderr) ?? [];
    const made = run(["generate", "a fox", "--local", "-d", "1", "-o", "heard.mp4", "--callback-url", url]);
    while (!listening.stdout.includes("\n")) await once(listening.child.stdout as NodeJS.ReadableStream, "data");
    listening.child.kill("SIGTERM");
    const { code, signal, stdout } = await listening.ended;
    const line = /^completed [0-9a-f]{8} signature ok -> 204 in \d+ ms\n$/;
    expect([code, signal, stdout, seen]).toEqual([
      0,
      null,
      expect.stringMatching(line),
      [expect.stringMatching(/^msg_/)],
    ]);
    expect((await made.ended).code).toBe(0);
    application.close();
  },
);

test("--local without a serve makes the video inside the process, and prints the file", async () => {
  const home = { VIDGEN_HOME: join(folder, "other-home") };
  const made = await vidgen(["generate", "an owl", "--local", "-d", "1", "--json"], home);
  expect(made.code).toBe(0);
  const document = JSON.parse(made.stdout);
  expect(document).toMatchObject({
    status: "completed",
    video_url: null,
    file: expect.stringMatching(/^an-owl-wan-2\.5-[0-9a-f]{8}\.mp4$/),
  });
  expect(statSync(join(folder, document.file)).size).toBeGreaterThan(1000);
  const later = await vidgen(["status", document.id, "--local"], home);
  expect(later).toMatchObject({ code: 0, stdout: expect.stringContaining("completed") });
});

const exits: [string, string[], number][] = [
  ["ok", ["models"], 0],
  ["rejected", ["generate", "x", "--set", "resolution=8k"], 1],
  ["usage", ["generate", "x", "--nope"], 2],
  ["failed", ["generate", "[fail]"], 4],
  ["pending", ["generate", "x [slow: 60s]", "--timeout", "1s"], 5],
  ["output", ["generate", "x", "-o", "/nowhere/at/all/x.mp4"], 9],
  ["not_found", ["status", "123e4567-e89b-12d3-a456-426614174000"], 10],
];
test.each(exits)("exit code for %s", async (_, argv, code) => {
  expect(await vidgen(argv)).toMatchObject({ code });
});

test("exit codes for a missing key, a bad key, a name that does not exist", async () => {
  expect(await vidgen(["generate", "x"], { VIDGEN_BASE_URL: address.base_url })).toMatchObject({ code: 3 });
  expect(await vidgen(["generate", "x"], { ...remote(), VIDGEN_API_KEY: "bad" })).toMatchObject({ code: 3 });
});

test("exit code for a service on this machine that does not run", async () => {
  expect(await vidgen(["status", "x"], { ...remote(), VIDGEN_BASE_URL: "https://127.0.0.1:1" })).toMatchObject({
    code: 8,
  });
});

test("a pipe that is closed early ends quietly", async () => {
  const { child, ended } = run(["models"]);
  child.stdout?.destroy();
  expect(await ended).toMatchObject({ code: 0, stderr: "" });
});

test("a pipe that is closed before it has the whole video has not saved it: exit 9, and the command to continue", async () => {
  const { child, ended } = run(["generate", "a fox", "-d", "1", "-o", "-", "--quiet"], remote());
  child.stdout?.destroy();
  const { code, stderr } = await ended;
  const words = "error: Cannot write the video to stdout: the reader closed the pipe\\.";
  expect([code, stderr]).toEqual([
    9,
    expect.stringMatching(new RegExp(`^${words}\n  Resume with: (npx )?vidgen wait ${uuid} -o -\n$`)),
  ]);
});

test.skipIf(lacks("sh"))(
  "a pipe whose reader stops early, though it holds all of a short video, has not delivered it: exit 9, and it is not paid for again",
  async () => {
    const env = { PATH: process.env.PATH, HOME: folder, VIDGEN_HOME: join(folder, "early"), ...remote() };
    const shell = async (line: string) => {
      const child = spawn("sh", ["-c", line, process.execPath, bin], { cwd: folder, env });
      let printed = "";
      child.stdout.on("data", (chunk) => (printed += chunk));
      await once(child, "close");
      return printed;
    };
    const early = (words: string) =>
      shell(`exec 3>&1; { "$0" "$1" ${words} -o - -q 2>&3; echo "exit $?" >&3; } | head -c 9 > /dev/null`);
    const words = ["generate 'a fox' --local -d 0.5", "generate 'a fox' --local -d 0.5", "wait last"];
    for (const each of words) expect(await early(each)).toContain("exit 9");
    const list = await run(["list", "--json"], { VIDGEN_HOME: join(folder, "early") }).ended;
    expect(JSON.parse(list.stdout)).toMatchObject([{ status: "completed" }]);
    const again = ["again last --local -d 0.5", "again last --local -d 0.5"];
    for (const each of again) expect(await early(each)).toContain("exit 9");
    expect(
      JSON.parse((await run(["list", "--json"], { VIDGEN_HOME: join(folder, "early") }).ended).stdout),
    ).toHaveLength(2);
    const bytes = Number(await shell('"$0" "$1" again last --local -d 0.5 -o - -q | wc -c'));
    // Else the pipe would not hold it.
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThan(65_536);
  },
);

test("a reader of events that goes away stops nothing that is paid for", async () => {
  const { child, ended } = run(["generate", "a fox", "-d", "1", "-o", "unread.mp4", "--events"], remote());
  await once(child.stdout as NodeJS.ReadableStream, "data");
  child.stdout?.destroy();
  const { code, stderr } = await ended;
  expect([code, stderr]).toEqual([0, expect.not.stringContaining("error")]);
  expect(existsSync(join(folder, "unread.mp4"))).toBe(true);
});

test("a full disk behind the events is exit 9, and the video is saved", {
  skip: !existsSync("/dev/full"),
}, async () => {
  const line = `"$0" "$1" generate "a fox" -d 1 -o unwritten.mp4 --events > /dev/full`;
  const env = { PATH: process.env.PATH, HOME: folder, VIDGEN_HOME: join(folder, "home"), ...remote() };
  const child = spawn("sh", ["-c", line, process.execPath, bin], { cwd: folder, env });
  let stderr = "";
  child.stderr.on("data", (chunk) => (stderr += chunk));
  const [code] = await once(child, "close");
  expect([code, stderr]).toEqual([9, expect.stringContaining("Cannot write to stdout: ENOSPC")]);
  expect(existsSync(join(folder, "unwritten.mp4"))).toBe(true);
});

test.skipIf(lacks("signals"))(
  "SIGINT with --events: the last lines are the error and the summary, and it ends by that signal",
  async () => {
    const { child, ended } = run(["generate", "a fox [slow: 60s]", "--events"], remote());
    while (!/"state"/.test(String(await once(child.stdout as NodeJS.ReadableStream, "data")))) {}
    child.kill("SIGINT");
    const { signal, stdout } = await ended;
    const last = stdout.trimEnd().split("\n").slice(-2);
    expect([signal, ...last.map((line) => JSON.parse(line))]).toEqual([
      "SIGINT",
      expect.objectContaining({ event: "error", error: expect.objectContaining({ code: "interrupted" }) }),
      expect.objectContaining({ event: "summary", exit_code: 130, running: 1 }),
    ]);
  },
);

const printing = ["models", "--help", "--version", "help exit-codes"];
test.each(printing)("a full disk behind stdout of %s is an error", { skip: !existsSync("/dev/full") }, async (line) => {
  const child = spawn("sh", ["-c", `"$0" "$1" ${line} > /dev/full`, process.execPath, bin], { cwd: folder });
  let stderr = "";
  child.stderr.on("data", (chunk) => (stderr += chunk));
  const [code] = await once(child, "close");
  expect([code, stderr]).toEqual([9, expect.stringContaining("Cannot write to stdout")]);
});

test.skipIf(lacks("signals")).each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
  "%s while it runs: the id and the command to go on, no stack, and it ends by that signal",
  async (signal) => {
    const { child, ended } = run(["generate", "a fox [slow: 60s]", "-o", "slow.mp4"], remote());
    while (!/Generating/.test(String(await once(child.stderr as NodeJS.ReadableStream, "data")))) {}
    child.kill(signal);
    const { signal: end, stdout, stderr } = await ended;
    expect([end, stdout]).toEqual([signal, ""]);
    expect(stderr).toMatch(new RegExp(`vidgen wait ${uuid} -o slow\\.mp4`));
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(readdirSync(folder).filter((name) => name.startsWith("slow"))).toEqual([]);
  },
);

test.skipIf(lacks("signals"))(
  "SIGINT while the local service renders inside the process leaves no file behind, and says how to go on",
  async () => {
    const home = { VIDGEN_HOME: join(folder, "third-home"), TMPDIR: await mkdtemp(join(folder, "tmp-")) };
    const { child, ended } = run(
      ["generate", "a slow fox", "--local", "-d", "60", "-r", "1080p", "-o", "mine.mp4"],
      home,
    );
    while (!/Generating/.test(String(await once(child.stderr as NodeJS.ReadableStream, "data")))) {}
    child.kill("SIGINT");
    expect(await ended).toMatchObject({ signal: "SIGINT", stderr: expect.stringContaining(" --local -o mine.mp4") });
    expect([existsSync(join(folder, "mine.mp4")), readdirSync(home.TMPDIR)]).toEqual([false, []]);
  },
);

test.skipIf(lacks("signals"))(
  "one SIGINT is one, with a saved key too: the id of the request that is out is waited for",
  async () => {
    const home = { VIDGEN_HOME: join(folder, "fifth-home") };
    const slow = createServer((request, response) => {
      if (request.method !== "POST")
        return void response.writeHead(404, { "Content-Type": "application/json" }).end("{}");
      slow.emit("start");
      setTimeout(
        () => response.end(JSON.stringify({ success: true, data: { id: "slow-id", status: "processing" } })),
        700,
      );
    }).listen(0, "127.0.0.1");
    await once(slow, "listening");
    const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`;
    await run(["login", "--with-token", "--base-url", url], home, "a-key-to-keep").ended;
    const { child, ended } = run(["generate", "a fox"], home);
    await once(slow, "start");
    child.kill("SIGINT");
    expect(await ended).toMatchObject({
      signal: "SIGINT",
      stderr: expect.stringMatching(/waiting up to 10 s[\s\S]*vidgen wait slow-id/),
    });
    slow.close();
  },
);

test("--local sends nothing, least of all the key, to whoever has the port of a service that was killed", async () => {
  const home = join(folder, "sixth-home");
  const seen: string[] = [];
  const other = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`);
    response.writeHead(404).end('{"error":{"code":"not_found"}}');
  });
  await once(other.listen(0, "127.0.0.1"), "listening");
  const base_url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  mkdirSync(join(home, "service"), { recursive: true });
  writeFileSync(
    join(home, "service/service.json"),
    JSON.stringify({ api_key: `vgs_${"0".repeat(48)}`, base_url, media_url: base_url }),
  );
  const made = await vidgen(["generate", "a hare", "--local", "-d", "1", "-o", "hare.mp4"], { VIDGEN_HOME: home });
  expect(made).toMatchObject({ code: 0, stdout: "hare.mp4\n" });
  expect(seen).toEqual([]);
  other.close();
});

test("a video that comes as a data: URL of megabytes is no result without -o, and saved with it, and paid for once", async () => {
  const video = Buffer.from(tinyMp4("x".repeat(6_000_000)));
  let starts = 0;
  const service = createServer((request, response) => {
    if (request.method === "POST") starts++;
    const started = { success: true, data: { id: "big-1", status: "processing" } };
    const completed = {
      id: "big-1",
      status: "completed",
      video_url: `data:video/mp4;base64,${video.toString("base64")}`,
    };
    request.resume().on("end", () => response.end(JSON.stringify(request.method === "POST" ? started : completed)));
  }).listen(0, "127.0.0.1");
  await once(service, "listening");
  const { port } = service.address() as AddressInfo;
  const env = {
    VIDGEN_BASE_URL: `http://127.0.0.1:${port}`,
    VIDGEN_API_KEY: "key-0123456789",
    VIDGEN_HOME: join(folder, "big"),
  };
  try {
    const without = await vidgen(["generate", "a fox", "-m", "veo-3.1"], env);
    expect(without).toMatchObject({ code: 9, stdout: "", stderr: expect.stringContaining("add -o to save it") });
    const again = await vidgen(["generate", "a fox", "-m", "veo-3.1", "-o", "big.mp4"], env);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining("big.mp4") });
    expect([readFileSync(join(folder, "big.mp4")).equals(video), starts]).toEqual([true, 1]);
    const written = readdirSync(join(folder, "big"), { recursive: true, withFileTypes: true }).filter((each) =>
      each.isFile(),
    );
    for (const { parentPath, name } of written) expect(statSync(join(parentPath, name)).size).toBeLessThan(100_000);
  } finally {
    service.close();
  }
});

test("an id that cannot be printed on stdout is in the error", { skip: !existsSync("/dev/full") }, async () => {
  const line = `"$0" "$1" generate x --no-wait --json > /dev/full`;
  const child = spawn("sh", ["-c", line, process.execPath, bin], { cwd: folder, env: { ...process.env, ...remote() } });
  let stderr = "";
  child.stderr.on("data", (chunk) => (stderr += chunk));
  const [code] = await once(child, "close");
  expect([code, JSON.parse(stderr).error.id]).toEqual([9, expect.stringMatching(uuid)]);
});

test.skipIf(lacks("signals"))("SIGTERM ends serve with 0, and takes its addresses back", async () => {
  const home = { VIDGEN_HOME: join(folder, "fourth-home") };
  const own = run(["serve", "--port", "0", "--media-port", "0"], home);
  while (!own.stderr.includes("Ctrl-C")) await once(own.child.stderr as NodeJS.ReadableStream, "data");
  expect(own.stdout).toMatch(/^http:\/\/127\.0\.0\.1:\d+\n$/);
  expect(own.stderr).toMatch(/^export VIDGEN_BASE_URL=http:\S+\n/);
  const { api_key, webhook_secret } = JSON.parse(
    readFileSync(join(folder, "fourth-home/service/service.json"), "utf8"),
  );
  for (const secret of [api_key, webhook_secret, "token="]) expect(own.stderr).not.toContain(secret);
  expect(own.stderr).toContain(join(folder, "fourth-home/service/service.json"));
  expect(own.stderr).toContain("vidgen serve --link");
  own.child.kill("SIGTERM");
  expect(await own.ended).toMatchObject({ code: 0 });
  const left = JSON.parse(readFileSync(join(folder, "fourth-home/service/service.json"), "utf8"));
  expect(Object.keys(left)).toEqual(["api_key", "webhook_secret", "runs"]);
});

test.skipIf(lacks("signals"))("serve --quiet prints its address alone: no key, no hints", async () => {
  const home = { VIDGEN_HOME: join(folder, "eighth-home") };
  const own = run(["serve", "--port", "0", "--media-port", "0", "--quiet"], home);
  while (!own.stdout.includes("\n")) await once(own.child.stdout as NodeJS.ReadableStream, "data");
  own.child.kill("SIGTERM");
  expect(await own.ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/^http:\S+\n$/), stderr: "" });
});

test("a port in use is a usage error that names the flag", async () => {
  const port = new URL(address.base_url).port;
  const home = { VIDGEN_HOME: join(folder, "seventh-home") };
  expect(await vidgen(["serve", "--port", port, "--media-port", "0"], home)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/is in use.*--port/s),
  });
});

test("pictures of this folder become a video, with its info beside it; a broken one fails that video alone", async () => {
  writeFileSync(join(folder, "fox.png"), aPng(64, 48));
  writeFileSync(join(folder, "broken.png"), aPng(64, 48).subarray(0, 60));
  const images = ["-i", "fox.png", "--last-image", "fox.png"];
  const argv = ["generate", "a fox", ...images, "--duration", "1", "--local", "-o", "pictured.mp4"];
  // The shared service still renders what the tests of the signals have left.
  const home = { VIDGEN_HOME: join(folder, "picture-home") };
  const { code, stdout, stderr } = await vidgen([...argv, "--write-info-json"], home);
  expect([code, stdout]).toEqual([0, "pictured.mp4\n"]);
  expect(stderr).not.toContain("data: URL");
  expect(readFileSync(join(folder, "pictured.mp4")).toString("latin1", 4, 8)).toBe("ftyp");
  const info = JSON.parse(readFileSync(join(folder, "pictured.mp4.json"), "utf8"));
  expect(info.request).toMatchObject({ prompt: "a fox", imageUrl: expect.stringMatching(/^sha256:/), duration: 1 });
  const withReference = (name: string) => ["generate", `a ${name}`, "--reference", name, "-d", "1", "--local"];
  const failed = await vidgen([...withReference("broken.png"), "-o", "broken.mp4"], home);
  expect(failed).toMatchObject({ code: 4, stderr: expect.stringMatching(/cannot be decoded/) });
  expect(existsSync(join(folder, "broken.mp4"))).toBe(false);
  expect(await vidgen([...withReference("fox.png"), "-o", "hero.mp4"], home)).toMatchObject({ stdout: "hero.mp4\n" });
});

test("a batch that is killed continues where it was: each row is paid for once, and its video is whole", async () => {
  // The shared service still renders for the tests before this one.
  const home = { VIDGEN_HOME: join(folder, "ninth-home") };
  const own = run(["serve", "--port", "0", "--media-port", "0", "--json", "--credits", "500"], home);
  while (!own.stdout.includes("}")) await once(own.child.stdout as NodeJS.ReadableStream, "data");
  const { base_url, api_key } = JSON.parse(own.stdout);
  const env = { ...home, VIDGEN_BASE_URL: base_url, VIDGEN_API_KEY: api_key };
  const rows = [1, 2, 3, 4].map((n) => `row-${n},a [slow: 3s] fox ${n},1`);
  writeFileSync(join(folder, "shots.csv"), ["id,prompt,duration", ...rows, ""].join("\n"));
  const argv = ["batch", "shots.csv", "-o", "clips/{id}.mp4", "--jobs", "2", "--interval", "1s"];
  const left = async () => JSON.parse((await vidgen(["generate", "x", "-d", "1", "--no-wait", "--json"], env)).stdout);
  const { remaining_credits: before } = await left();
  const { child, ended } = run([...argv, "--events"], env);
  let started = 0;
  while (started < 2)
    started += String(await once(child.stdout as NodeJS.ReadableStream, "data")).split('"started"').length - 1;
  child.kill("SIGKILL");
  expect(await ended).toMatchObject({ signal: "SIGKILL" });
  const again = await vidgen(argv, env);
  expect([again.code, again.stdout.trim().split("\n").sort()]).toEqual([
    0,
    [1, 2, 3, 4].map((n) => `clips/row-${n}.mp4`),
  ]);
  expect(again.stderr).toMatch(/4 rows: [23] running, [12] to start/);
  for (const n of [1, 2, 3, 4])
    expect(readFileSync(join(folder, `clips/row-${n}.mp4`)).toString("latin1", 4, 8)).toBe("ftyp");
  const { remaining_credits: after } = await left();
  // Four rows, and the generation that asked for the credits.
  expect(before - after).toBe(50);
  expect(await vidgen(["batch", "status", "shots.csv.results.jsonl"])).toMatchObject({ code: 0 });
  own.child.kill("SIGTERM");
  await own.ended;
});

describe.skipIf(!hasJq)("the examples of help output with jq", () => {
  const examples = [...readPage("output").text.matchAll(/^ {4}(vidgen .*\| jq .*)$/gm)].map(([, line = ""]) => line);
  const outputs = [new RegExp(`^${uuid}$`), /^\/.*\/owl\.mp4$/, /^wan-2\.5 \d$/, /^wan-2\.5$/, /^fox\.mp4$/, /^bear$/];

  test("are all that run here", () => expect(examples).toHaveLength(outputs.length));

  test("print what the page says", async () => {
    const env = { ...remote(), VIDGEN_HOME: await mkdtemp(join(folder, "home-")) };
    const own = await mkdtemp(join(folder, "jq-"));
    writeFileSync(join(own, "shots.csv"), "id,prompt,duration\nfox,a fox,1\nbear,a bear [fail],1\n");
    await vidgen(["generate", "an owl", "-d", "1", "-o", join(own, "owl.mp4")], env);
    for (const [i, example] of examples.entries()) {
      const line = `vidgen() { "${process.execPath}" "${bin}" "$@"; }; ${example}`;
      const shell = spawnProcess("bash", ["-c", line], env, own);
      expect((await shell.ended).stdout.trim(), example).toMatch(outputs[i] as RegExp);
    }
  });
});
