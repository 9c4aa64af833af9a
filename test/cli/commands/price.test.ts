import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { apiKey, createWorld, failure, isStart, type World } from "../../vidgen.ts";

// What is said of the price before a start, and of what was charged after it.

const lines = (text: string) => text.trimEnd().split("\n");

/** A service that accepts starts as `vidgen serve` does, and answers with these fields of its own; it does not list its models. */
async function createStating(fields: object): Promise<World> {
  const world = await createWorld();
  world.faults.push(async (request) => {
    if (new URL(request.url).pathname === "/v1/models")
      return Response.json({ error: "no such path" }, { status: 404 });
    if (!isStart(request)) return undefined;
    const {
      credits_charged: _,
      remaining_credits: __,
      ...reply
    } = (await world.start(request)) as Record<string, unknown>;
    return Response.json({ ...reply, ...fields });
  });
  return world;
}

describe("models", () => {
  test("has the prices that a `vidgen serve` states, before anything was bought", async () => {
    const world = await createWorld();
    const { stdout, stderr } = await world.vidgen("models");
    expect(lines(stdout)[0]).toBe("sora-2              10 credits  flagship, cinematic quality");
    expect(stderr).toBe("");
    expect((await world.vidgen("models", "sora-2")).stdout).toContain(
      "free with --local; 10 credits at api.video.example",
    );
    const [first] = JSON.parse((await world.vidgen("models", "--json")).stdout);
    expect(first).toMatchObject({ id: "sora-2", credits: 10, cost: null });
  });

  test("has what another service stated at an earlier start, and no column where nothing is known", async () => {
    const world = await createStating({ credits_charged: 7, remaining_credits: 90 });
    expect(lines((await world.vidgen("models")).stdout)[0]).toBe("sora-2              flagship, cinematic quality");
    await world.vidgen("generate", "a fox", "-m", "ray-3", "--no-wait");
    const { stdout } = await world.vidgen("models");
    expect(stdout).toMatch(/^ray-3 {15}7 credits {2}fast creative generation$/m);
    expect(stdout).toMatch(/^sora-2 {14}\? {10}flagship/m);
  });

  test("needs no service that answers", async () => {
    const world = await createWorld();
    world.faults.push(() => {
      throw failure("ECONNREFUSED", false);
    });
    const { code, stdout, stderr } = await world.vidgen("models");
    expect([code, lines(stdout)[0], stderr]).toEqual([0, "sora-2              flagship, cinematic quality", ""]);
  });
});

describe("--dry-run begins with the cost", () => {
  const dryRun = async (world: World, ...flags: string[]) =>
    lines((await world.vidgen("generate", "a fox", "--dry-run", ...flags)).stdout)[0];

  test("of what is known, and starts nothing", async () => {
    const world = await createStating({ credits_charged: 7, remaining_credits: 90 });
    expect(await dryRun(world)).toMatch(/^Cost: unknown: no price for this request was stated before\./);
    await world.vidgen("generate", "an owl", "--no-wait");
    const sent = world.requests.filter(isStart).length;
    expect(await dryRun(world)).toBe("Cost: about 7 credits.");
    expect(await dryRun(world, "-n", "3", "-o", world.folder)).toBe("Cost: about 21 credits.");
    expect(await dryRun(world, "--local")).toBe("Cost: free.");
    expect(world.requests.filter(isStart)).toHaveLength(sent);
  });

  test("of what the service lists now, whatever an earlier start has cost, and needs its key for that", async () => {
    const world = await createStating({ credits_charged: 7, remaining_credits: 90 });
    await world.vidgen("generate", "an owl", "--no-wait");
    world.faults.pop();
    expect(await dryRun(world)).toBe("Cost: about 10 credits.");
    expect(await dryRun(world, "-d", "8", "--set", "mode=pro")).toBe("Cost: about 10 credits.");
    const asked = world.requests.length;
    delete world.env.VIDGEN_API_KEY;
    expect(await dryRun(world)).toMatch(/^Cost: unknown/);
    expect(world.requests).toHaveLength(asked);
  });

  test("also without a service, and where nothing would be sent", async () => {
    const world = await createWorld();
    await world.vidgen("generate", "a fox");
    expect(await dryRun(world, "--reuse")).toBe("Cost: nothing.");
    Object.assign(world.env, { VIDGEN_BASE_URL: undefined });
    expect(await dryRun(world)).toBe("Cost: unknown, since no service is set.");
  });

  test("of an engine whose price nobody has stated yet", async () => {
    const world = await createWorld();
    Object.assign(world.env, { OPENROUTER_API_KEY: "sk-or-canary-0123456789" });
    expect(await dryRun(world, "--engine", "openrouter")).toMatch(/^Cost: unknown/);
  });
});

