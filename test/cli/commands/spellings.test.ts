import { mkdirSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, expect, test } from "vitest";
import { baseUrl, createWorld, failure, isStart, kill, type World } from "../../vidgen.ts";

// One command, typed again in another spelling after an interruption: it continues, and is never paid for again.

const paid = (world: World) => world.requests.filter(isStart).length;
const isPoll = (request: Request) => request.url.includes("generation-status");

/** The words of a command in two spellings. `earlier` is a generation that the command may name. */
type Spell = (world: World, earlier: string) => [first: string[], second: string[]];

const fox = ["generate", "a fox"];
const spellings: [string, Spell][] = [
  ["the default model written out", () => [fox, [...fox, "-m", "wan-2.5"]]],
  [
    "--set seed=7 for --seed 7",
    () => [
      [...fox, "--seed", "7"],
      [...fox, "--set", "seed=7"],
    ],
  ],
  [
    "an id by its first 8 characters",
    (_, id) => [
      ["again", id, "-d", "4"],
      ["again", id.slice(0, 8), "-d", "4"],
    ],
  ],
  [
    "flags in another order",
    () => [
      [...fox, "-d", "4", "-a", "9:16"],
      ["generate", "-a", "9:16", "a fox", "-d", "4"],
    ],
  ],
];

/** More words of both spellings, and how many generations they ask for. */
const kinds: [string, Spell, number][] = [
  ["one", () => [[], []], 1],
  [
    "-n 2",
    () => [
      ["-n", "2"],
      ["--count", "2"],
    ],
    2,
  ],
  [
    "{n} in a path",
    (world) => [
      ["-o", join(world.folder, "x-{n}.mp4")],
      ["-o", spell(join(world.folder, "x-{n}.mp4"))],
    ],
    1,
  ],
  [
    "-n 2 with {n}",
    (world) => [
      ["-n", "2", "-o", join(world.folder, "x-{n}.mp4")],
      ["-o", spell(join(world.folder, "x-{n}.mp4")), "-n", "2"],
    ],
    2,
  ],
  [
    "two models",
    () => [
      ["-m", "sora-2,ray-3"],
      ["-m", "sora-2, ray-3"],
    ],
    2,
  ],
  [
    "two models in a folder",
    (world) => [
      ["-m", "sora-2,ray-3", "-o", `${world.folder}/`],
      ["-m", "sora-2,ray-3", "-o", spell(world.folder)],
    ],
    2,
  ],
];

/** Another spelling of an absolute path. */
function spell(path: string): string {
  return `./${relative(process.cwd(), path)}`;
}

describe.each(kinds)("%s", (kind, spellMore, count) => {
  // Several models have no default.
  const fitting = spellings.filter(([name]) => !(kind.includes("models") && name.includes("model")));

  test.each(fitting)("with %s", async (_, spellLine) => {
    const world = await createWorld();
    const made = await world.vidgen("generate", "an owl", "--json");
    const earlier = JSON.parse(made.stdout).id;
    mkdirSync(join(world.folder, "clips"));
    const [first, second] = spellLine(world, earlier);
    const [more, again] = spellMore(world, earlier);
    const [line, other] = [
      [...first, ...more],
      [...second, ...again],
    ];
    const sent = () => paid(world) - 1;
    // It runs, and its process is dead.
    await kill(world, isPoll, ...line);
    expect(await world.vidgen(...other)).toMatchObject({ code: 0 });
    expect(sent()).toBe(count);
    // After a good end, both are new.
    const lineAgain = line.map((word) => word.replace("x-{n}", "y-{n}"));
    const otherAgain = other.map((word) => word.replace("x-{n}", "y-{n}"));
    if (kind.includes("folder")) return;
    // Killed with its request out, and after an answer that nobody can read: nothing is sent.
    await kill(world, isStart, ...lineAgain);
    expect(await world.vidgen(...otherAgain)).toMatchObject({ code: 6 });
    expect(sent()).toBe(count + 1);
    const { stdout } = await world.vidgen("list", "--status", "unknown", "--json");
    for (const { attempt } of JSON.parse(stdout)) await world.vidgen("list", "--dismiss", attempt);
    const lose: World["faults"][number] = (request) => {
      if (!isStart(request)) return undefined;
      throw failure("ECONNRESET", true);
    };
    world.faults.push(lose);
    expect(await world.vidgen(...otherAgain)).toMatchObject({ code: 6 });
    world.faults.length = 0;
    expect(await world.vidgen(...lineAgain)).toMatchObject({ code: 6 });
    expect(sent()).toBe(count + 2);
  });
});

test("a prompt that has the key in it is the same command with a new key, so that last keeps its meaning", async () => {
  const world = await createWorld();
  const line = () => ["again", "last", `a fox with ${world.env.VIDGEN_API_KEY}`];
  await world.vidgen("generate", "an owl", "--no-wait");
  await kill(world, isStart, ...line());
  await world.vidgen("generate", "a dog", "--no-wait");
  const sent = paid(world);
  world.env.VIDGEN_API_KEY = "canary-key-9876543210";
  expect(await world.vidgen(...line())).toMatchObject({ code: 6 });
  expect(paid(world)).toBe(sent);
});

describe("at another path of the same origin, which may be the same service,", () => {
  const moved = async (moment: (request: Request) => boolean, ...line: string[]) => {
    const world = await createWorld();
    await kill(world, moment, ...line);
    world.env.VIDGEN_BASE_URL = `${baseUrl}/v2`;
    return world;
  };

  test.each([[fox], [[...fox, "-n", "2"]], [[...fox, "--reuse"]]])(
    "an open attempt stops %j, and names the command that takes its video there",
    async (line) => {
      const world = await moved(isPoll, ...line);
      const sent = paid(world);
      const run = await world.vidgen(...line);
      expect(run).toMatchObject({ code: 2, stdout: "" });
      expect(run.stderr).toMatch(new RegExp(`vidgen wait [0-9a-f-]{36} --base-url ${baseUrl}(?!/v2)`));
      const { next } = JSON.parse((await world.vidgen(...line, "--json")).stderr).error;
      expect(next[0].argv.join(" ")).toMatch(new RegExp(`wait [0-9a-f-]{36} --base-url ${baseUrl}(?!/v2)`));
      expect(paid(world)).toBe(sent);
      await world.vidgen(...line.filter((word) => word !== "--reuse"), "--again");
      expect(paid(world)).toBeGreaterThan(sent);
      // It was not dismissed: its own service may still have it.
      world.env.VIDGEN_BASE_URL = baseUrl;
      const { code } = await world.vidgen(...line);
      expect([code, world.requests.filter((each) => isStart(each) && !each.url.includes("/v2")).length]).toEqual([
        0,
        line.includes("-n") ? 2 : 1,
      ]);
    },
  );

  test("one that may have been charged stops the line with 6", async () => {
    const world = await moved(isStart, ...fox);
    expect(await world.vidgen(...fox)).toMatchObject({ code: 6 });
    expect(paid(world)).toBe(1);
  });
});
