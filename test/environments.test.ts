import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect, type Server, type Socket } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { stripVTControlCharacters } from "node:util";
import ts from "typescript";
import { expect, onTestFinished, test, vi } from "vitest";
import { createCertificate } from "./faults/certificate.ts";
import { bin, spawnProcess, spawnVidgen } from "./faults/spawned.ts";
import { makeFolder } from "./folder.ts";
import { tinyMp4 } from "./mp4.ts";
import { lacks } from "./needs.ts";
import { realIo } from "./real-io.ts";
import { createWorld } from "./vidgen.ts";

// Places that are not as comfortable as a terminal at home: by the built program in a process of its own, or by main() in this one.

async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket.on("error", () => {})));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}

const host = "api.video.example";
const certificate = createCertificate(host);

/** The service over TLS, under a name that stands in no directory but that of this process, and a proxy that leads there. */
async function createNetwork() {
  const folder = makeFolder();
  const seen = { service: 0, proxy: [] as string[] };
  const answer = JSON.stringify({ id: "x", status: "processing" });
  const service = createTlsServer(certificate, (_, response) => {
    seen.service++;
    response.writeHead(200, { "Content-Type": "application/json" }).end(answer);
  });
  const port = await listen(service);
  const proxy = createServer().on("connect", (request, socket) => {
    seen.proxy.push(`${request.method} ${request.url}`);
    const onward = connect(port, "127.0.0.1", () => socket.write("HTTP/1.1 200 Connection established\r\n\r\n"));
    onward
      .on("error", () => socket.destroy())
      .pipe(socket)
      .on("error", () => onward.destroy())
      .pipe(onward);
  });
  const names = join(folder, "names.cjs");
  const lookup = `(name, options, done) => name === "${host}" ? found(options, done) : done(new Error("no lookups here"))`;
  const found = `const found = (options, done) => options.all ? done(null, [{ address: "127.0.0.1", family: 4 }]) : done(null, "127.0.0.1", 4);`;
  writeFileSync(names, `${found}\nrequire("node:dns").lookup = ${lookup};\n`);
  writeFileSync(join(folder, "ca.pem"), certificate.cert);
  const baseUrl = `https://${host}:${port}`;
  const env = { VIDGEN_HOME: folder, VIDGEN_API_KEY: "a-key", VIDGEN_BASE_URL: baseUrl };
  const trusted = { NODE_OPTIONS: `--require ${names}`, NODE_EXTRA_CA_CERTS: join(folder, "ca.pem") };
  const proxyUrl = `http://127.0.0.1:${await listen(proxy)}`;
  const vidgen = (argv: string[], more: Record<string, string>) =>
    spawnVidgen(argv, { ...env, ...trusted, ...more }, folder).ended;
  return { seen, vidgen, status: (more: Record<string, string>) => vidgen(["status", "x"], more), port, proxyUrl };
}

test("HTTPS_PROXY is used, by CONNECT: the proxy sees where to, and nothing else", async () => {
  const { seen, status, port, proxyUrl } = await createNetwork();
  for (const name of ["HTTPS_PROXY", "https_proxy"])
    expect(await status({ [name]: proxyUrl })).toMatchObject({ code: 0, stdout: "x\tprocessing\n" });
  expect(seen).toEqual({ service: 2, proxy: Array(2).fill(`CONNECT ${host}:${port}`) });
});

test.each([host, ".video.example", "other.example, *"])("NO_PROXY=%s goes past it", async (except) => {
  const { seen, status, proxyUrl } = await createNetwork();
  const run = await status({ HTTPS_PROXY: proxyUrl, NO_PROXY: except });
  expect([run.code, seen]).toEqual([0, { service: 1, proxy: [] }]);
});

test.each(["407 Proxy Authentication Required", "403 Forbidden"])(
  "a proxy that says %s is asked once by a start, which sends nothing",
  async (says) => {
    let asked = 0;
    const proxy = createServer().on("connect", (_, socket) => {
      asked++;
      socket.end(`HTTP/1.1 ${says}\r\n\r\n`);
    });
    const { vidgen } = await createNetwork();
    const run = await vidgen(["generate", "a fox"], { https_proxy: `ann:secret@127.0.0.1:${await listen(proxy)}` });
    expect(run).toMatchObject({ code: 8, stderr: expect.stringMatching(/https_proxy.*Nothing was sent/s) });
    expect([asked, run.stderr.includes("secret")]).toEqual([1, false]);
  },
);

