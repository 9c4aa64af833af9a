import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { Command } from "@commander-js/extra-typings";
import { expect, test } from "vitest";
import { addOutlined, type Outline, outlineOf } from "../../src/cli/help/outline.ts";
import { models } from "../../src/protocol/models.ts";
import { createWorld, isStart } from "../vidgen.ts";

const bin = fileURLToPath(new URL("../../bin/vidgen.js", import.meta.url));

async function listCommands(): Promise<string[]> {
  const { commands } = JSON.parse((await (await createWorld()).vidgen("help", "--json")).stdout);
  return commands.map(({ name }: { name: string }) => name);
}

test("--version prints the package's version", async () => {
  const world = await createWorld();
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  expect(await world.vidgen("--version")).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
});

test("--help names each command, examples first", async () => {
  const world = await createWorld();
  const { code, stdout } = await world.vidgen("--help");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^Examples:\n/);
  for (const command of await listCommands()) expect(stdout).toMatch(new RegExp(`^  ${command} `, "m"));
});

test("the help of each command fits 80 columns when it is piped; only examples, which are one command each, may be longer", async () => {
  for (const command of await listCommands()) {
    const { stdout } = await (await createWorld()).vidgen(command, "--help", "--all");
    const lines = stdout.split("\n").filter((line) => line.length > 80 && !line.startsWith("  $ "));
    expect([command, lines]).toEqual([command, []]);
  }
});

test("the help of a command has examples first and the flags that every command has", async () => {
  for (const command of await listCommands()) {
    const { code, stdout } = await (await createWorld()).vidgen(command, "--help", "--all");
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^Examples:\n(  .*\\bvidgen ${command}.*\n)+\nUsage: vidgen ${command}`));
    for (const flag of ["--json", "--quiet", "--verbose", "--color", "--no-color", "--no-input"])
      expect(stdout).toContain(flag);
  }
});

test.each([
  ["an unknown command", ["generte", "x"]],
  ["an unknown flag", ["models", "--nope"]],
  ["a flag without its value", ["generate", "x", "--model"]],
  ["too many arguments", ["status", "a", "b"]],
])("%s is a usage error", async (_, argv) => {
  const world = await createWorld();
  expect(await world.vidgen(...argv)).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining("error: "),
  });
});

test("without a command it is an overview, and says where the help is", async () => {
  const world = await createWorld();
  const overview = await world.vidgen();
  expect(overview).toMatchObject({ code: 0, stderr: "", stdout: expect.stringContaining("`vidgen help`") });
  expect(overview.stdout.length).toBeLessThan((await world.vidgen("--help")).stdout.length);
  expect(await world.vidgen("--quiet")).toEqual(overview);
  expect(JSON.parse((await world.vidgen("--json")).stdout)).toHaveProperty("commands");
});

test("a misspelt or shortened command and flag get a suggestion", async () => {
  const world = await createWorld();
  expect((await world.vidgen("generte", "x")).stderr).toContain("generate");
  expect((await world.vidgen("gen", "a fox")).stderr).toMatch(
    /^error: Unknown command 'gen'. Did you mean generate\?$/m,
  );
  expect((await world.vidgen("a", "fox")).stderr).not.toContain("Did you mean");
  expect((await world.vidgen("generate", "x", "--overwite")).stderr).toContain("--overwrite");
});

test("a usage error with --json is one document", async () => {
  const world = await createWorld();
  const { stderr, code } = await world.vidgen("generate", "x", "--nope", "--json");
  expect([code, JSON.parse(stderr).error.code]).toEqual([2, "usage"]);
});

test("the flags of every command may stand before it", async () => {
  const world = await createWorld();
  expect(JSON.parse((await world.vidgen("--json", "models")).stdout)).toHaveLength(models.length);
});

test("models lists each model with its price and what it is good at, and marks the default", async () => {
  const world = await createWorld();
  const { stdout } = await world.vidgen("models");
  for (const { id, characteristic } of models)
    expect(stdout).toMatch(new RegExp(`^${id} +10 credits +${characteristic}`, "m"));
  expect(stdout.match(/.*\(default\)/g)).toEqual([expect.stringMatching(/^wan-2\.5 /)]);
});

test("a terminal in CI, and --no-input, are not asked", async () => {
  for (const [env, flags] of [
    [{ CI: "true" }, []],
    [{}, ["--no-input"]],
  ] as const) {
    const world = await createWorld();
    world.isTerminal = true;
    Object.assign(world.env, env);
    expect(await world.vidgen("generate", ...flags)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("A prompt is missing"),
    });
  }
});

test("colours only where they are wanted", async () => {
  const world = await createWorld();
  expect((await world.vidgen("status")).stderr).not.toContain("\u001b");
  expect((await world.vidgen("status", "--color")).stderr).toContain("\u001b[31m");
  world.isTerminal = true;
  expect((await world.vidgen("status")).stderr).toContain("\u001b[31m");
  world.env.NO_COLOR = "1";
  expect((await world.vidgen("status")).stderr).not.toContain("\u001b[31m");
});

const generate = ["generate", "a fox"];

test.each([
  [["-o", "--local"], "--output", "<path>", "--local"],
  [["--output", "--loca"], "--output", "<path>", "--loca"],
  [["--output=--local"], "--output", "<path>", "--local"],
  [["--set", "-o"], "--set", "<field=value>", "-o"],
  [["-m", "-h"], "--model", "<id>", "-h"],
  [["--model", "--help"], "--model", "<id>", "--help"],
  [["-d", "--local"], "--duration", "<length>", "--local"],
  [["-i", "--dry-run"], "--image", "<url|file>", "--dry-run"],
])(
  "a flag without its value takes no other flag for it: generate %j sends nothing",
  async (flags, name, form, next) => {
    const world = await createWorld();
    expect(await world.vidgen(...generate, ...flags)).toEqual({
      code: 2,
      stdout: "",
      stderr: `error: ${name} needs a value: ${name} ${form}, not ${next}. Nothing was sent.\n  See \`vidgen generate --help\`.\n`,
    });
    expect(world.requests).toEqual([]);
  },
);

