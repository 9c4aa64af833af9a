// Rehearses publishing: packs, publishes to a registry on this machine, installs from it with each Node, and makes a video with what came. Prints a row for each step; exit code 1 when one failed.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { findBase, useContainer } from "./container.mjs";

// The least that the package allows, and the newest of each later even one.
const nodes = { 20: "20.19.0", 22: "22", 24: "24", 26: "26" };
// What runs the library besides: the package of each with its program for this machine, where it is in it, and the words before a file.
const others = {
  Bun: { spec: "@oven/bun-linux-x64@1.4.5", path: "bin/bun", words: [] },
  Deno: { spec: "@deno/linux-x64-glibc@2.9.6", path: "deno", words: ["run", "--allow-all"] },
};
const hasOthers = process.platform === "linux" && process.arch === "x64";
// Installed at each run: 300 packages, which nothing else here needs.
const verdaccio = "6.10.4";
const maxPackedMegabytes = 2.5;
const maxInstalledMegabytes = 20;

const root = fileURLToPath(new URL("../..", import.meta.url));
const { name, version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const kept = join(root, "node_modules/.cache/rehearsal");
const foreign = join(root, "test/foreign");
const tarball = join(kept, `${name}-${version}.tgz`);
const folder = mkdtempSync(join(tmpdir(), "vidgen-rehearsal-"));
const tools = join(folder, "tools/node_modules");
const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("VIDGEN_"));
const env = { ...Object.fromEntries(inherited), npm_config_audit: "false", npm_config_update_notifier: "false" };
let registry;

try {
  if ((await step("pack", pack)) && (await step("checkers", installCheckers))) {
    await step("publint", () => runTool("publint/src/cli.js", "run", tarball, "--strict"));
    await step("attw", checkTypes);
    await step("sbom", writeSbom);
    if (
      (await step("tools", installTools)) &&
      (await step("registry", startRegistry)) &&
      (await step("publish", publish))
    ) {
      for (const major of Object.keys(nodes)) await step(`Node ${major}`, () => makeVideo(major));
      for (const title of Object.keys(others)) {
        if (hasOthers) await step(title, () => useLibrary(title));
        else printRow(title, "skipped", "", "only on Linux, x64");
      }
      const { base, reason } = findBase({ folder, node: nodeOf(22) });
      if (base === undefined) printRow("container", "skipped", "", `no podman that works: ${reason}`);
      else await step("container", () => useContainer({ root, folder, registry: `http://${registry.host}`, base }));
    }
  }
} finally {
  registry?.child.kill();
  rmSync(folder, { recursive: true, force: true });
}
process.stdout.write(process.exitCode ? "The rehearsal has failed.\n" : `Ready to publish: ${tarball}\n`);

/** Runs a step and prints its row, with what it returns. Resolves with whether it passed. */
async function step(title, action) {
  const start = performance.now();
  const seconds = () => `${((performance.now() - start) / 1000).toFixed(0)} s`;
  try {
    const detail = await action();
    printRow(title, "ok", seconds(), detail);
    return true;
  } catch (error) {
    printRow(title, "FAILED", seconds(), `${error.message}\n${error.stdout ?? ""}`);
    process.exitCode = 1;
    return false;
  }
}

function printRow(title, mark, time, detail = "") {
  process.stdout.write(`${title.padEnd(12)}${mark.padEnd(9)}${time.padStart(5)}   ${detail}\n`);
}

function run(command, argv, { cwd = root, ...more } = {}) {
  return execFileSync(command, argv, { cwd, env: { ...env, ...more }, encoding: "utf8", stdio: "pipe" });
}

function runTool(path, ...argv) {
  run(process.execPath, [join(foreign, "node_modules", path), ...argv]);
}

/** publint and attw are among the packages of the tests with foreign clients. */
function installCheckers() {
  if (!existsSync(join(foreign, "node_modules"))) run("npm", ["ci"], { cwd: foreign });
}

function checkTypes() {
  const attw = "@arethetypeswrong/cli/dist/index.js";
  runTool(attw, tarball, "--exclude-entrypoints", "ai-sdk");
  // The package ai is ESM alone.
  runTool(attw, tarball, "--entrypoints", "ai-sdk", "--profile", "esm-only");
}

function pack() {
  mkdirSync(kept, { recursive: true });
  run("npm", ["pack", "--pack-destination", kept]);
  return checkSize(statSync(tarball).size, maxPackedMegabytes);
}

function checkSize(bytes, most) {
  const size = `${(bytes / 1e6).toFixed(1)} MB`;
  if (bytes > most * 1e6) throw new Error(`${size}, more than ${most} MB`);
  return size;
}

/** What npm installs with the package; the packages that are bundled are in dist/THIRD_PARTY_NOTICES.txt. */
function writeSbom() {
  const text = run("npm", ["sbom", "--omit", "dev", "--sbom-format", "cyclonedx"]);
  writeFileSync(join(kept, `${name}-${version}.cdx.json`), text);
  return `${JSON.parse(text).components.length} packages`;
}

