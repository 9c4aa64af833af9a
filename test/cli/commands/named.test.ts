import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createWorld, isStart, mediaUrl, type World } from "../../vidgen.ts";

/** A world with one saved video, and a newer generation. */
async function withSaved() {
  const world = await createWorld();
  const fox = join(world.folder, "fox.mp4");
  await world.vidgen("generate", "a red fox", "-o", fox);
  const [{ id }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
  await world.vidgen("generate", "an owl", "--no-wait");
  return { world, fox, id };
}

function logOut(world: World) {
  Object.assign(world.env, { VIDGEN_BASE_URL: undefined, VIDGEN_API_KEY: undefined });
}

test.each([
  ["status", "zzz"],
  ["wait", "foxx"],
  ["cancel", "gen_8077"],
])("%s %s without a login: no such generation was started here", async (...words) => {
  const world = await createWorld();
  logOut(world);
  expect(await world.vidgen(...words)).toEqual({
    code: 3,
    stdout: "",
    stderr: `error: No generation ${words[1]} was started here, and no service is set to ask for it.\n  \`vidgen list\` shows what was started here.\n  Pass --base-url <url>, set VIDGEN_BASE_URL, save one with \`vidgen login\`, or use --local.\n`,
  });
});

test("a service that is named, and has no key, is the reason", async () => {
  const world = await createWorld();
  logOut(world);
  const run = await world.vidgen("wait", "foxx", "--base-url", "https://video.example");
  expect(run).toMatchObject({ code: 3, stderr: expect.stringContaining("No API key for https://video.example") });
});

test("a saved file can be typed in place of the id of its generation, under any name", async () => {
  const { world, fox, id } = await withSaved();
  const moved = join(world.folder, "best one.mp4");
  const video = { code: 0, stdout: expect.stringContaining(`${mediaUrl}/${id}.mp4\n`) };
  expect(await world.vidgen("status", fox)).toMatchObject(video);
  renameSync(fox, moved);
  expect(await world.vidgen("status", moved)).toMatchObject(video);
  expect(await world.vidgen("wait", moved)).toMatchObject(video);
  expect((await world.vidgen("list", "fox.mp4", "--json")).stdout).toContain(id);
  expect(await world.vidgen("list", "other.mp4", "--json")).toMatchObject({ stdout: "[]\n" });
  const copy = join(world.folder, "copy.mp4");
  expect(await world.vidgen("wait", moved, "-o", copy)).toMatchObject({ code: 0, stdout: `${copy}\n` });
  expect(world.requests.filter(isStart)).toHaveLength(2);
});

test("the name of a file that was deleted still stands for its generation", async () => {
  const { world, fox, id } = await withSaved();
  const bytes = readFileSync(fox);
  rmSync(fox);
  expect((await world.vidgen("status", fox)).stdout).toContain(id);
  expect(await world.vidgen("wait", fox, "-o", fox)).toMatchObject({ code: 0 });
  expect(readFileSync(fox)).toEqual(bytes);
  rmSync(fox);
  expect(await world.vidgen("list", "--forget", fox)).toMatchObject({ code: 0, stderr: expect.stringContaining(id) });
  expect((await world.vidgen("list", "--json")).stdout).not.toContain(id);
});

test("a file of no generation is reported as that", async () => {
  const { world } = await withSaved();
  const other = join(world.folder, "holiday.mp4");
  expect(await world.vidgen("status", other)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`Cannot read the video ${other}: there is no such file.`),
  });
  writeFileSync(other, "not of vidgen");
  for (const command of ["status", "wait"])
    expect(await world.vidgen(command, other)).toMatchObject({
      code: 10,
      stderr: `error: ${other} is the video of no generation that was started here.\n  \`vidgen list\` shows what was started here.\n`,
    });
});

test("list --open takes the file too, and --forget takes last", async () => {
  const { world, fox, id } = await withSaved();
  expect(await world.vidgen("list", "--open", fox)).toMatchObject({ code: 0, stdout: `${fox}\n` });
  const forgotten = await world.vidgen("list", "--forget", "last", "--yes");
  expect(forgotten).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Removed \S+ from the journal\./) });
  expect(JSON.parse((await world.vidgen("list", "--json")).stdout)).toMatchObject([{ id }]);
  expect(await world.vidgen("list", "--forget", "last")).toMatchObject({ code: 0 });
  expect(existsSync(fox)).toBe(true);
});

test("--since takes a day, which begins at midnight", async () => {
  const { world, id } = await withSaved();
  const now = world.io.date();
  const day = (ago: number) => {
    const date = new Date(now.getFullYear(), now.getMonth(), now.getDate() - ago);
    return [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0"));
  };
  for (const since of ["today", "yesterday", day(0).join("-"), "2 days"])
    expect((await world.vidgen("list", "--since", since)).stdout).toContain(id);
  expect(await world.vidgen("list", "--since", day(-1).join("-"))).toMatchObject({
    stdout: "",
    stderr: `No generation that was started here was started since ${day(-1).join("-")}.\n`,
  });
  expect((await world.vidgen("list", "--since", "tomorrow")).code).toBe(2);
});

test.each([
  [["-a", "9x16"], { aspectRatio: "9:16" }],
  [["-a", "9 / 16"], { aspectRatio: "9:16" }],
  [["-a", "portrait"], { aspectRatio: "9:16" }],
  [["-a", "16:9"], { aspectRatio: "16:9" }],
  [["-r", "1080"], { resolution: "1080p" }],
  [["-r", "4k"], { resolution: "4k" }],
  [["-n", "1"], {}],
  [["--set", "aspectRatio=9x16"], { aspectRatio: "9x16" }],
])("generate %j sends %j", async (flags, fields) => {
  const world = await createWorld();
  await world.vidgen("generate", "a fox", "--no-wait", ...flags);
  expect(world.requests.filter(isStart).map(({ body }) => JSON.parse(body))).toEqual([
    { prompt: "a fox", model: "wan-2.5", ...fields },
  ]);
});

test.each(["five", "0", "0s", "-5"])("the length %j is refused", async (length) => {
  const world = await createWorld();
  expect(await world.vidgen("generate", "a fox", "-d", length)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`--duration must be a length in seconds, such as 8, not "${length}"`),
  });
  expect(world.requests).toEqual([]);
});

test("an output path without an extension that is not a folder is noted before anything is sent", async () => {
  const world = await createWorld();
  const desktop = join(world.folder, "Desktop");
  let before = "";
  world.faults = [
    () => {
      before ||= world.printed.stderr;
      return undefined;
    },
  ];
  await world.vidgen("generate", "a fox", "-o", desktop);
  expect(before).toContain(
    `${desktop} is not a folder: the video is saved to a file of this name, without .mp4. For a folder, end the name with a slash.\n`,
  );
  for (const place of [
    world.folder,
    join(world.folder, "clips/"),
    join(world.folder, "a.mp4"),
    join(world.folder, "v2.5"),
  ])
    expect((await world.vidgen("generate", "an owl", "-o", place)).stderr).not.toContain("is not a folder");
});