test("a SOCKS proxy in ALL_PROXY is named in one warning, and not used", async () => {
  const { seen, status } = await createNetwork();
  const run = await status({ ALL_PROXY: "socks5://127.0.0.1:1" });
  expect(run).toMatchObject({ code: 0, stdout: "x\tprocessing\n" });
  // On Windows, names of variables have no case.
  expect(run.stderr.match(/ALL_PROXY/gi)).toHaveLength(1);
  expect(seen.service).toBe(1);
});

test("a private CA counts once NODE_EXTRA_CA_CERTS names it, as every command says", async () => {
  const { seen, status, vidgen } = await createNetwork();
  expect(await status({})).toMatchObject({ code: 0 });
  const untrusted = await vidgen(["generate", "a fox"], { NODE_EXTRA_CA_CERTS: "" });
  expect(untrusted).toMatchObject({ code: 8, stderr: expect.stringMatching(/self-signed.*Nothing was sent/) });
  const hint = "for a private CA, set NODE_EXTRA_CA_CERTS to its file";
  expect(untrusted.stderr).toContain(hint);
  for (const argv of [["status", "x"], ["accounts"], ["cancel", "7d562bbb-dd0f-4c2b-a2f6-0fa1c4cb1d2e"]])
    expect(await vidgen(argv, { NODE_EXTRA_CA_CERTS: "" })).toMatchObject({
      code: 8,
      stderr: expect.stringContaining(hint),
    });
  expect(seen.service).toBe(1);
});

test("doctor tells of the proxy and of the certificate as they are", async () => {
  const { seen, vidgen, proxyUrl } = await createNetwork();
  const through = await vidgen(["doctor"], { HTTPS_PROXY: proxyUrl });
  expect(through.stdout).toMatch(
    new RegExp(`proxy +${proxyUrl}, .*\n.*resolved by the proxy\n.*a trusted certificate`),
  );
  expect(seen.proxy).toHaveLength(1);
  const untrusted = await vidgen(["doctor"], { NODE_EXTRA_CA_CERTS: "" });
  expect(untrusted.stdout).toMatch(/^fail {2}connection +self-signed.*NODE_EXTRA_CA_CERTS to its file\n.*clock/m);
  const [refused, unknown] = await Promise.all([
    vidgen(["doctor"], { HTTPS_PROXY: "http://127.0.0.1:1" }),
    vidgen(["doctor"], { VIDGEN_BASE_URL: "https://other.example" }),
  ]);
  expect(refused).toMatchObject({ code: 8, stdout: expect.stringMatching(/^fail {2}connection .*\n.*HTTPS_PROXY/im) });
  expect(unknown).toMatchObject({ code: 8 });
});

test.skipIf(lacks("HOME")).each([
  ["no HOME", () => ""],
  ["a HOME that cannot be written", (folder: string) => join(folder, "file")],
])("with %s --local makes nothing, and says how to give it a place", async (_, homeIn) => {
  const folder = makeFolder();
  writeFileSync(join(folder, "file"), "");
  const env = { HOME: homeIn(folder), TMPDIR: folder };
  const run = await spawnVidgen(["generate", "a fox", "--local", "-d", "1", "-o", "fox.mp4"], env, folder).ended;
  expect(run).toMatchObject({ code: 9, stdout: "" });
  expect(run.stderr).toMatch(/^error: .* Nothing was sent, nothing was charged\.\n {2}.*VIDGEN_HOME/);
  expect(readdirSync(folder)).toEqual(["file"]);
});

test.each(["12.22.12", "18.20.8", "20.18.3"])("Node %s is told in one line that it is too old", async (version) => {
  const folder = makeFolder();
  const lie = join(folder, "lie.cjs");
  writeFileSync(
    lie,
    `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } });
    const Module = require("module");
    const load = Module._load;
    Module._load = (name, ...more) => {
      if (/^node:/.test(name)) throw new Error("Node 12 has no " + name);
      return load(name, ...more);
    };`,
  );
  const { code, stdout, stderr } = await spawnProcess(process.execPath, ["--require", lie, bin, "models"], {}, folder)
    .ended;
  const line = `error: vidgen needs Node 20.19 or later; this is ${version}.\n`;
  expect([code, stdout, stderr]).toEqual([1, "", line]);
});