function installTools() {
  mkdirSync(join(folder, "tools"));
  // Verdaccio asks for node-fetch by a tag that not every mirror of the registry has.
  writeFileSync(join(folder, "tools/package.json"), '{"overrides":{"node-fetch":"2.7.0"}}');
  const node = `node-${process.platform}-${process.arch}`;
  const specs = Object.entries(nodes).map(([major, range]) => `node-${major}@npm:${node}@${range}`);
  if (hasOthers) specs.push(...Object.entries(others).map(([title, { spec }]) => `${title.toLowerCase()}@npm:${spec}`));
  run("npm", ["install", "--prefer-offline", `verdaccio@${verdaccio}`, ...specs], { cwd: join(folder, "tools") });
}

/** Starts the registry: it has the package alone, and takes what that needs from where this machine's npm does. It ends with this process. */
async function startRegistry() {
  const config = {
    configPath: join(folder, "verdaccio.json"),
    storage: join(folder, "storage"),
    auth: { htpasswd: { file: join(folder, "htpasswd") } },
    uplinks: { npm: { url: run("npm", ["config", "get", "registry"]).trim() } },
    packages: { [name]: { access: "$all", publish: "$all" }, "**": { access: "$all", proxy: "npm" } },
    log: { type: "stdout", level: "fatal" },
  };
  const script = `require("verdaccio").runServer(${JSON.stringify(config)}).then((server) =>
    server.listen(0, "127.0.0.1", () => console.log(server.address().port)));
    process.stdin.resume().on("end", () => process.exit());`;
  const child = spawn(nodeOf(24), ["-e", script], { cwd: join(folder, "tools"), stdio: ["pipe", "pipe", "inherit"] });
  const [port] = await Promise.race([once(child.stdout, "data"), once(child, "exit").then(() => [])]);
  if (port === undefined) throw new Error("verdaccio has ended");
  registry = { child, host: `127.0.0.1:${String(port).trim()}` };
  return registry.host;
}

function publish() {
  const npmrc = join(folder, "npmrc");
  // npm publishes nothing without a token, though this registry asks for none.
  writeFileSync(npmrc, `//${registry.host}/:_authToken=none\n`);
  run("npm", ["publish", tarball, "--no-provenance", "--userconfig", npmrc, ...fromRegistry()]);
  return run("npm", ["view", name, "dist.shasum", ...fromRegistry()]).trim();
}

/** The flags that make npm ask the registry of this rehearsal, and not what it remembers of another. */
function fromRegistry() {
  return ["--registry", `http://${registry.host}`, "--cache", join(folder, "cache")];
}

/** Installs the package in an empty folder and makes a video with it. */
function makeVideo(major) {
  const cwd = join(folder, `with-node-${major}`);
  mkdirSync(cwd);
  const own = { cwd, PATH: `${join(nodeOf(major), "..")}${delimiter}${env.PATH}`, VIDGEN_HOME: join(cwd, "home") };
  const used = run("node", ["--version"], own).trim();
  if (!used.startsWith(`v${major}.`)) throw new Error(`this is Node ${used}`);
  run("npm", ["install", name, ...fromRegistry()], own);
  const size = checkSize(bytesIn(join(cwd, "node_modules")), maxInstalledMegabytes);
  const stdout = run("npx", ["vidgen", "generate", "a fox", "--local", "-d", "1", "-o", "fox.mp4"], own);
  const video = readFileSync(join(cwd, "fox.mp4"));
  if (stdout !== "fox.mp4\n" || video.toString("latin1", 4, 8) !== "ftyp") throw new Error(`no video: ${stdout}`);
  return `${used}: ${size} installed, a video of ${Math.round(video.length / 1e3)} kB`;
}

/** Runs the first program of the library's page with Bun or Deno, against a service of the same package. */
async function useLibrary(title) {
  const { path, words } = others[title];
  const cwd = join(folder, `with-${title}`);
  mkdirSync(cwd);
  run("npm", ["install", name, ...fromRegistry()], { cwd });
  const [, program] = /^```ts\n([\s\S]*?)^```$/m.exec(readFileSync(join(root, "src/docs/library.md"), "utf8"));
  writeFileSync(join(cwd, "program.mjs"), program);
  const home = { ...env, VIDGEN_HOME: join(cwd, "home") };
  const serve = ["node_modules/vidgen/bin/vidgen.js", "serve", "--json", "--port", "0", "--media-port", "0"];
  const service = spawn(process.execPath, serve, { cwd, env: home, stdio: ["ignore", "pipe", "inherit"] });
  try {
    let document = "";
    for await (const text of service.stdout.setEncoding("utf8")) {
      document += text;
      if (/^\}$/m.test(document)) break;
    }
    const { base_url: VIDGEN_BASE_URL, api_key: VIDGEN_API_KEY } = JSON.parse(document);
    const command = join(tools, title.toLowerCase(), path);
    const cache = { DENO_DIR: join(cwd, "deno"), BUN_INSTALL_CACHE_DIR: join(cwd, "bun") };
    const stdout = run(command, [...words, "program.mjs"], { cwd, VIDGEN_BASE_URL, VIDGEN_API_KEY, ...cache });
    const [file] = /\S+\.mp4$/m.exec(stdout) ?? [];
    if (file === undefined) throw new Error(`no video: ${stdout}`);
    return `${run(command, ["--version"]).split("\n")[0]}: a video of ${Math.round(statSync(join(cwd, file)).size / 1e3)} kB`;
  } finally {
    service.kill();
  }
}

function nodeOf(major) {
  return join(tools, `node-${major}/bin/node`);
}

function bytesIn(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