test("so it is with each command, wherever the flag stands, and with several short flags in one word", async () => {
  const world = await createWorld();
  world.isTerminal = true;
  const shots = join(world.folder, "shots.txt");
  await writeFile(shots, "a fox\n");
  for (const argv of [
    [...generate, "-o", "--quiet"],
    [...generate, "-o", "--"],
    ["batch", shots, "--prompt", "--dry-run"],
    ["batch", shots, "-yo", "--local"],
    ["--model", "--json", "batch", shots, "-y"],
    ["wait", "--all", "-o", "--local"],
    ["status", "--base-url", "--local"],
    ["list", "--forget", "--json"],
    ["serve", "--port", "--json"],
    ["listen", "--forward", "--no-check"],
    ["mcp", "--dir", "--local"],
    ["accounts", "create", "ci", "--credits", "--local"],
    ["login", "--base-url", "--with-token"],
  ]) {
    const run = await world.vidgen(...argv);
    expect([argv, run.code, run.stderr]).toEqual([
      argv,
      2,
      expect.stringMatching(/needs a value|Unknown option '--model'/),
    ]);
  }
  expect(world.requests).toEqual([]);
});

test("the error is a document where the next flag is --json", async () => {
  const world = await createWorld();
  const { stderr } = await world.vidgen(...generate, "-o", "--json");
  expect(JSON.parse(stderr).error).toMatchObject({ code: "usage", message: expect.stringContaining("--output") });
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

test("short flags without a value work in one word, in any order: -yq is -y -q", async () => {
  const world = await createWorld();
  world.isTerminal = true;
  const shots = join(world.folder, "shots.txt");
  await writeFile(shots, "a fox\n");
  for (const [i, flags] of ["-yq", "-qy", "-yqo"].entries()) {
    const argv = ["batch", shots, "--results", join(world.folder, `${i}.jsonl`), flags, join(world.folder, "clips/")];
    const run = await world.vidgen(...argv.slice(0, flags.endsWith("o") ? 6 : 5));
    expect([flags, run.code, run.stderr]).toEqual([flags, 0, ""]);
  }
  expect((await world.vidgen("status", "-vq", "x")).stderr).toContain("GET https://");
});

test("readGlobalFlags knows each short flag without a value, which may stand before -q or -v in a word", async () => {
  const world = await createWorld();
  const { commands, flags } = JSON.parse((await world.vidgen("help", "--json")).stdout);
  type Flag = { short: string | null; type: string };
  const all: Flag[] = [...flags, ...commands.flatMap(({ flags }: { flags: Flag[] }) => flags)];
  const short = new Set(all.flatMap(({ short, type }) => (type === "boolean" && short ? short : [])));
  expect([...short].filter((flag) => !["-h", "-V"].includes(flag)).sort()).toEqual(["-q", "-v", "-y"]);
});

test("the built program has the help of each command without its code, as the code would print it", async () => {
  const world = await createWorld();
  const outlines: Outline[] = JSON.parse((await world.vidgen("help", "--outlines")).stdout);
  const program = new Command("vidgen");
  for (const outline of outlines) addOutlined(program, outline);
  expect(JSON.parse(JSON.stringify(outlineOf(program).commands))).toEqual(outlines);
  expect(readFileSync(new URL("../../dist/commands.json", import.meta.url), "utf8")).toBe(JSON.stringify(outlines));
  const lines = [
    ...[["--help"], ["help", "--json"], ["generate", "-qh"], ["serve", "--help", "--all"], ["batch", "status", "-h"]],
    ...[["help", "accounts", "create"], ["generte"], [], ["generate", "-o", "--help"], ["help", "--", "-h"]],
    ...[
      ["__complete", "--current=--o", "--", "batch"],
      ["__complete", "--current=w", "--", "generate", "-m"],
    ],
  ];
  for (const line of lines) {
    const { stdout, stderr, status } = spawnSync(process.execPath, [bin, ...line], { encoding: "utf8", env: {} });
    expect([line, { stdout, stderr, code: status }]).toEqual([line, await world.vidgen(...line)]);
  }
});
