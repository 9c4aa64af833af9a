import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createWorld, isStart, kill, type World } from "../../vidgen.ts";

// `--max-credits` and `--max-cost` of one generation, and of several.

const starts = (world: World) => world.requests.filter(isStart);
const isPoll = (request: Request) => request.url.includes("generation-status");

/** A service that lists no prices, and where `cost` is given states it at the end of a video, two polls after its start. */
async function createUnlisted({ cost }: { cost?: number } = {}): Promise<World> {
  const world = await createWorld();
  const polls = new Map<string, number>();
  world.faults.push((request) => {
    if (new URL(request.url).pathname === "/v1/models") return Response.json({ error: "not found" }, { status: 404 });
    if (cost === undefined || !isPoll(request)) return undefined;
    const id = new URL(request.url).searchParams.get("id") ?? "";
    polls.set(id, (polls.get(id) ?? 0) + 1);
    if (polls.get(id) === 1) return Response.json({ id, status: "processing" });
    return Response.json({ id, status: "completed", video_url: `https://media.video.example/${id}.mp4`, cost });
  });
  return world;
}

const generate = ["generate", "a fox", "-m", "sora-2"];

test("a price that the service lists is compared before anything is sent", async () => {
  const world = await createWorld();
  const run = await world.vidgen(...generate, "--max-credits", "9");
  expect(run).toMatchObject({ code: 7, stderr: expect.stringContaining("the next generation costs up to 10") });
  expect([run.stdout, starts(world)]).toEqual(["", []]);
  expect(await world.vidgen(...generate, "--max-credits", "10")).toMatchObject({ code: 0 });
  expect(await world.vidgen("again", "last", "--max-credits", "9")).toMatchObject({ code: 7 });
  expect(starts(world)).toHaveLength(1);
});

test.each(["--max-credits", "--max-cost", "--keep-credits"])(
  "%s without a number is refused by its name",
  async (flag) => {
    const world = await createWorld();
    writeFileSync(join(world.folder, "shots.txt"), "a fox\n");
    for (const value of ["", " ", "null"]) {
      const lines = [generate, ["batch", join(world.folder, "shots.txt")], ["mcp"]];
      for (const line of flag === "--keep-credits" ? lines.slice(1, 2) : lines)
        expect(await world.vidgen(...line, flag, value)).toMatchObject({
          code: 2,
          stderr: expect.stringContaining(`${flag} must be`),
        });
    }
    expect(starts(world)).toEqual([]);
  },
);

test.each([
  ["--max-credits", "1000", "in credits is unknown"],
  ["--max-cost", "1000", "in US dollars is unknown"],
])("a generation of unknown price with %s is refused before anything is sent", async (flag, limit, message) => {
  const world = await createUnlisted();
  const run = await world.vidgen(...generate, "-d", "8", flag, limit, "--json");
  const { error } = JSON.parse(run.stderr);
  expect([run.code, run.stdout, starts(world)]).toEqual([7, "", []]);
  expect(error).toMatchObject({ code: "credits", charged: "no", next: [], message: expect.stringContaining(message) });
  expect(error.message).toMatch(/^The price of sora-2, duration 8 in .*Nothing was sent/);
  expect(error.hint).toMatch(/^The price becomes known when .* the same model, length, resolution and sound/);
  const dry = await world.vidgen(...generate, "-d", "8", flag, limit, "--dry-run");
  expect(dry).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/Would send nothing, and end with exit code 7: The price/),
  });
});

test("a price in credits is known after one start of the same kind, and not of another", async () => {
  const world = await createUnlisted();
  await world.vidgen(...generate);
  expect(await world.vidgen(...generate, "--max-credits", "10")).toMatchObject({ code: 0 });
  expect(await world.vidgen(...generate, "--max-credits", "9")).toMatchObject({ code: 7 });
  expect(await world.vidgen(...generate, "-d", "8", "--max-credits", "10")).toMatchObject({ code: 7 });
  expect(starts(world)).toHaveLength(2);
});

test("a price in US dollars is known after one video of the same kind has ended", async () => {
  const world = await createUnlisted({ cost: 0.4 });
  await world.vidgen(...generate);
  expect(await world.vidgen(...generate, "--max-cost", "$0.40")).toMatchObject({ code: 0 });
  const run = await world.vidgen(...generate, "--max-cost", "0.39");
  expect(run).toMatchObject({ code: 7, stderr: expect.stringContaining("the next one costs up to $0.4") });
  expect(starts(world)).toHaveLength(2);
});

test("what was paid for before is resumed, whatever the limit", async () => {
  const world = await createUnlisted();
  await kill(world, isPoll, ...generate);
  expect(await world.vidgen(...generate, "--max-credits", "1")).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("Resuming"),
  });
  expect(starts(world)).toHaveLength(1);
});

test("of several, the first of each kind runs alone, and the others at once", async () => {
  const world = await createUnlisted({ cost: 0.4 });
  const run = await world.vidgen("generate", "a fox", "-m", "sora-2,ray-3", "-n", "3", "--max-cost", "2.40");
  expect(run.code).toBe(0);
  const order = world.requests.flatMap((request) => {
    if (isStart(request)) return JSON.parse(request.body).model;
    return request.url.includes("generation-status") ? "poll" : [];
  });
  const polls = (count: number) => Array(count).fill("poll");
  expect(order.slice(0, 5)).toEqual(["sora-2", ...polls(2), "sora-2", "sora-2"]);
  expect(order.slice(5)).toEqual([...polls(4), "ray-3", ...polls(2), "ray-3", "ray-3", ...polls(4)]);
});

test("several stop before they cost more, and the same line with a higher limit gets the rest", async () => {
  const world = await createUnlisted({ cost: 0.4 });
  const several = ["generate", "a fox", "-m", "sora-2,ray-3", "-n", "2"];
  const run = await world.vidgen(...several, "--max-cost", "1");
  expect(run).toMatchObject({
    code: 7,
    stderr: expect.stringContaining("Raise --max-cost, then run the same command to get the rest."),
  });
  expect(starts(world)).toHaveLength(3);
  expect(await world.vidgen(...several, "--max-cost", "1.60")).toMatchObject({ code: 0 });
  expect(starts(world)).toHaveLength(4);
});

test("several that are not waited for stop after the first of an unknown price", async () => {
  const world = await createUnlisted({ cost: 0.4 });
  const run = await world.vidgen("generate", "a fox", "-n", "3", "--no-wait", "--max-cost", "5");
  expect(run).toMatchObject({
    code: 7,
    stderr: expect.stringContaining("Nothing more is started until the running generation has ended"),
  });
  expect([run.stdout.trim().split("\n").length, starts(world).length]).toEqual([1, 1]);
});

test.each([
  ["--max-credits", "0", "--max-credits must be a whole number, at least 1"],
  ["--max-cost", "0", "--max-cost must be an amount of US dollars"],
  ["--max-cost", "cheap", "--max-cost must be an amount of US dollars"],
])("%s %s is a usage error", async (flag, limit, message) => {
  const world = await createWorld();
  expect(await world.vidgen(...generate, flag, limit)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(message),
  });
  expect(world.requests).toEqual([]);
});

test("a free preview needs no price", async () => {
  const world = await createWorld();
  const dry = ["generate", "a fox", "--local", "-d", "1", "--dry-run", "--max-credits", "1", "--max-cost", "1"];
  expect(await world.vidgen(...dry)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("POST {local service}"),
  });
});
