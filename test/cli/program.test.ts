import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { models } from "../../src/client/models.ts";
import { createWorld } from "../vidgen.ts";

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

test("the help of a command has examples first and the flags that every command has", async () => {
  for (const command of await listCommands()) {
    const { code, stdout } = await (await createWorld()).vidgen(command, "--help");
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

test("without a command it is the help", async () => {
  const world = await createWorld();
  const help = await world.vidgen("--help");
  expect(await world.vidgen()).toEqual({ ...help, code: 0, stderr: "" });
  expect(await world.vidgen("--quiet")).toEqual(help);
});

test("a misspelt command and flag get a suggestion", async () => {
  const world = await createWorld();
  expect((await world.vidgen("generte", "x")).stderr).toContain("generate");
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

test("models lists each model and what it is for, and marks the default", async () => {
  const world = await createWorld();
  const { stdout } = await world.vidgen("models");
  for (const { id, characteristic } of models) expect(stdout).toMatch(new RegExp(`^${id} +${characteristic}`, "m"));
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