test("the program's first file can be read by Node 12", () => {
  const text = readFileSync(bin, "utf8");
  const emit = (target: ts.ScriptTarget) =>
    ts.transpileModule(text, { compilerOptions: { target, module: ts.ModuleKind.ES2020 } }).outputText;
  expect(emit(ts.ScriptTarget.ES2019)).toBe(emit(ts.ScriptTarget.ESNext));
  const atTop = (node: ts.Node): boolean =>
    ts.isAwaitExpression(node) || (!ts.isFunctionLike(node) && ts.forEachChild(node, atTop)) || false;
  const source = ts.createSourceFile(bin, text, ts.ScriptTarget.ESNext);
  expect([atTop(source), source.statements.some(ts.isImportDeclaration)]).toEqual([false, false]);
  const { engines } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  expect(text).toContain(engines.node.replace(">=", ""));
});

test.each([
  ["CI=true", { CI: "true" }, []],
  ["TERM=dumb", { TERM: "dumb" }, ["--no-input"]],
])("%s: no question in CI, no moving line, no colour where it is dumb", async (_, env, flags) => {
  const world = await createWorld();
  world.isTerminal = true;
  Object.assign(world.env, env);
  expect(await world.vidgen("generate", ...flags)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("prompt is missing"),
  });
  const run = await world.vidgen("generate", "a fox");
  expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(/^https:\S+\n$/) });
  expect(run.stderr).not.toContain("\u001b");
});

test("NO_COLOR and TERM=dumb: an error is plain text", async () => {
  for (const env of [{ NO_COLOR: "1" }, { TERM: "dumb" }]) {
    const world = await createWorld();
    world.isTerminal = true;
    Object.assign(world.env, env);
    expect((await world.vidgen("status")).stderr).toMatch(/^error: /);
  }
});

test("a terminal of 40 columns: each line of the list fits", async () => {
  const world = await createWorld();
  world.isTerminal = true;
  world.columns = 40;
  for (const prompt of ["a red fox runs through snow at dusk", "waves"])
    await world.vidgen("generate", prompt, "-o", join(world.folder, `${prompt.length}.mp4`));
  await world.vidgen("generate", "a hare", "--no-wait");
  const stdout = stripVTControlCharacters((await world.vidgen("list")).stdout);
  const lines = stdout.split("\n").filter((line) => !line.endsWith(".mp4"));
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(40);
  for (const entry of JSON.parse((await world.vidgen("list", "--json")).stdout))
    expect(stdout).toContain(entry.id.slice(0, 8));
  expect(stdout).toMatch(/completed +a red fox/);
});

test("a terminal of 40 columns: the help is wrapped to it", async () => {
  const world = await createWorld();
  world.isTerminal = true;
  world.columns = 40;
  const narrow = (await world.vidgen("wait", "--help")).stdout;
  world.columns = 120;
  const wide = (await world.vidgen("wait", "--help")).stdout;
  const flags = (text: string) => text.slice(text.indexOf("Waiting:")).split("\n");
  expect(flags(narrow).length).toBeGreaterThan(flags(wide).length);
  expect(Math.max(...flags(narrow).map(({ length }) => length))).toBeLessThanOrEqual(40);
});

test.each(["", "HTTP/1.1 100 Continue\r\n\r\n"])(
  "a proxy that says %j to CONNECT and hangs up is asked once a try, and nothing was sent",
  async (says) => {
    let calls = 0;
    const proxy = createServer().on("connect", (_, socket) => {
      calls++;
      socket.end(says);
    });
    vi.stubEnv("HTTPS_PROXY", `http://127.0.0.1:${await listen(proxy)}`);
    onTestFinished(() => void vi.unstubAllEnvs());
    const { createFetch } = await import("../src/client/http/http.ts");
    const headers = { "Idempotency-Key": "attempt-1" };
    const posting = createFetch(process.env)(`https://${host}/`, { method: "POST", headers, body: "{}" });
    await expect(posting).rejects.toMatchObject({ sent: false });
    expect(calls).toBe(1);
  },
);

