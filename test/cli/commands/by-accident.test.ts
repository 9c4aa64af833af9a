import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { createWorld, isStart, kill, type World } from "../../vidgen.ts";

// What somebody typed is not what they meant: it is not paid for, unless they say so.

const starts = (world: World) => world.requests.filter(isStart).map(({ body }) => JSON.parse(body));
const isPoll = (request: Request) => request.url.includes("generation-status");

/** A world whose working folder has these files. */
async function open(files: Record<string, string> = {}) {
  const world = await createWorld();
  const before = process.cwd();
  process.chdir(world.folder);
  restore = () => process.chdir(before);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(world.folder, name, ".."), { recursive: true });
    writeFileSync(join(world.folder, name), text);
  }
  return world;
}
let restore = () => {};
afterEach(() => restore());

describe("a prompt that is only the name of a file, or an address", () => {
  const files = { "prompt.txt": "a fox in snow", "fox.mov": "a video", "shots/fox.png": "a picture", "a note.md": "x" };
  test.each([
    ["prompt.txt", "vidgen generate @prompt.txt --duration 8"],
    ["a note.md", "vidgen generate '@a note.md' --duration 8"],
    ["./shots/fox.png", 'vidgen generate "..." -i ./shots/fox.png --duration 8'],
    ["fox.mov", 'vidgen generate "..." --from fox.mov --duration 8'],
    ["https://example.com/fox.jpg", 'vidgen generate "..." -i https://example.com/fox.jpg --duration 8'],
    [" http://example.com/a?b=c ", "http://example.com/a"],
    ["C:\\Users\\mia\\fox.png", "fox.png"],
    ["d:/films/prompt.txt", "@d:/films/prompt.txt"],
  ])("%j: exit 2 with the lines to type, and nothing is sent", async (prompt, line) => {
    const world = await open(files);
    const run = await world.vidgen("generate", prompt, "-d", "8");
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toContain(line);
    expect(run.stderr).toMatch(/printf %s .* \| vidgen generate - --duration 8$/m);
    expect(run.stderr).toContain("Nothing was sent");
    expect((await world.vidgen("generate", prompt, "-d", "8", "--dry-run")).code).toBe(2);
    // As the printed line sends it.
    world.stdin = Buffer.from(prompt);
    expect(await world.vidgen("generate", "-", "-d", "8")).toMatchObject({ code: 0 });
    expect(starts(world)).toMatchObject([{ prompt: prompt.trim() }]);
  });

  test.each(["a fox", "prompt.md", "a fox at https://example.com", "16:9", "shots", "I/O", "v1.5"])(
    "%j is a prompt",
    async (prompt) => {
      const world = await open(files);
      expect(await world.vidgen("generate", prompt)).toMatchObject({ code: 0 });
      expect(starts(world)).toMatchObject([{ prompt }]);
    },
  );

  test("a terminal asks: no sends nothing, and says what to type; yes sends these words", async () => {
    const world = await open(files);
    Object.assign(world, { isTerminal: true, columns: 200 });
    const question = 'The prompt is only the name of a file: "prompt.txt". Send these words as they are?';
    world.answers = [[question, "\r"]];
    const no = await world.vidgen("generate", "prompt.txt");
    expect([no.code, starts(world)]).toEqual([2, []]);
    expect(no.stderr).toContain("vidgen generate @prompt.txt");
    world.answers = [[question, "y\r"]];
    expect(await world.vidgen("generate", "prompt.txt")).toMatchObject({ code: 0 });
    expect(starts(world)).toMatchObject([{ prompt: "prompt.txt" }]);
  });

  test.each([[[]], [["-n", "2", "-o", "clips/"]], [["--style", "ink"]]])(
    "what an earlier version left open is resumed, and not paid for again: %j",
    async (flags) => {
      const world = await open();
      await kill(world, isPoll, "generate", "prompt.txt", ...flags);
      writeFileSync(join(world.folder, "prompt.txt"), "a fox in snow");
      const { length } = starts(world);
      expect(await world.vidgen("generate", "prompt.txt", ...flags)).toMatchObject({ code: 0 });
      expect(starts(world)).toHaveLength(flags.includes("-n") ? 2 : length);
    },
  );

  test("again asks too", async () => {
    const world = await open(files);
    await world.vidgen("generate", "a fox");
    const run = await world.vidgen("again", "last", "prompt.txt");
    expect([run.code, starts(world).length]).toEqual([2, 1]);
    expect(run.stderr).toContain("vidgen again last @prompt.txt");
  });

  test("vidgen with nothing but a saved video says what can be done with it", async () => {
    const world = await open();
    await world.vidgen("generate", "a fox", "-o", "fox.mp4");
    const run = await world.vidgen("fox.mp4");
    expect(run.code).toBe(2);
    for (const line of ["vidgen list --open fox.mp4", "vidgen again fox.mp4", 'vidgen generate "..." --from fox.mp4'])
      expect(run.stderr).toContain(line);
    writeFileSync(join(world.folder, "other.mp4"), "not from here");
    expect((await world.vidgen("other.mp4")).stderr).not.toContain("--open");
  });
});

describe("@herro for the reference @hero", () => {
  const project = JSON.stringify({ references: { hero: "hero.png" } });
  const files = { "vidgen.json": project, "hero.png": "a picture" };

  test("exit 2 with both lines, and nothing is sent; by stdin these words are sent", async () => {
    const world = await open(files);
    const run = await world.vidgen("generate", "the @herro walks", "-d", "8");
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toMatch(/Did you mean @hero\?.*Nothing was sent/);
    expect(run.stderr).toContain("vidgen generate 'the @hero walks' --duration 8".replaceAll("'", '"'));
    world.stdin = Buffer.from("the @herro walks");
    expect(await world.vidgen("generate", "-")).toMatchObject({ code: 0 });
    expect(starts(world)).toMatchObject([{ prompt: "the @herro walks" }]);
  });

  test.each(["me@herro.com walks", "a fox and @somebody", "the hero walks"])("%j is sent as it is", async (prompt) => {
    const world = await open(files);
    expect(await world.vidgen("generate", prompt)).toMatchObject({ code: 0 });
    expect(starts(world)).toMatchObject([{ prompt }]);
  });

  test("in rows it is a fault with its line, and a row that an earlier version left open is resumed", async () => {
    const world = await open({ ...files, "shots.csv": "prompt\na fox\nthe @herro walks\n" });
    const run = await world.vidgen("batch", "shots.csv");
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toMatch(/line 3.*@herro.*@hero/);
    const earlier = await open({ "shots.txt": "the @herro walks\n" });
    await kill(earlier, isPoll, "batch", "shots.txt");
    for (const [name, text] of Object.entries(files)) writeFileSync(join(earlier.folder, name), text);
    expect(await earlier.vidgen("batch", "shots.txt")).toMatchObject({ code: 0 });
    expect(starts(earlier)).toHaveLength(1);
  });
});
