import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

// The package as npm packs it, installed in an empty folder with no network and no scripts.

const root = fileURLToPath(new URL("..", import.meta.url));
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "vidgen-package-"));
  await run("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], root);
  const [tarball = ""] = readdirSync(folder);
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  await run("npm", ["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", `./${tarball}`]);
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true }));

function run(command: string, argv: string[], cwd = folder) {
  const { NODE_EXTRA_CA_CERTS: _, ...env } = process.env;
  return promisify(execFile)(command, argv, { cwd, env: { ...env, VIDGEN_HOME: join(folder, "home") } });
}

const tool = (name: string) => join(root, "node_modules", name);

test("is one package, without scripts that run at its installation", () => {
  expect(readdirSync(join(folder, "node_modules")).filter((name) => !name.startsWith("."))).toEqual(["vidgen"]);
  const { dependencies, scripts } = JSON.parse(read("package.json"));
  expect(dependencies).toBeUndefined();
  // `prepare` counts as one: npm warns about it at each installation.
  expect(Object.keys(scripts).filter((name) => /install|^prepare/.test(name))).toEqual([]);
});

test("installed for all, it brings the page that `man vidgen` shows", {
  skip: process.platform === "win32",
}, async () => {
  const prefix = join(folder, "all");
  const [tarball = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  await run("npm", ["install", "--global", "--prefix", prefix, "--offline", "--no-audit", "--no-fund", `./${tarball}`]);
  expect(readFileSync(join(prefix, "share/man/man1/vidgen.1"), "utf8")).toMatch(/^\.TH /m);
});

test("is few and small files: npm takes its time by the file and by the byte", () => {
  const dist = join(folder, "node_modules/vidgen/dist");
  const sizes = readdirSync(dist, { recursive: true, encoding: "utf8" })
    .map((name) => statSync(join(dist, name)))
    .filter((found) => found.isFile())
    .map(({ size }) => size);
  expect(sizes.length).toBeLessThan(30);
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(3_000_000);
});

test("makes a video, local service and all", async () => {
  const vidgen = join(folder, "node_modules/.bin/vidgen");
  const made = await run(vidgen, ["generate", "a fox", "--local", "-d", "1", "-o", "fox.mp4"]);
  expect(made.stdout).toBe("fox.mp4\n");
  expect(statSync(join(folder, "fox.mp4")).size).toBeGreaterThan(1000);
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
  for (const name of ["undici", "zod", "commander", "ora", "node-sqlite3-wasm", "@resvg/resvg-wasm", "@cwasm/webp"])
    expect(notices).toMatch(new RegExp(`^${name} \\d`, "m"));
  expect(notices).toContain("SIL OPEN FONT LICENSE");
});

test("is CommonJS but for the library's one line: Node's loader of ES modules alone takes as long as all of --help", () => {
  const names = readdirSync(join(folder, "node_modules/vidgen/dist"));
  expect(names.filter((name) => /\.m?js$/.test(name))).toEqual(["index.js"]);
  const chunks = names.filter((name) => name.endsWith(".cjs"));
  expect(chunks.filter((name) => /[^.\w]import\(/.test(read(`dist/${name}`)))).toEqual([]);
  expect(read("dist/index.js")).toMatch(/^export \{ [\w, ]+ \} from ".\/index.cjs";\n$/);
});

test("prints its version without the rest of the program", async () => {
  const { version, bin } = JSON.parse(read("package.json"));
  const alone = mkdtempSync(join(folder, "alone-"));
  for (const name of ["package.json", bin.vidgen])
    cpSync(join(folder, "node_modules/vidgen", name), join(alone, name), { recursive: true });
  const { stdout } = await run(process.execPath, [join(alone, bin.vidgen), "--version"]);
  expect(stdout).toBe(`${version}\n`);
  const whole = await run(process.execPath, [join(folder, "node_modules/vidgen", bin.vidgen), "--quiet", "--version"]);
  expect(whole.stdout).toBe(stdout);
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