test("an opened player is not told the key", async () => {
  const folder = makeFolder();
  vi.stubEnv("VIDGEN_API_KEY", "canary-key-0123456789");
  vi.stubEnv("SEEN_BY_PLAYER", "yes");
  onTestFinished(() => void vi.unstubAllEnvs());
  const seen = join(folder, "seen.json");
  const script = `require("node:fs").writeFileSync(${JSON.stringify(`${seen}.part`)}, JSON.stringify(process.env)); require("node:fs").renameSync(${JSON.stringify(`${seen}.part`)}, ${JSON.stringify(seen)})`;
  await realIo().launch(process.execPath, ["-e", script]);
  await expect.poll(() => existsSync(seen)).toBe(true);
  const env = JSON.parse(readFileSync(seen, "utf8"));
  expect([env.SEEN_BY_PLAYER, env.VIDGEN_API_KEY]).toEqual(["yes", undefined]);
});

/** A service that completes each generation at once, over plain http on loopback, and the number of starts that it got. */
async function serveVideos() {
  const seen = { starts: 0 };
  const server = createServer(async (request, response) => {
    await request.resume().toArray();
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/video.mp4`;
    if (request.url === "/video.mp4") return void response.end(Buffer.from(tinyMp4("a fox")));
    if (request.method === "POST") seen.starts++;
    const started = { success: true, data: { id: `gen-${seen.starts}`, status: "processing" } };
    const id = new URL(url + request.url).searchParams.get("id");
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(request.method === "POST" ? started : { id, status: "completed", video_url: url }));
  });
  const VIDGEN_BASE_URL = `http://127.0.0.1:${await listen(server)}`;
  return { seen, env: { VIDGEN_BASE_URL, VIDGEN_API_KEY: "a-key-of-a-service" } };
}

/** Runs the built program in a shell that limits the address space to so many GB. */
async function runWithin(gigabytes: number, argv: string[], env: Record<string, string>) {
  const folder = makeFolder();
  const script = `ulimit -v ${gigabytes * 1024 ** 2} && exec "$0" "$@"`;
  const words = ["-c", script, process.execPath, bin, ...argv];
  const run = await spawnProcess("sh", words, { ...env, VIDGEN_HOME: join(folder, "home") }, folder).ended;
  return { ...run, folder };
}

test.skipIf(lacks("/proc")).each([4, 8, 16, 24])(
  "ulimit -v of %i GB: nothing is sent, or the video is saved",
  async (gigabytes) => {
    const { seen, env } = await serveVideos();
    const { code, stderr, folder } = await runWithin(gigabytes, ["generate", "a fox", "-o", "fox.mp4"], env);
    if (gigabytes === 24) return expect([code, seen.starts, existsSync(join(folder, "fox.mp4"))]).toEqual([0, 1, true]);
    expect([code, seen.starts]).toEqual([9, 0]);
    expect(stderr).toContain(`the limit of this process is ${gigabytes} GB`);
    expect(stderr).toContain("Nothing was sent, nothing was charged.");
    expect(stderr).toContain("needs 24 GB");
    // --no-wait delivers nothing; and the option of the hint is enough.
    expect(await runWithin(gigabytes, ["generate", "a fox", "--no-wait"], env)).toMatchObject({
      code: 0,
      stdout: "gen-1\n",
    });
    const unlimited = { ...env, NODE_OPTIONS: "--disable-wasm-trap-handler" };
    expect(await runWithin(gigabytes, ["wait", "gen-1", "-o", "fox.mp4"], unlimited)).toMatchObject({ code: 0 });
    expect(seen.starts).toBe(1);
  },
);

test.skipIf(lacks("/proc")).each([
  ["generate", "a fox", "--local"],
  ["serve", "--port", "0", "--media-port", "0"],
  ["doctor", "--local"],
])("with too little address space, `%s` says how much it needs", async (...argv) => {
  const { code, stdout, stderr } = await runWithin(8, argv, {});
  expect([code, stdout + stderr]).toEqual([
    9,
    expect.stringMatching(/the limit of this process is 8 GB.+needs 24 GB/s),
  ]);
});
