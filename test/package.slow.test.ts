import { execFile } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { foreignPackages, isForeignInstalled } from "./needs.ts";
import { whileServing } from "./soak/serve.ts";

// The package as npm packs it, installed in an empty folder. npm asks the registry for a dependency only when its cache has none.

const root = fileURLToPath(new URL("..", import.meta.url));
const quickly = ["--prefer-offline", "--no-audit", "--no-fund"];
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "vidgen-package-"));
  await run("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], root);
  const [tarball = ""] = readdirSync(folder);
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  await run("npm", ["install", ...quickly, `./${tarball}`]);
});

afterAll(() => rmSync(folder, { recursive: true }));

function run(command: string, argv: string[], cwd = folder, variables: Record<string, string> = {}) {
  const { NODE_EXTRA_CA_CERTS: _, ...inherited } = process.env;
  const env = { ...inherited, VIDGEN_HOME: join(folder, "home"), ...variables };
  return promisify(execFile)(command, argv, { cwd, env });
}

const tool = (name: string) => join(root, "node_modules", name);
const foreign = (name: string) => join(foreignPackages, name);

test("depends on its WebAssembly packages and undici alone, and nothing runs a script when it is installed", () => {
  const { packages } = JSON.parse(readFileSync(join(folder, "node_modules/.package-lock.json"), "utf8"));
  const names = Object.keys(packages).map((path) => path.replace("node_modules/", ""));
  const own = ["@cwasm/webp", "@resvg/resvg-wasm", "h264-mp4-encoder", "node-sqlite3-wasm", "undici", "vidgen"];
  expect(names).toEqual(["@canvas/image-data", ...own]);
  expect(Object.values(packages)).not.toContainEqual(expect.objectContaining({ hasInstallScript: true }));
  const { scripts } = JSON.parse(read("package.json"));
  expect(Object.keys(scripts).filter((name) => /install/.test(name))).toEqual([]);
});

test("an installation from git builds it, in an empty home", async () => {
  const home = join(folder, "empty");
  mkdirSync(home);
  const setting = async (name: string) => (await run("npm", ["config", "get", name])).stdout.trim();
  const npmEnv = { npm_config_cache: await setting("cache"), npm_config_userconfig: await setting("userconfig") };
  const env = { ...npmEnv, HOME: home, VIDGEN_HOME: "" };
  const line = ["--yes", ...quickly, `git+file://${root}`, "generate", "a fox", "--local", "-d", "1", "-o", "fox.mp4"];
  expect((await run("npx", line, home, env)).stdout).toBe("fox.mp4\n");
});

test("npm ci in a clone has nothing to warn of on Node 20: no install script, and no package that wants a newer Node", () => {
  type Locked = { hasInstallScript?: true; optional?: true; engines?: { node?: string } };
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  const locked = Object.entries<Locked>(packages).filter(([, { optional }]) => !optional);
  const takesNode20 = (range = "*") => range.split("||").some((each) => /^\D*(1?\d|20)\b|\*/.test(each));
  const warned = locked.filter(([, { hasInstallScript, engines }]) => hasInstallScript || !takesNode20(engines?.node));
  expect(locked.length).toBeGreaterThan(100);
  expect(warned.map(([path]) => path)).toEqual([]);
});

test("installed for all, it brings the page that `man vidgen` shows", {
  skip: process.platform === "win32",
}, async () => {
  const prefix = join(folder, "all");
  const [tarball = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  await run("npm", ["install", "--global", "--prefix", prefix, ...quickly, `./${tarball}`]);
  expect(readFileSync(join(prefix, "share/man/man1/vidgen.1"), "utf8")).toMatch(/^\.TH /m);
});

test("makes a video, local service and all", async () => {
  const made = await run("npx", ["vidgen", "generate", "a fox", "--local", "-d", "1", "-o", "fox.mp4"]);
  expect(made.stdout).toBe("fox.mp4\n");
  expect(statSync(join(folder, "fox.mp4")).size).toBeGreaterThan(1000);
});

test("a PostgreSQL database needs packages of its own, and the error has the line that installs them", async () => {
  const served = run("npx", ["vidgen", "serve", "--database", "postgres://vidgen@127.0.0.1:1/vidgen"]);
  await expect(served).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining("npm install pg") });
});

test("brings the page for AI agents as a skill, the one that it prints", async () => {
  expect(read("dist/SKILL.md")).toBe((await run("npx", ["vidgen", "help", "--skill"])).stdout);
});

test("brings the pages that its README links to, and prints them", async () => {
  const links = [...read("README.md").matchAll(/\]\((src\/docs\/[^)]+)\)/g)].map(([, link = ""]) => link);
  expect(links.length).toBeGreaterThan(10);
  for (const link of links) expect(read(link)).toMatch(/^# /);
  expect((await run("npx", ["vidgen", "help", "batch"])).stdout).toBe(read("src/docs/batch.md"));
});

test("brings no source maps, which are half of its bytes and say nothing without the sources", async () => {
  const files = readdirSync(join(folder, "node_modules/vidgen"), { recursive: true }).map(String);
  expect(files.filter((file) => file.endsWith(".map"))).toEqual([]);
  const failed = run("npx", ["vidgen", "generate", "@missing.txt", "--verbose"]);
  await expect(failed).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining("missing.txt") });
});

