import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tinyMp4 } from "../mp4.ts";
import { createWorld, isStart, mediaUrl, type World } from "../vidgen.ts";

const unknownId = "123e4567-e89b-12d3-a456-426614174000";

async function start(world: World, prompt = "a fox"): Promise<string> {
  return (await world.vidgen("generate", prompt, "--no-wait")).stdout.trim();
}

test("follows a generation that exists, looking at once", async () => {
  const world = await createWorld();
  const id = await start(world);
  await world.io.sleep(31_000);
  expect(await world.vidgen("wait", id)).toMatchObject({ code: 0, stdout: `${mediaUrl}/${id}.mp4\n` });
  expect(world.requests.map(({ method }) => method)).toEqual(["POST", "GET"]);
});

test("saves it with -o", async () => {
  const world = await createWorld();
  const id = await start(world);
  const file = join(world.folder, "fox.mp4");
  expect(await world.vidgen("wait", id, "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  expect(readFileSync(file)).toEqual(Buffer.from(tinyMp4("a fox")));
});

test("never starts anything", async () => {
  const world = await createWorld();
  const id = await start(world);
  await world.vidgen("wait", id);
  expect(world.requests.filter(isStart)).toHaveLength(1);
});

test("several ids are followed side by side and saved into a folder", async () => {
  const world = await createWorld();
  const ids = [await start(world, "one"), await start(world, "two"), await start(world, "three")];
  const run = await world.vidgen("wait", ...ids, "-o", join(world.folder, "clips/"));
  expect(run.code).toBe(0);
  expect(run.stdout.trim().split("\n")).toHaveLength(3);
  expect(readdirSync(join(world.folder, "clips"))).toHaveLength(3);
});

test("several ids with --json are one array, in the order of the ids, and the exit code is the worst", async () => {
  const world = await createWorld();
  const ids = [await start(world, "one"), await start(world, "[fail]"), unknownId];
  const run = await world.vidgen("wait", ...ids, "--json");
  expect(run.code).toBe(10);
  const documents = JSON.parse(run.stdout);
  expect(documents).toMatchObject([
    { status: "completed" },
    { error: { code: "failed" } },
    { error: { code: "not_found" } },
  ]);
  expect(documents.map(({ id }: { id: string }) => id)).toEqual(ids);
  expect(JSON.parse(run.stderr)).toMatchObject({ error: { code: "not_found", id: unknownId } });
});

test("each of several errors is printed", async () => {
  const world = await createWorld();
  const run = await world.vidgen("wait", await start(world, "[fail]"), unknownId);
  expect(run.stderr.match(/^error: /gm)).toHaveLength(2);
});

test.each([
  ["no id", ["wait"]],
  ["several into one file", ["wait", "a", "b", "-o", "x.mp4"]],
  ["several onto stdout", ["wait", "a", "b", "-o", "-"]],
])("%s is a usage error", async (_, argv) => {
  const world = await createWorld();
  expect(await world.vidgen(...argv)).toMatchObject({ code: 2, stdout: "" });
  expect(world.requests).toEqual([]);
});

test("an unknown id is exit 10 at once", async () => {
  const world = await createWorld();
  expect(await world.vidgen("wait", unknownId)).toMatchObject({ code: 10, stdout: "" });
  expect(world.io.now()).toBe(0);
});

test("the time is over: exit 5, with the command to go on", async () => {
  const world = await createWorld();
  const id = await start(world);
  const run = await world.vidgen("wait", id, "--timeout", "2s");
  expect(run).toMatchObject({ code: 5, stdout: "", stderr: expect.stringContaining(`vidgen wait ${id}`) });
});

test("an id that looks like a path is sent as an id, and never becomes one", async () => {
  const world = await createWorld();
  expect(await world.vidgen("wait", "../../etc/passwd?x=1&y")).toMatchObject({ code: 10 });
  expect(world.requests[0]?.url).toMatch(/\?id=\.\.%2F\.\.%2Fetc%2Fpasswd%3Fx%3D1%26y$/);
});
