import { execFileSync } from "node:child_process";
import {
  chownSync,
  cpSync,
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
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const bin = fileURLToPath(new URL("../bin/", import.meta.url));

/** bin/vidgen.cjs over a dist/ of its own, which loads a file that says a word. `run` runs it and returns what it prints. */
function setUp() {
  const folder = mkdtempSync(join(tmpdir(), "vidgen-load-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  cpSync(bin, join(folder, "bin"), { recursive: true });
  mkdirSync(join(folder, "dist"));
  const home = join(folder, "home");
  const write = (name: string, build: string, text: string) =>
    writeFileSync(join(folder, "dist", name), `// build ${build}\n${text}`);
  write(
    "cli.cjs",
    "one",
    `exports.systemIo = () => 1;
    exports.main = async ([code = 0], io) => {
      const word = require("./word-1a_B-2c3.cjs");
      console.log(word.say(io) + (word === require("./word-1a_B-2c3.cjs")));
      return Number(code);
    };`,
  );
  const say = (word: string, build = word) =>
    write("word-1a_B-2c3.cjs", build, `exports.say = (io) => "${word}".slice(io - 1) + require("node:path").sep;`);
  const run = (env: Record<string, string> = {}, { node = process.execPath, code = "0" } = {}) =>
    execFileSync(node, [join(folder, "bin/vidgen.cjs"), code], {
      cwd: folder,
      env: { VIDGEN_HOME: home, ...env },
      encoding: "utf8",
      stdio: "pipe",
      timeout: 20_000,
    }).trim();
  return { folder, home, kept: join(home, "compiled/word.cjs"), say, run };
}

test("what was compiled is kept, for this user alone, and left as it is by the next run", () => {
  const { home, kept, say, run } = setUp();
  say("cat");
  expect(run()).toBe("cat/true");
  expect(readdirSync(join(home, "compiled"))).toEqual(["cli.cjs", "word.cjs"]);
  expect([statSync(join(home, "compiled")).mode & 0o777, statSync(kept).mode & 0o777]).toEqual([0o700, 0o600]);
  const { ino } = statSync(kept);
  expect(run()).toBe("cat/true");
  expect(statSync(kept).ino).toBe(ino);
});

/** What was compiled of another text, with a stamp as if it were of this one: it says which of the two was run. */
function plant() {
  const set = setUp();
  set.say("dog", "one");
  set.run();
  const dog = readFileSync(set.kept);
  set.say("cat", "two");
  const planted = Buffer.from(dog.toString("latin1").replace("// build one", "// build two"), "latin1");
  return { ...set, dog, planted };
}

test("what was kept is what runs", () => {
  const { kept, planted, run } = plant();
  writeFileSync(kept, planted);
  expect(run()).toBe("dog/true");
});

test.each([
  ["of another build", ({ dog }: ReturnType<typeof plant>) => dog],
  ["cut short", ({ planted }: ReturnType<typeof plant>) => planted.subarray(0, -1)],
  ["of another Node", ({ planted }: ReturnType<typeof plant>) => replace(planted, process.version, "v20.18.0")],
  ["empty", () => Buffer.alloc(0)],
  ["zeros", ({ planted }: ReturnType<typeof plant>) => Buffer.alloc(planted.length)],
  ["of another V8", ({ planted }: ReturnType<typeof plant>) => twice(planted, (data) => data.fill(0x5a, 0, 16))],
  ["changed by a bit", ({ planted }: ReturnType<typeof plant>) => planted.fill(0x5a, 200, 201)],
])("what is %s is compiled anew, and kept", (_, spoil) => {
  const set = plant();
  writeFileSync(set.kept, spoil(set));
  const { ino } = statSync(set.kept);
  expect(set.run()).toBe("cat/true");
  const { ino: anew } = statSync(set.kept);
  expect(anew).not.toBe(ino);
  expect(set.run()).toBe("cat/true");
  expect(statSync(set.kept).ino).toBe(anew);
});

/** The same change in both copies. */
function twice(data: Buffer, change: (copy: Buffer) => void): Buffer {
  const half = data.lastIndexOf("// build") / 2;
  change(data.subarray(0, half));
  change(data.subarray(half, 2 * half));
  return data;
}

function replace(data: Buffer, from: string, to: string): Buffer {
  return Buffer.from(data.toString("latin1").replaceAll(from, to.padEnd(from.length)), "latin1");
}

test("what belongs to another user is not run", { skip: process.getuid?.() !== 0 }, () => {
  const { kept, planted, run } = plant();
  writeFileSync(kept, planted);
  chownSync(kept, 12345, 12345);
  expect(run()).toBe("cat/true");
});

test("where nothing can be kept, or nothing is to be, it runs all the same", () => {
  const { folder, home, say, run } = setUp();
  say("cat");
  expect(run({ NODE_DISABLE_COMPILE_CACHE: "1" })).toBe("cat/true");
  expect(run({ SUDO_UID: "1000" })).toBe("cat/true");
  expect(run({ VIDGEN_HOME: "", XDG_CACHE_HOME: "/proc/1" })).toBe("cat/true");
  expect(run({ VIDGEN_HOME: "" })).toBe("cat/true");
  expect(run({ VIDGEN_HOME: "", HOME: "not/absolute", XDG_CACHE_HOME: "nor/this" })).toBe("cat/true");
  writeFileSync(join(folder, "file"), "");
  expect(run({ VIDGEN_HOME: join(folder, "file") })).toBe("cat/true");
  expect([existsSync(home), readdirSync(folder).sort()]).toEqual([false, ["bin", "dist", "file"]]);
});

test.each([
  [{ XDG_CACHE_HOME: "cache" }, "cache/vidgen/compiled"],
  [{ XDG_CACHE_HOME: "" }, "home/.cache/vidgen/compiled"],
])("it is kept where the platform keeps such things: %j", { skip: process.platform !== "linux" }, (env, place) => {
  const { folder, home, say, run } = setUp();
  say("cat");
  const xdg = env.XDG_CACHE_HOME && join(folder, env.XDG_CACHE_HOME);
  mkdirSync(home);
  expect(run({ VIDGEN_HOME: "", HOME: home, XDG_CACHE_HOME: xdg })).toBe("cat/true");
  expect(readdirSync(join(folder, place))).toEqual(["cli.cjs", "word.cjs"]);
});

test("who interrupts does not wait for it", () => {
  const { home, say, run } = setUp();
  say("cat");
  expect(() => run({}, { code: "130" })).toThrow(expect.objectContaining({ status: 130, stdout: "cat/true\n" }));
  expect(existsSync(home)).toBe(false);
});

test.skipIf(process.platform === "win32")("what cannot be written whole leaves no part behind", () => {
  const { folder, home, say, run } = setUp();
  say("cat".repeat(20_000));
  // No file gets larger than 8 or 16 kB, by the shell's unit.
  const node = join(folder, "node");
  writeFileSync(node, `#!/bin/sh\nulimit -f 16\nexec "${process.execPath}" "$@"\n`, { mode: 0o755 });
  expect(run({}, { node })).toMatch(/^(cat)+\/true$/);
  expect(readdirSync(join(home, "compiled"))).toEqual(["cli.cjs"]);
});

test("a file that is missing is named, and has the code of a missing module", () => {
  const { folder, run } = setUp();
  expect(() => run()).toThrow(/a part of vidgen cannot be read, .*word-1a_B-2c3\.cjs[\s\S]*MODULE_NOT_FOUND/);
  rmSync(join(folder, "dist/cli.cjs"));
  const said = /^error: Nothing was sent: .*cli\.cjs'\n {2}Install vidgen again; in a clone, npm run build\.\n$/;
  expect(() => run()).toThrow(expect.objectContaining({ status: 1, stderr: expect.stringMatching(said) }));
});