test("says its own version", async () => {
  const { version } = JSON.parse(read("package.json"));
  expect((await run("npx", ["vidgen", "--version"])).stdout).toBe(`${version}\n`);
});

test("gives the library, with types that need no other package, not even Node's", async () => {
  const code = 'import { models, type Generation } from "vidgen";\nconst id: string = models[0]!.id;\n';
  const wrong =
    "// @ts-expect-error\nconst no: number = models[0]!.id;\n// @ts-expect-error\nexport const bad: Generation = 1;\n";
  for (const name of ["use.ts", "use.cts"]) writeFileSync(join(folder, name), `${code}${wrong}export { id, no };\n`);
  const flags = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom"];
  await run(process.execPath, [tool("typescript/bin/tsc"), ...flags, "use.ts", "use.cts"]);
});

test("import and require give one library, and nothing else happens", async () => {
  const script = `
    const { basename } = require("node:path");
    const isOwn = (name) => name !== "__zod_globalConfig";
    const state = () =>
      JSON.stringify([process.getActiveResourcesInfo(), process.eventNames(), Object.keys(globalThis).filter(isOwn)]);
    const before = state();
    const required = require("vidgen");
    const afterRequire = state();
    import("vidgen").then(async (imported) => {
      const { VidgenError } = imported;
      const names = Object.keys(required).every((name) => imported[name] === required[name]);
      const { vidgen } = await import("vidgen/ai-sdk");
      console.log(before === afterRequire, names, new imported.VidgenError("bug", "x") instanceof required.VidgenError);
      console.log(Object.keys(required).sort().join(), Object.keys(imported).sort().join(), vidgen("ray-3").modelId);
      console.log(Object.keys(require.cache).map((file) => basename(file)).join());
    });`;
  const names = "VidgenError,createClient,defaultModel,models,verifyCallback";
  const { stdout } = await run(process.execPath, ["-e", script]);
  expect(stdout).toBe(`true true true\n${names} ${names} ray-3\nindex.cjs\n`);
});

test("the programs of its page do what they say, in strict TypeScript, as ES modules and in CommonJS", async () => {
  const all = [...read("src/docs/library.md").matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)];
  const programs = all.filter(([, , code = ""]) => isForeignInstalled || !code.includes('from "ai"'));
  expect([all.length, programs.length]).toEqual([3, isForeignInstalled ? 3 : 2]);
  const place = join(folder, "programs");
  mkdirSync(place);
  const written = programs.map(([, language, code = ""], index) => {
    const name = `program-${index}`;
    writeFileSync(join(place, `${name}.${language === "js" ? "cjs" : "ts"}`), code);
    return { name, isTyped: language === "ts" };
  });
  mkdirSync(join(folder, "node_modules/@types"));
  const needed = { "@types/node": tool("@types/node"), ...(isForeignInstalled && { ai: foreign("ai") }) };
  for (const [name, path] of Object.entries(needed)) symlinkSync(path, join(folder, "node_modules", name), "junction");
  const typed = written.filter(({ isTyped }) => isTyped).map(({ name }) => name);
  const flags = ["--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom", "--skipLibCheck"];
  await run(process.execPath, [tool("typescript/bin/tsc"), ...flags, ...typed.map((name) => `${name}.ts`)], place);
  await whileServing(join(place, "served"), [], async ({ base_url, api_key }) => {
    const variables = { VIDGEN_BASE_URL: base_url, VIDGEN_API_KEY: api_key };
    for (const { name, isTyped } of written) {
      const { stdout } = await run(process.execPath, [`${name}.${isTyped ? "js" : "cjs"}`], place, variables);
      expect(stdout, name).toMatch(/^[0-9a-f-]{36}( .*\.mp4)?$/m);
    }
  });
  const clips = readdirSync(join(place, "clips")).map((file) => `clips/${file}`);
  const videos = ["fox.mp4", ...clips, ...(isForeignInstalled ? ["snow.mp4"] : [])];
  expect(videos).toHaveLength(programs.length);
  for (const video of videos) expect(readFileSync(join(place, video)).toString("latin1", 4, 8)).toBe("ftyp");
});

test("brings the notices of what it holds", () => {
  const notices = read("dist/THIRD_PARTY_NOTICES.txt");
  for (const name of ["undici", "zod", "commander", "ora", "conf"])
    expect(notices).toMatch(new RegExp(`^Name: ${name}\n`, "m"));
  expect(read("dist/fonts/OFL.txt")).toContain("SIL OPEN FONT LICENSE");
});

test.skipIf(!isForeignInstalled)("publint and arethetypeswrong find nothing", async () => {
  const [tarball = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  await run(process.execPath, [foreign("publint/src/cli.js"), "run", join(folder, tarball), "--strict"]);
  const attw = foreign("@arethetypeswrong/cli/dist/index.js");
  await run(process.execPath, [attw, join(folder, tarball), "--exclude-entrypoints", "ai-sdk"]);
  // The package ai is ESM alone.
  await run(process.execPath, [attw, join(folder, tarball), "--entrypoints", "ai-sdk", "--profile", "esm-only"]);
});

function read(path: string): string {
  return readFileSync(join(folder, "node_modules/vidgen", path), "utf8");
}