test("batch --dry-run needs no login", async () => {
  const world = await createWorld();
  Object.assign(world.env, { VIDGEN_BASE_URL: undefined, VIDGEN_API_KEY: undefined });
  const file = join(world.folder, "shots.txt");
  writeFileSync(file, "a fox\nan owl\n");
  const run = await world.vidgen("batch", file, "--dry-run");
  expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("No base URL is set; without --dry-run") });
  expect(lines(run.stdout)).toEqual([
    `2 rows: 2 to start (${file}.results.jsonl)`,
    "  wan-2.5: 2 to start, cost unknown",
    "Cost: unknown.",
  ]);
  expect(await world.vidgen("batch", file)).toMatchObject({ code: 3 });
  const local = await world.vidgen("batch", file, "--dry-run", "--local");
  expect(lines(local.stdout).slice(1)).toEqual(["  wan-2.5: 2 to start", "Cost: free."]);
  // What the local service does not serve is refused, and costs nothing.
  const typo = await world.vidgen("batch", file, "--dry-run", "--local", "-m", "wan25");
  expect(lines(typo.stdout).slice(1)).toEqual(["  wan25: 2 to start", "Cost: free."]);
  expect(world.requests).toEqual([]);
});

test("batch --dry-run without a login plans by the service of its results", async () => {
  const world = await createWorld();
  const file = join(world.folder, "shots.txt");
  writeFileSync(file, "a fox\n");
  expect(await world.vidgen("batch", file)).toMatchObject({ code: 0 });
  Object.assign(world.env, { VIDGEN_BASE_URL: undefined, VIDGEN_API_KEY: undefined });
  expect((await world.vidgen("batch", file, "--dry-run")).stdout).toContain("1 row: 1 done, 0 to start");
});

describe("charged, in a result", () => {
  test.each([
    [{ credits_charged: 7, remaining_credits: 90 }, "yes"],
    [{ credits_charged: 0, remaining_credits: 90 }, "no"],
    [{ remaining_credits: 90 }, undefined],
  ])("where the service states %j: %s", async (fields, charged) => {
    const world = await createStating(fields);
    const json = async (...argv: string[]) => JSON.parse((await world.vidgen(...argv, "--json")).stdout);
    const started = await json("generate", "a fox", "--no-wait");
    expect(started.charged).toBe(charged);
    expect((await json("wait", started.id)).charged).toBe(charged);
    expect((await json("generate", "a fox", "--reuse")).charged).toBe(charged);
    expect((await json("generate", "an owl", "-o", join(world.folder, "owl.mp4"))).charged).toBe(charged);
    const takes = await json("generate", "a hare", "-n", "2", "-o", `${world.folder}/`);
    expect(takes.map((take: { charged: unknown }) => take.charged)).toEqual([charged, charged]);
    const file = join(world.folder, "shots.txt");
    writeFileSync(file, "a lynx\n");
    const batch = await json("batch", file, "-o", `${world.folder}/{n}.mp4`);
    expect(batch.generations.map((row: { charged: unknown }) => row.charged)).toEqual([charged]);
  });
});

describe("rows that were refused", () => {
  test("are to be corrected, and the line that says so works; paying again is not mentioned", async () => {
    const world = await createWorld();
    const file = join(world.folder, "shots.csv");
    writeFileSync(file, "id,prompt,model\nfox,a fox,\nowl,an owl,wan25\n");
    world.faults.push(async (request) => {
      if (!isStart(request)) return undefined;
      const { model } = (await request.clone().json()) as { model: string };
      return model === "wan25" ? Response.json({ error: "no such model" }, { status: 400 }) : undefined;
    });
    const batch = () => world.vidgen("batch", file, "-o", `${world.folder}/{id}.mp4`);
    for (const stderr of [(await batch()).stderr, (await batch()).stderr]) {
      expect(stderr).toContain("Correct line 3, which was refused and cost nothing, then run: ");
      expect(stderr).not.toMatch(/charged again|retry-failed/);
    }
    const status = await world.vidgen("batch", "status", file);
    expect(status.stderr).toContain("Correct line 3, which was refused and cost nothing, then run: ");
    expect(status.stderr).not.toContain("charged again");
    const command = /then run: vidgen (batch .*)$/m.exec((await batch()).stderr)?.[1] ?? "";
    writeFileSync(file, "id,prompt,model\nfox,a fox,\nowl,an owl,wan-2.5\n");
    expect(await world.vidgen(...command.split(" ").map((word) => word.replace(/^'|'$/g, "")))).toMatchObject({
      code: 0,
    });
  });
});

test("-n says of all that have no generation that they were not started", async () => {
  const world = await createWorld({ credits: 20 });
  const run = await world.vidgen("generate", "a fox", "-n", "8", "-o", `${world.folder}/`);
  expect(run).toMatchObject({ code: 7, stderr: expect.stringContaining("6 of 8 were not started.") });
});

test("the form confirms a free preview with Enter, and shows what it costs and its length in seconds", async () => {
  const world = await createWorld();
  Object.assign(world.env, { VIDGEN_BASE_URL: undefined, VIDGEN_API_KEY: undefined });
  world.isTerminal = true;
  world.answers = [
    ["What should", "a fox\r"],
    ["Which model", "\r"],
    ["Which aspect", "\r"],
    ["How long", "1\r"],
    ["Start it?", "\r"],
  ];
  const run = await world.vidgen("generate", "--local", "--no-wait", "--no-color");
  expect(run.stderr).toMatch(/^ {2}Length {6}1 s\n {2}Cost {8}free$/m);
  expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("Start it? (Y/n)") });
  expect(readFileSync(join(world.home, "journal.jsonl"), "utf8")).not.toContain(apiKey);
});
