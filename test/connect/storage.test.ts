import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { findAccessError } from "../../src/connect/storage.ts";
import type { Disk } from "../../src/io.ts";
import { lacks } from "../needs.ts";
import { apiKey, createWorld as createMachine } from "../vidgen.ts";

/** A machine without VIDGEN_HOME; `home` is what it has for a home folder. Nothing below it can be written where it is "read-only". */
async function createWorld(home: "none" | "a file" | "a folder" | "read-only") {
  const world = await createMachine();
  const usual = join(world.folder, "home");
  const temporary = join(world.folder, "tmp");
  await mkdir(temporary);
  if (home === "a file") await writeFile(usual, "");
  if (home === "a folder" || home === "read-only") await mkdir(usual);
  delete world.env.VIDGEN_HOME;
  world.env.TMPDIR = temporary;
  const disk = home === "read-only" ? readOnlyBelow(usual, world.io.disk) : world.io.disk;
  Object.assign(world.io, { env: world.env, disk, home: home === "none" ? "" : usual });
  return Object.assign(world, { usual, temporary, state: join(usual, ".local/state/vidgen") });
}

/** Nothing is read-only to it. */
const isRoot = process.getuid?.() === 0;

/** A disk as a container mounts it: the mode of a file means nothing to root. */
function readOnlyBelow(folder: string, disk: Disk): Disk {
  const check = (path: unknown) => {
    if (String(path).startsWith(folder)) throw Object.assign(new Error("read-only"), { code: "EROFS" });
  };
  const changes = ["link", "mkdir", "rename", "rm", "rmdir", "utimes"] as const;
  const refusing = changes.map((name) => [
    name,
    async (...args: [string]) => {
      for (const path of args) check(path);
      return (disk[name] as (...args: unknown[]) => Promise<unknown>)(...args);
    },
  ]);
  const open: Disk["open"] = async (path, flags, mode) => {
    if (flags !== "r") check(path);
    return disk.open(path, flags, mode);
  };
  return { ...disk, ...Object.fromEntries(refusing), open };
}

const homeless = ["none", "a file", "read-only"] as const;

test.each(homeless)("with %s for a home nothing is sent: there is no place for the journal", async (home) => {
  const world = await createWorld(home);
  const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
  expect(run).toMatchObject({ code: 9, stdout: "" });
  const where =
    home === "none"
      ? "There is no home folder to store data in."
      : `Cannot write the journal ${join(world.state, "journal.jsonl")}: `;
  expect(run.stderr).toContain(where);
  expect(run.stderr).toMatch(/\. Nothing was sent, nothing was charged\.\n.*VIDGEN_HOME/);
  expect(world.requests).toEqual([]);
  expect((await readdir(world.folder)).filter((name) => name.startsWith("fox"))).toEqual([]);
  expect(await readdir(world.temporary)).toEqual([]);
  const local = await world.vidgen("generate", "a fox", "--local");
  expect(local).toMatchObject({ code: 9, stdout: "" });
});

test.each(homeless)("with %s for a home, a video that is paid for is still shown and saved", async (home) => {
  const world = await createWorld(home);
  world.env.VIDGEN_HOME = join(world.folder, "other");
  const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
  delete world.env.VIDGEN_HOME;
  const file = join(world.folder, "fox.mp4");
  expect(await world.vidgen("status", id)).toMatchObject({ code: 0 });
  expect(await world.vidgen("wait", id, "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  expect(await world.vidgen("wait", id)).toMatchObject({ code: 0, stdout: expect.stringContaining("http") });
  expect(await world.vidgen("list")).toMatchObject({ code: 0 });
  expect(await readdir(world.temporary)).toEqual([]);
});

test("a VIDGEN_HOME that cannot be written is an error: it was asked for", async () => {
  const world = await createWorld("a file");
  world.env.VIDGEN_HOME = world.usual;
  expect(await world.vidgen("generate", "a fox")).toMatchObject({
    code: 9,
    stderr: expect.stringMatching(/journal \S+: .*\. Nothing was sent, nothing was charged\.\n/),
  });
  expect(world.requests).toEqual([]);
});

test("what was written down while the home could be written is still listed, and its video saved", async () => {
  const world = await createWorld("a folder");
  expect(await world.vidgen("generate", "the first", "--no-wait")).toMatchObject({ code: 0 });
  Object.assign(world.io, { disk: readOnlyBelow(world.usual, world.io.disk) });
  const before = await readFile(join(world.state, "journal.jsonl"), "utf8");
  expect(await world.vidgen("generate", "the second", "--no-wait")).toMatchObject({ code: 9 });
  expect((await world.vidgen("list")).stdout).toMatch(/^.*the first\n$/);
  const file = join(world.folder, "fox.mp4");
  expect(await world.vidgen("wait", "last", "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  expect(await readFile(join(world.state, "journal.jsonl"), "utf8")).toBe(before);
  expect(world.requests.filter(({ method }) => method === "POST")).toHaveLength(1);
});

test.skipIf(isRoot || lacks("file modes"))("a folder without permission says so", async () => {
  const world = await createWorld("a folder");
  await chmod(world.usual, 0o500);
  expect(await findAccessError(join(world.usual, "deep/down"))).toBe("no permission");
});

test("without a home no config is read from the folder one happens to be in, and login says that it cannot save", async () => {
  const world = await createWorld("none");
  world.env.VIDGEN_API_KEY = undefined;
  await mkdir(join(world.folder, ".config/vidgen"), { recursive: true });
  await writeFile(
    join(world.folder, ".config/vidgen/config.json"),
    JSON.stringify({ keys: { "https://api.video.example": "planted" } }),
  );
  const before = process.cwd();
  process.chdir(world.folder);
  try {
    expect(await world.vidgen("status", "x")).toMatchObject({ code: 3 });
    expect(world.requests).toEqual([]);
    world.stdin = apiKey;
    expect(await world.vidgen("login", "--with-token")).toMatchObject({
      code: 9,
      stderr: expect.stringMatching(/no home folder.*\n.*VIDGEN_API_KEY/),
    });
  } finally {
    process.chdir(before);
  }
});

test.each(["~/vidgen", "~", "vidgen-home", "./vidgen-home", ".", "../x"])(
  "VIDGEN_HOME=%s is a usage error, and nothing is sent",
  async (home) => {
    const world = await createMachine();
    world.env.VIDGEN_HOME = home;
    const before = await readdir(".");
    const lines = [
      ["generate", "a fox"],
      ["generate", "a fox", "--reuse"],
      ["generate", "a fox", "--local"],
      ["generate", "a fox", "--dry-run"],
      ["list"],
      ["wait", "last"],
      ["again", "last"],
      ["config", "set", "model", "ray-3"],
    ];
    for (const line of lines)
      expect(await world.vidgen(...line)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("VIDGEN_HOME must be an absolute path"),
      });
    expect(await world.vidgen("help")).toMatchObject({ code: 0 });
    expect([world.requests, await readdir(".")]).toEqual([[], before]);
  },
);
