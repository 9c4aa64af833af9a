import { join } from "node:path";
import { expect, test } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { readGlobalFlags } from "../../src/cli/program.ts";
import { createWorld } from "../vidgen.ts";

test.each([
  ["generte x", "Unknown command 'generte'. Did you mean generate?", "See `vidgen --help` for the commands."],
  ["hovercraft", "Unknown command 'hovercraft'.", "See `vidgen --help` for the commands."],
  ["generate x --overwite", "Unknown option '--overwite'. Did you mean --overwrite?", "See `vidgen generate --help`."],
  ["status x -o fox.mp4", "Unknown option '-o'.", "See `vidgen status --help`."],
  [
    "serve --pace fats",
    "Option '--pace <pace>' argument 'fats' is invalid. Allowed choices are fast, realistic.",
    "See `vidgen serve --help`.",
  ],
  ["generate x -m", "Option '-m, --model <id>' argument missing.", "See `vidgen generate --help`."],
  [
    "completion csh",
    "Command-argument value 'csh' is invalid for argument 'shell'. Allowed choices are bash, zsh, fish, powershell.",
    "See `vidgen completion --help`.",
  ],
  ["status a b", "Too many arguments for 'status'. Expected 1 argument but got 2.", "See `vidgen status --help`."],
  ["config foo", "Unknown command 'foo' of config.", "The commands of config are list, set and unset."],
  [
    "config unest",
    "Unknown command 'unest' of config. Did you mean unset?",
    "The commands of config are list, set and unset.",
  ],
  [
    "accounts show ci",
    "Unknown command 'show' of accounts.",
    "The commands of accounts are list, create, credits, limit, rotate, revoke and delete.",
  ],
  ["config list foo", "Too many arguments for 'list'. Expected 0 arguments but got 1.", "See `vidgen config --help`."],
  ["generate a red fox", "Too many arguments.", 'Quote the prompt: vidgen generate "a red fox"'],
  [
    "generate a red fox, running -o fox.mp4 --local",
    "Too many arguments.",
    'Quote the prompt: vidgen generate "a red fox, running" -o fox.mp4 --local',
  ],
  ["a red fox", "Unknown command 'a'.", 'To generate a video from this prompt: vidgen generate "a red fox"'],
  [
    "a $5 fox -m ray-3",
    "Unknown command 'a'.",
    "To generate a video from this prompt: vidgen generate 'a $5 fox' -m ray-3",
  ],
  ["list --limit 0", `--limit must be a whole number above 0, not "0".`, "See `vidgen list --help`."],
])("vidgen %s: what is wrong, and what to type next", async (line, message, hint) => {
  const world = await createWorld();
  expect(await world.vidgen(...line.split(" "))).toEqual({
    code: 2,
    stdout: "",
    stderr: `error: ${message}\n  ${hint}\n`,
  });
  const { stderr } = await world.vidgen("--json", ...line.split(" "));
  expect(JSON.parse(stderr).error).toMatchObject({ code: "usage", message });
  expect(world.requests).toEqual([]);
});

test.each([["--version"], ["-V"], ["version"]])("vidgen %s prints the version", async (word) => {
  const world = await createWorld();
  expect(await world.vidgen(word)).toEqual({ code: 0, stdout: `${packageJson.version}\n`, stderr: "" });
});

test("-q and -v, also as one word with other flags, are --quiet and --verbose", async () => {
  const world = await createWorld();
  expect((await world.vidgen("generate", "a fox", "--no-wait", "-q")).stderr).toBe("");
  expect((await world.vidgen("-v", "generate", "a fox", "--no-wait")).stderr).toContain("POST https://");
});

test.each([["-quiet forest"], ["-qvy at night"], ["-very dark"]])(
  "the value %j is not read as the flags -q and -v",
  async (text) => {
    const world = await createWorld();
    const typed = ["--prompt", "a fox", "--input-format", "jsonl", "--results", join(world.folder, "r.jsonl")];
    world.stdin = '{"id":"a"}\n';
    const run = await world.vidgen("batch", "-", ...typed, "--style", text, "--dry-run");
    expect(run).toMatchObject({ code: 0 });
    expect(readGlobalFlags(["batch", "-", "--style", text])).toMatchObject({ quiet: false, verbose: false });
    const started = await world.vidgen("generate", "a fox", "--set", `style=${text}`, "--no-wait");
    expect(started.stderr).toContain("Started ");
  },
);
