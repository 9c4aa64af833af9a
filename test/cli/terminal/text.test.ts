import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { showStart } from "../../../src/cli/terminal/progress.ts";
import { ellipsisFor, isAscii, wrapWords } from "../../../src/cli/terminal/text.ts";
import { createVirtualClock } from "../../clock.ts";
import { createWorld, failure, isStart } from "../../vidgen.ts";

test.each([
  ["one two three four", "one two three\nfour"],
  ["  one two three four", "  one two\n  three four"],
  ["a https://a.example/very/long/address b", "a\nhttps://a.example/very/long/address\nb"],
  ["Or type `vidgen wait abc -o fox.mp4`.", "Or type\n`vidgen wait abc -o fox.mp4`."],
  ["Go on with: vidgen batch shots.csv --jobs 4", "Go on with:\nvidgen batch shots.csv --jobs 4"],
  ["  vidgen generate 'a fox' -o fox.mp4", "  vidgen generate 'a fox' -o fox.mp4"],
  ["  printf %s x | vidgen generate - -o fox.mp4", "  printf %s x | vidgen generate - -o fox.mp4"],
  ["short\none two three four\n", "short\none two three\nfour\n"],
])("%j is broken between words, and never inside of a command", (text, wrapped) => {
  expect(wrapWords(text, 14)).toBe(wrapped);
});

test("at a terminal messages are broken between words; elsewhere a line stays one line", async () => {
  const world = await createWorld();
  const refuse = () => world.vidgen("generate", "a fox", "-a", "wide", "--no-wait", "--timeout", "5m");
  const piped = await refuse();
  Object.assign(world, { isTerminal: true, columns: 40 });
  const { stderr } = await refuse();
  expect(stripVTControlCharacters(stderr).replace(/\s+/g, " ")).toBe(piped.stderr.replace(/\s+/g, " "));
  const lines = stripVTControlCharacters(stderr).split("\n");
  expect(lines.filter((line) => line.length > 40)).toEqual([]);
  expect(stderr.split("\n").length).toBeGreaterThan(piped.stderr.split("\n").length);
});

test.each([
  [{ LC_ALL: "C", LANG: "en_US.UTF-8" }, true],
  [{ LC_CTYPE: "POSIX" }, true],
  [{ LANG: "C" }, true],
  [{ LANG: "C.UTF-8" }, false],
  [{ LC_ALL: "", LANG: "de_DE.UTF-8" }, false],
  [{}, false],
])("the locale %j has ASCII alone: %s", (env, expected) => {
  expect([isAscii(env), ellipsisFor(env)]).toEqual([expected, expected ? "..." : "…"]);
});

test("with LC_ALL=C nothing but ASCII is printed: progress, questions, a table, cut texts", async () => {
  const world = await createWorld();
  Object.assign(world, { isTerminal: true, columns: 60 });
  const isAnswered = (request: Request) => isStart(request) && expect.poll(shown).toContain("Starting");
  const shown = () => world.printed.stderr;
  world.faults = [async (request) => void (await isAnswered(request))];
  world.answers = ["What should", "Which model", "Which aspect", "How long", "Start it?"].map((question, i) => [
    question,
    i === 0 ? `a fox ${"x".repeat(100)}\r` : "\r",
  ]);
  const print = async () => {
    const runs = [
      await world.vidgen("generate", "--no-wait"),
      await world.vidgen("generate", "a fox", "-m", `wan-2.${"5".repeat(90)}`, "-d", "x".repeat(90), "--no-wait"),
      await world.vidgen("list"),
    ];
    return stripVTControlCharacters(runs.map(({ stdout, stderr }) => stdout + stderr).join(""));
  };
  await world.vidgen("generate", `a fox ${"x".repeat(100)}`, "--no-wait");
  world.env.LC_ALL = "C";
  const text = await print();
  expect([...text].filter((letter) => letter > "~" && letter !== "\n")).toEqual([]);
  expect(text.match(/x\.\.\./g)?.length).toBeGreaterThan(1);
});

const why = "waiting for the id, even if --timeout is shorter";

test("a start request without an answer: lines tell how long, and why it is waited for beyond --timeout", async () => {
  const world = await createWorld();
  world.faults = [
    async (request) => {
      if (!isStart(request)) return undefined;
      await world.io.sleep(100_000);
      throw failure("ECONNRESET", true);
    },
  ];
  const run = await world.vidgen("generate", "a fox", "--timeout", "5s");
  expect(run.stderr.split("\n").slice(0, 3)).toEqual([
    `Starting...  30 s; ${why}`,
    `Starting...  1 min 0 s; ${why}`,
    `Starting...  1 min 30 s; ${why}`,
  ]);
  expect(run.code).toBe(6);
});

test("at a terminal the line of a start request counts the seconds, and ends with it", async () => {
  const clock = createVirtualClock();
  const shown: string[] = [];
  const output = {
    isLive: true,
    note: () => {},
    progress: (text: string) => shown.push(text),
    clearProgress: () => shown.push(""),
  };
  const stop = showStart(output, clock);
  await clock.sleep(12_500);
  stop();
  await clock.sleep(5_000);
  const counted = Array.from({ length: 12 }, (_, i) => `Starting...  ${i + 1} s${i < 9 ? "" : `; ${why}`}`);
  expect(shown).toEqual(["Starting...", ...counted, ""]);
});
