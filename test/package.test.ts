import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

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
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true }));

function run(command: string, argv: string[], cwd = folder) {
  const { NODE_EXTRA_CA_CERTS: _, ...env } = process.env;
  return promisify(execFile)(command, argv, { cwd, env: { ...env, VIDGEN_HOME: join(folder, "home") } });
}

const tool = (name: string) => join(root, "node_modules", name);

test("depends on its WebAssembly packages alone, and nothing runs a script when it is installed", () => {
  const { packages } = JSON.parse(readFileSync(join(folder, "node_modules/.package-lock.json"), "utf8"));
  const names = Object.keys(packages).map((path) => path.replace("node_modules/", ""));
  const own = ["@cwasm/webp", "@resvg/resvg-wasm", "h264-mp4-encoder", "node-sqlite3-wasm", "vidgen"];
  expect(names).toEqual(["@canvas/image-data", ...own]);
  expect(Object.values(packages)).not.toContainEqual(expect.objectContaining({ hasInstallScript: true }));
  // `prepare` counts as one: npm warns about it at each installation.
  const { scripts } = JSON.parse(read("package.json"));
  expect(Object.keys(scripts).filter((name) => /install|^prepare/.test(name))).toEqual([]);
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
  const both = `import("vidgen").then(({ VidgenError }) => console.log(VidgenError.name, VidgenError === require("vidgen").VidgenError))`;
  expect((await run(process.execPath, ["-e", both])).stdout).toBe("VidgenError true\n");
});

test("brings the notices of what it holds", () => {
  const notices = read("dist/THIRD_PARTY_NOTICES.txt");
  for (const name of ["undici", "zod", "commander", "ora", "conf"])
    expect(notices).toMatch(new RegExp(`^Name: ${name}\n`, "m"));
  expect(read("dist/fonts/OFL.txt")).toContain("SIL OPEN FONT LICENSE");
});

test("publint and arethetypeswrong find nothing", async () => {
  const [tarball = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  await run(process.execPath, [tool("publint/src/cli.js"), "run", join(folder, tarball), "--strict"]);
  const attw = tool("@arethetypeswrong/cli/dist/index.js");
  await run(process.execPath, [attw, join(folder, tarball)]);
});

function read(path: string): string {
  return readFileSync(join(folder, "node_modules/vidgen", path), "utf8");
}
