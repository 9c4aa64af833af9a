import { copyFileSync, readFileSync, renameSync, rmSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tinyMp4 } from "../../mp4.ts";
import { createWorld, isStart, type World } from "../../vidgen.ts";

/** A world in which a video has been saved under this name. */
async function withSaved(name: string) {
  const world = await createWorld();
  const place = join(world.folder, name);
  const file = (await world.vidgen("generate", "a fox", "-o", place)).stdout.trim();
  const id = /[0-9a-f-]{36}/.exec(world.requests.at(1)?.url ?? "")?.[0] ?? "";
  return { world, place, file, id, sent: world.requests.length };
}

const again: [string, (world: World, id: string, place: string) => ReturnType<World["vidgen"]>][] = [
  ["wait", (world, id, place) => world.vidgen("wait", id, "-o", place)],
  ["generate --reuse", (world, _, place) => world.vidgen("generate", "a fox", "--reuse", "-o", place)],
];

describe.each(again)("%s of a video that is saved there already", (_, run) => {
  test.each(["fox.mp4", "clips/", "{slug}-{id}.mp4"])("prints the file, and asks nobody: -o %s", async (name) => {
    const { world, place, file, id, sent } = await withSaved(name);
    expect(await run(world, id, place)).toMatchObject({
      code: 0,
      stdout: `${file}\n`,
      stderr: `Already saved: ${file} (1 kB)\n`,
    });
    expect(world.requests).toHaveLength(sent);
  });

  test("does not count what is no longer whole, nor another file", async () => {
    const { world, place, file, id } = await withSaved("fox.mp4");
    const other = join(world.folder, "other.mp4");
    writeFileSync(other, tinyMp4("another"));
    expect(await run(world, id, other)).toMatchObject({ code: 9, stdout: "" });
    truncateSync(file, 20);
    expect(await run(world, id, place)).toMatchObject({ code: 9, stderr: expect.stringContaining("exists") });
  });

  test("does not count another video of the same size, whoever has put it there", async () => {
    const { world, place, id } = await withSaved("fox.mp4");
    const other = Buffer.from(tinyMp4("a cat"));
    expect(other.length).toBe(readFileSync(place).length);
    writeFileSync(place, other);
    const paid = world.requests.filter(isStart).length;
    expect(await run(world, id, place)).toMatchObject({ code: 9, stderr: expect.stringContaining("already exists") });
    expect([readFileSync(place), world.requests.filter(isStart).length]).toEqual([other, paid]);
  });

  test.each<[string, (path: string) => void]>([
    ["touched", (path) => utimesSync(path, 1, 1)],
    [
      "copied and put back",
      (path) => {
        copyFileSync(path, `${path}.copy`);
        rmSync(path);
        renameSync(`${path}.copy`, path);
      },
    ],
  ])("counts one that was %s: its content is the same", async (_, change) => {
    const { world, place, file, id, sent } = await withSaved("fox.mp4");
    change(place);
    expect(await run(world, id, place)).toMatchObject({ code: 0, stdout: `${file}\n` });
    expect(world.requests).toHaveLength(sent);
  });

  test("counts one that was moved, under its new name", async () => {
    const { world, place, id, sent } = await withSaved("fox.mp4");
    const moved = join(world.folder, "moved.mp4");
    renameSync(place, moved);
    expect(await run(world, id, moved)).toMatchObject({ code: 0, stdout: `${moved}\n` });
    expect(world.requests).toHaveLength(sent);
  });

  test("does not read a file that is unchanged", async () => {
    const { world, place, id } = await withSaved("fox.mp4");
    const { open } = world.io.disk;
    world.io.disk = {
      ...world.io.disk,
      open: (path, ...how) => (path === place ? Promise.reject(new Error("read")) : open(path, ...how)),
    };
    expect(await run(world, id, place)).toMatchObject({ code: 0 });
    utimesSync(place, 1, 1);
    expect(await run(world, id, place)).toMatchObject({ code: 9 });
  });

  test("does not count the video of another generation, of the same size, that has replaced it", async () => {
    const { world, place, id } = await withSaved("fox.mp4");
    await world.vidgen("generate", "a cat", "-o", place, "--overwrite");
    expect(await run(world, id, place)).toMatchObject({ code: 9, stderr: expect.stringContaining("exists") });
    expect(readFileSync(place)).toEqual(Buffer.from(tinyMp4("a cat")));
  });

  test("does not count that either after another download to the name was broken off", async () => {
    const { world, place, id } = await withSaved("fox.mp4");
    await world.vidgen("generate", "a cat", "-o", place, "--overwrite");
    await new Promise<void>((resolve) => {
      world.faults.push((request) => {
        if (!request.url.endsWith(".mp4")) return undefined;
        resolve();
        return new Promise<never>(() => {});
      });
      void world.vidgen("wait", id, "-o", place, "--overwrite");
    });
    world.faults.length = 0;
    world.reboot();
    expect(await run(world, id, place)).toMatchObject({ code: 9, stderr: expect.stringContaining("exists") });
  });
});

test("--overwrite fetches it again", async () => {
  const { world, place, id, sent } = await withSaved("fox.mp4");
  const run = await world.vidgen("wait", id, "-o", place, "--overwrite");
  expect(run).toMatchObject({ code: 0, stdout: `${place}\n` });
  expect(world.requests.length).toBeGreaterThan(sent);
});

test("of several, what is saved already is not fetched again", async () => {
  const { world, place, file, id } = await withSaved("clips/");
  const other = (await world.vidgen("generate", "an owl", "--no-wait")).stdout.trim();
  const run = await world.vidgen("wait", id, other, "-o", place, "--json");
  expect(run.code).toBe(0);
  expect(JSON.parse(run.stdout)).toMatchObject([
    { id, status: "completed", file },
    { id: other, status: "completed" },
  ]);
  expect(readFileSync(file)).toEqual(Buffer.from(tinyMp4("a fox")));
});

test("--json and --open are about that file", async () => {
  const { world, place, id } = await withSaved("fox.mp4");
  world.env.DISPLAY = ":0";
  const run = await world.vidgen("wait", id, "-o", place, "--json", "--open");
  expect(JSON.parse(run.stdout)).toEqual({ id, status: "completed", file: place });
  expect(world.launched.flat(2)).toContain(place);
});
