import { chmod, lstat, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { findAccessError, findStorage } from "../../src/cli/storage.ts";
import { apiKey, createWorld as createMachine } from "../vidgen.ts";

/** A machine without VIDGEN_HOME, whose temporary folder is its own; `home` is what it has for a home folder. */
async function createWorld(home: "none" | "a file" | "a folder") {
  const world = await createMachine();
  const usual = join(world.folder, "home");
  if (home === "a file") await writeFile(usual, "");
  if (home === "a folder") await mkdir(usual);
  const temporary = join(world.folder, "tmp");
  await mkdir(temporary);
  delete world.env.VIDGEN_HOME;
  world.env.TMPDIR = temporary;
  world.io.home = home === "none" ? "" : usual;
  const journal = join(temporary, `vidgen-${process.getuid?.()}`, "journal.jsonl");
  Object.assign(world.io, { env: world.env });
  return Object.assign(world, { usual, temporary, journal });
}

/** Nothing is read-only to it. */
const isRoot = process.getuid?.() === 0;

const said = /which the system may delete; set VIDGEN_HOME to use another folder/g;

test.each(["none", "a file"] as const)(
  "with %s for a home the journal goes to the temporary folder, and that is said once",
  async (home) => {
    const world = await createWorld(home);
    const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    expect(run).toMatchObject({ code: 0, stdout: `${join(world.folder, "fox.mp4")}\n` });
    expect(run.stderr.match(said)).toHaveLength(1);
    expect(await readFile(world.journal, "utf8")).toContain('"kind":"delivered"');
    expect((await world.vidgen("list", "--json")).stdout).toContain('"completed"');
  },
);

test("what is paid for needs a journal, in the temporary folder if nowhere else; looking needs none", async () => {
  const world = await createWorld("none");
  world.env.TMPDIR = join(world.folder, "nowhere");
  expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 9, stdout: "" });
  expect(world.requests).toEqual([]);
  expect(await world.vidgen("status", "123e4567-e89b-12d3-a456-426614174000")).toMatchObject({ code: 10 });
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

test("a home that can be written is used, also when nothing is there yet, and nothing is said of it", async () => {
  const world = await createWorld("a folder");
  expect(await findStorage("state", world.io)).toStrictEqual({ folder: join(world.usual, ".local/state/vidgen") });
});

test("what was written down while the home could be written is still listed", { skip: isRoot }, async () => {
  const world = await createWorld("a folder");
  const state = join(world.usual, ".local/state/vidgen");
  expect(await world.vidgen("generate", "the first", "--no-wait")).toMatchObject({ code: 0 });
  await chmod(state, 0o500);
  expect(await world.vidgen("generate", "the second", "--no-wait")).toMatchObject({ code: 0 });
  expect((await world.vidgen("list")).stdout).toMatch(/the second\n.*the first\n$/);
  await chmod(state, 0o700);
  expect((await world.vidgen("list")).stdout).not.toContain("second");
});

test("in the temporary folder nothing of somebody else's is used, and nobody else reads ours", async () => {
  const world = await createWorld("none");
  const own = join(world.temporary, `vidgen-${process.getuid?.()}`);
  await mkdir(own, { mode: 0o777 });
  await chmod(own, 0o777);
  await expect(findStorage("state", world.io)).rejects.toMatchObject({
    code: "output",
    message: expect.stringContaining(`other users can use ${own} (0777); \`chmod 700 ${own}\` makes it private`),
  });
  expect((await lstat(own)).mode & 0o777).toBe(0o777);
  await chmod(own, 0o700);
  expect(await findStorage("state", world.io)).toMatchObject({ folder: own });
  const others = { ...world.io, uid: 4711 };
  await mkdir(join(world.temporary, "vidgen-4711"));
  await expect(findStorage("state", others)).rejects.toMatchObject({
    code: "output",
    message: expect.stringContaining("another user"),
  });
  await symlink(own, join(world.temporary, "vidgen-4712"));
  await expect(findStorage("state", { ...others, uid: 4712 })).rejects.toMatchObject({ code: "output" });
});

test("a folder without permission says so", { skip: isRoot }, async () => {
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
