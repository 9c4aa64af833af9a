import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createWorld, isStart } from "../vidgen.ts";

const generate = ["generate", "a fox"];

test.each([
  [["-o", "--local"], "--output needs a value: --output <place>; the next word is --local.", "--output=--local"],
  [["--output", "--loca"], "--output needs a value: --output <place>; the next word is --loca.", "--output=--loca"],
  [["-o", "--quiet"], "--output needs a value: --output <place>; the next word is --quiet.", "--output=--quiet"],
  [["--set", "-o"], "--set needs a value: --set <field=value>; the next word is -o.", "--set=-o"],
  [["-o", "--", "x"], "--output needs a value: --output <place>; the next word is --.", "--output=--"],
  [["-m", "-h"], "--model needs a value: --model <id>; the next word is -h.", "--model=-h"],
  [["--model", "--help"], "--model needs a value: --model <id>; the next word is --help.", "--model=--help"],
  [["-i", "--dry-run"], "--image needs a value: --image <url|file>; the next word is --dry-run.", "--image=--dry-run"],
])("a flag without its value takes no other flag for it: generate %j sends nothing", async (flags, message, typed) => {
  const world = await createWorld();
  expect(await world.vidgen(...generate, ...flags)).toEqual({
    code: 2,
    stdout: "",
    stderr: `error: ${message} Nothing was sent.\n  If ${typed.replace(/.*=/, "")} is the value, type ${typed}.\n`,
  });
  expect(world.requests).toEqual([]);
});

test("so it is with each command, wherever the flag stands, and with several short flags in one word", async () => {
  const world = await createWorld();
  world.isTerminal = true;
  const shots = join(world.folder, "shots.txt");
  await writeFile(shots, "a fox\n");
  for (const argv of [
    ["batch", shots, "--prompt", "--dry-run"],
    ["batch", shots, "-yo", "--local"],
    ["--model", "--json", "batch", shots, "-y"],
    ["wait", "--all", "-o", "--local"],
    ["status", "--base-url", "--local"],
    ["list", "--forget", "--json"],
    ["serve", "--port", "--json"],
    ["listen", "--forward", "--no-check"],
    ["mcp", "--dir", "--local"],
    ["login", "--base-url", "--with-token"],
  ]) {
    const run = await world.vidgen(...argv);
    expect([argv, run.code, run.stderr + run.stdout]).toEqual([
      argv,
      2,
      expect.stringMatching(/needs a value[\s\S]*Nothing\s+was\s+sent/),
    ]);
  }
  expect(world.requests).toEqual([]);
});

test("the error is a document where the next flag is --json", async () => {
  const world = await createWorld();
  const { stderr } = await world.vidgen(...generate, "-o", "--json");
  expect(JSON.parse(stderr).error).toMatchObject({ code: "usage", message: expect.stringContaining("--json") });
});

test.each([
  ["-m=ray-3", '-m=ray-3 would set --model to "=ray-3". Nothing was sent.', "Type -m ray-3 or --model=ray-3."],
  [
    "-o=fox.mp4",
    '-o=fox.mp4 would set --output to "=fox.mp4". Nothing was sent.',
    "Type -o fox.mp4 or --output=fox.mp4.",
  ],
])("%s is refused: the value would begin with =", async (word, message, hint) => {
  const world = await createWorld();
  expect(await world.vidgen(...generate, word)).toEqual({
    code: 2,
    stdout: "",
    stderr: `error: ${message}\n  ${hint}\n`,
  });
  expect(world.requests).toEqual([]);
});

test("a value that begins with a dash is said with =, and the commands that vidgen prints do so too", async () => {
  const world = await createWorld();
  const before = process.cwd();
  process.chdir(world.folder);
  try {
    const run = await world.vidgen(...generate, "--output=--json", "--set=style=-o", "--timeout", "10s");
    expect(run).toMatchObject({ code: 5, stdout: "" });
    const resume = /vidgen (wait .*)/.exec(run.stderr)?.[1] ?? "";
    expect(resume).toMatch(/^wait \S+ --output=--json$/);
    expect(await world.vidgen(...resume.split(" "))).toMatchObject({ code: 0, stdout: "--json\n" });
  } finally {
    process.chdir(before);
  }
  expect(JSON.parse(world.requests.find(isStart)?.body ?? "")).toEqual({
    prompt: "a fox",
    model: "wan-2.5",
    style: "-o",
  });
});

test("a prompt that begins with a dash comes after --; stdin, numbers and words with spaces are values", async () => {
  const world = await createWorld();
  world.stdin = "an owl";
  await world.vidgen("generate", "--no-wait", "--", "--local");
  await world.vidgen("generate", "--no-wait", "-");
  await world.vidgen("generate", "--no-wait", "a hare", "--set", "seed=-5", "-mray-3", "--set=x=-o");
  const shots = join(world.folder, "shots.csv");
  await writeFile(shots, "animal\na fox\n");
  await world.vidgen("batch", shots, "-y", "--prompt", "-- {animal} at night");
  expect(world.requests.filter(isStart).map(({ body }) => JSON.parse(body))).toEqual([
    { prompt: "--local", model: "wan-2.5" },
    { prompt: "an owl", model: "wan-2.5" },
    { prompt: "a hare", model: "ray-3", seed: -5, x: "-o" },
    { prompt: "-- a fox at night", model: "wan-2.5" },
  ]);
  expect(await world.vidgen("generate", "a fox", "--duration", "-5")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--duration must be a length"),
  });
});

test("no flag takes a value in one command and none in another: the command line is read before its command is known", async () => {
  const world = await createWorld();
  const { commands, flags } = JSON.parse((await world.vidgen("help", "--json")).stdout);
  type Flag = { short: string | null; long: string; type: string };
  const all: Flag[] = [...flags, ...commands.flatMap(({ flags }: { flags: Flag[] }) => flags)];
  const types = new Map<string, string>();
  for (const { short, long, type } of all)
    for (const name of [short, long].filter((name) => name !== null)) {
      expect([name, types.get(name) ?? type]).toEqual([name, type]);
      types.set(name, type);
    }
});
