import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createWorld, isStart, kill, type World } from "../vidgen.ts";

const line = "1 paid video is not saved: vidgen wait --all -o ./\n";

/** A world in which a start was killed while it waited, at a terminal. */
async function withLost(...flags: string[]): Promise<World> {
  const world = await createWorld();
  await kill(world, (request) => request.url.includes("generation-status"), "generate", "a fox", ...flags);
  await world.io.sleep(31_000);
  world.isTerminal = true;
  return world;
}

test.each([["list"], ["status"], ["models"], ["models", "veo-3.1"], ["generate", "an owl", "--no-wait"]])(
  "at a terminal %s %s ends with a line about a paid video that nobody waits for",
  async (...words) => {
    const world = await withLost();
    // A look at the newest one hands its URL over.
    if (words[0] === "status") await world.vidgen("generate", "an owl", "--no-wait");
    expect((await world.vidgen(...words)).stderr.endsWith(line)).toBe(true);
  },
);

test("what the line says saves the video, and then it is gone", async () => {
  const world = await withLost();
  const run = await world.vidgen("wait", "--all", "-o", `${world.folder}/`);
  expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(/\.mp4\n$/) });
  expect((await world.vidgen("list")).stderr).not.toContain("not saved");
  expect(world.requests.filter(isStart)).toHaveLength(1);
});

test("several are counted, each once", async () => {
  const world = await withLost();
  world.isTerminal = false;
  await kill(world, (request) => request.url.includes("generation-status"), "generate", "an owl");
  world.isTerminal = true;
  expect((await world.vidgen("list")).stderr).toContain("2 paid videos are not saved: vidgen wait --all -o ./\n");
});

test.each<[string, string[], (world: World) => void]>([
  ["-q", ["list", "-q"], () => {}],
  ["--json", ["list", "--json"], () => {}],
  ["--events", ["generate", "an owl", "--events"], () => {}],
  ["a pipe", ["list"], (world) => Object.assign(world, { isTerminal: false })],
  ["CI", ["list"], (world) => Object.assign(world.env, { CI: "1" })],
])("not with %s", async (_, words, change) => {
  const world = await withLost();
  change(world);
  expect((await world.vidgen(...words)).stderr).not.toContain("not saved");
});

test("is not printed for a video that was handed over, a preview, or a video that a command waits for", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
  await world.vidgen("generate", "an owl");
  await world.vidgen("generate", "a hare", "--no-wait");
  world.isTerminal = true;
  expect((await world.vidgen("list")).stderr).not.toContain("not saved");
  // A process that still waits has the lease.
  world.isTerminal = false;
  const waiting = world.vidgen("generate", "a wolf");
  await expect.poll(() => world.requests.filter(isStart).length).toBe(4);
  world.isTerminal = true;
  expect((await world.vidgen("models")).stderr).not.toContain("not saved");
  await waiting;
});

test("looking writes nothing", async () => {
  const world = await withLost();
  const { readFileSync, readdirSync } = await import("node:fs");
  const look = () => [readFileSync(join(world.home, "journal.jsonl"), "utf8"), readdirSync(world.home).sort()];
  const before = look();
  await world.vidgen("models");
  expect(look()).toEqual(before);
});

describe("the first saved video", () => {
  const look = "`vidgen list --open last` shows it";
  const generate = (world: World, prompt: string, ...flags: string[]) =>
    world.vidgen("generate", prompt, "-o", join(world.folder, `${prompt}.mp4`), ...flags);

  test("of a home gets a line on how to look at it, once, and on a real one if it is a preview", async () => {
    const world = await createWorld();
    world.isTerminal = true;
    // A URL is no saved file.
    expect((await world.vidgen("generate", "a hare")).stderr).not.toContain(look);
    expect((await generate(world, "a fox")).stderr).toMatch(/Saved .*\n`vidgen list --open last` shows it\.\n$/);
    expect((await generate(world, "an owl")).stderr).not.toContain(look);
  });

  test("is the first of several too", async () => {
    const world = await createWorld();
    world.isTerminal = true;
    world.answers = [["Start", "y\r"]];
    const run = await world.vidgen("generate", "a fox", "-n", "3", "-o", `${world.folder}/`);
    expect(run.stderr.split(look)).toHaveLength(2);
  });

  test.each<[string, string[], (world: World) => void]>([
    ["-q", ["-q"], () => {}],
    ["--json", ["--json"], () => {}],
    ["--events", ["--events"], () => {}],
    ["a pipe", [], (world) => Object.assign(world, { isTerminal: false })],
    ["CI", [], (world) => Object.assign(world.env, { CI: "1" })],
  ])("gets none with %s", async (_, flags, change) => {
    const world = await createWorld();
    world.isTerminal = true;
    change(world);
    expect((await generate(world, "a fox", ...flags)).stderr).not.toContain(look);
  });
});
