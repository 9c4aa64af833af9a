import { join } from "node:path";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { readGlobalFlags } from "../../src/cli/program.ts";
import { createWorld } from "../vidgen.ts";

test.each([
  ["generte x", "Unknown command 'generte'. Did you mean generate?", "See `vidgen --help` for the commands."],
  ["hovercraft", "Unknown command 'hovercraft'.", "See `vidgen --help` for the commands."],
  ["generate x --overwite", "Unknown option '--overwite'. Did you mean --overwrite?", "See `vidgen generate --help`."],
  ["status x -o fox.mp4", "Unknown option '-o'.", "See `vidgen status --help`."],
  ["serve --pace fats", `--pace must be fast or realistic, not "fats".`, "See `vidgen serve --help`."],
  ["generate x -m", "--model needs a value: --model <id>.", "See `vidgen generate --help`."],
  ["completion csh", `The shell must be bash, zsh, fish or powershell, not "csh".`, "See `vidgen completion --help`."],
  ["status a b", "status takes one argument.", "See `vidgen status --help`."],
  ["config foo", "Unknown command 'foo' of config.", "The commands of config are list, set and unset."],
  [
    "config unest",
    "Unknown command 'unest' of config. Did you mean unset?",
    "The commands of config are list, set and unset.",
  ],
  ["accounts show ci", "Unknown command 'show' of accounts.", "To see the accounts: vidgen accounts"],
  [
    "accounts frob ci",
    "Unknown command 'frob' of accounts.",
    "The commands of accounts are list, create, credits, limit, rotate, key, link, keys, revoke, disable, enable and delete.",
  ],
  ["config list foo", "config list takes no argument.", "See `vidgen config --help`."],
  ["delete", "delete needs <id>.", "See `vidgen delete --help`."],
  ["accounts key ada", "accounts key needs --name <name>.", "See `vidgen accounts --help`."],
  ["generate x --seconds=5 -o x.mp4", "Unknown option '--seconds'.", "Type: vidgen generate x --duration 5 -o x.mp4"],
  ["generate x --seconds 5 -o x.mp4", "Unknown option '--seconds'.", "Type: vidgen generate x --duration 5 -o x.mp4"],
  ["generate -p x", "Unknown option '-p'.", "Type: vidgen generate x"],
  [
    "generate x --size 720x1280",
    "Unknown option '--size'.",
    "Type: vidgen generate x --resolution 720p --aspect-ratio 9:16",
  ],
  ["generate x --audio", "Unknown option '--audio'.", "Type: vidgen generate x --set generate_audio=true"],
  [
    "generate x --negative-prompt y",
    "Unknown option '--negative-prompt'.",
    "Type: vidgen generate x --set negative_prompt=y",
  ],
  ["generate x --output-format mp4", "Unknown option '--output-format'.", "Type: vidgen generate x"],
  ["generate x -y", "Unknown option '-y'.", "Type: vidgen generate x"],
  ["serve -p 80", "Unknown option '-p'.", "Type: vidgen serve --port 80"],
  ["list -n 3", "Unknown option '-n'.", "Type: vidgen list --limit 3"],
  ["status x --fps 3", "Unknown option '--fps'.", "See `vidgen status --help`."],
  ["login video.example", "login takes no argument.", "Type: vidgen login --base-url video.example"],
  [
    "login openrouter",
    "login takes no argument.",
    "login is for a service of the vidgen API. For the key of a provider, see `vidgen help real-models`.",
  ],
  [
    "config set base-url x",
    'The setting must be base_url, model, output or engine, not "base-url".',
    "Did you mean base_url?",
  ],
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

test.each([
  [
    ["generate", "a", "red", "fox", "-d", "4", "--no-wait"],
    'vidgen generate "a red fox" --duration 4 --no-wait',
    "Y/n",
  ],
  [
    ["--quiet", "generate", "a fox", "a dog", "-d", "4", "--no-wait"],
    'vidgen generate "a fox a dog" --duration 4 --no-wait',
    "y/N",
  ],
])(
  "several prompts at a terminal: %j asks whether one was meant, and goes on after a yes",
  async (argv, line, keys) => {
    const world = await createWorld();
    const no = keys === "y/N" ? "\r" : "n\r";
    Object.assign(world, { isTerminal: true, columns: 200, answers: [[`Did you mean this? ${line} (${keys})`, no]] });
    expect(await world.vidgen(...argv)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Too many arguments"),
    });
    world.answers = [[`Did you mean this? ${line} (${keys})`, "\u0003"]];
    expect(await world.vidgen(...argv)).toMatchObject({ code: 130 });
    expect(world.requests).toEqual([]);
    world.answers = [[`Did you mean this? ${line} (${keys})`, "y\r"]];
    const run = await world.vidgen(...argv);
    expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[\w-]+\n$/) });
    expect(run.stderr.includes("Started")).toBe(!argv.includes("--quiet"));
    expect(world.requests.map(({ body }) => JSON.parse(body))).toEqual([
      { prompt: /"(.*)"/.exec(line)?.[1], model: "wan-2.5", duration: 4 },
    ]);
  },
);

test.each([
  ["generate", "x", "--api-key=sk-canary"],
  ["status", "x", "--key", "sk-canary"],
  ["login", "sk-canary-0123456789"],
  ["config", "set", "api_key", "sk-canary"],
])("vidgen %s %s: a key is not printed, and where it is now is said", async (...argv) => {
  const { code, stderr } = await (await createWorld()).vidgen(...argv);
  expect([code, stderr]).toEqual([2, expect.stringMatching(/\n {2}A key is never part of a command line, .*history/)]);
  expect(stderr).not.toContain("canary");
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

test.each([
  [["generate", "-quiet forest"], 'vidgen generate -- "-quiet forest"'],
  [["generate", "-ocean waves", "--local"], 'vidgen generate --local -- "-ocean waves"'],
  [["generate", "--a fox"], 'vidgen generate -- "--a fox"'],
  [["generate", "- a fox", "-o", "-my fox.mp4"], 'vidgen generate "--output=-my fox.mp4" -- "- a fox"'],
  [["generate", "-n 5 foxes"], 'vidgen generate -- "-n 5 foxes"'],
  [["generate", "-foxes"], "vidgen generate -- -foxes"],
  [["again", "last", "-verbose fox"], 'vidgen again last -- "-verbose fox"'],
  [["batch", "-my rows.txt"], 'vidgen batch -- "-my rows.txt"'],
  [["-quiet forest"], 'vidgen generate -- "-quiet forest"'],
])("%j says how an argument with a dash at its beginning is typed", async (words, line) => {
  const world = await createWorld();
  const run = await world.vidgen(...words);
  const quoted = line.replaceAll('"', "'");
  const hint = run.stderr.trim().split("\n").at(-1)?.trim();
  expect([run.code, hint]).toEqual([2, `An argument that begins with a dash goes after --: ${quoted}`]);
  expect(world.requests).toEqual([]);
});

test("a pipe that nobody closes is waited for with a line that says so", async () => {
  for (const words of [
    ["generate"],
    ["generate", "-"],
    ["batch", "-", "-y", "--results", "r.jsonl", "--input-format", "txt"],
    ["login", "--with-token"],
  ]) {
    const world = await createWorld();
    world.stdin = new PassThrough();
    const running = world.vidgen(...words);
    await expect.poll(() => world.printed.stderr).toMatch(/Waiting for the (prompt|rows|key) on stdin, until it is/);
    world.press("Ctrl-C");
    expect((await running).code).toBe(130);
  }
});

test.each([["-quiet forest"], ["-qvy at night"], ["-very dark"]])(
  "the value %j is not read as the flags -q and -v",
  async (text) => {
    const world = await createWorld();
    const typed = ["--prompt", "a fox", "--input-format", "jsonl", "--results", join(world.folder, "r.jsonl")];
    world.stdin = '{"id":"a"}\n';
    const run = await world.vidgen("batch", "-", ...typed, "--style", text, "-y");
    expect([run.code, world.requests.flatMap(({ body }) => (body ? JSON.parse(body).prompt : []))]).toEqual([
      0,
      [`a fox, ${text}`],
    ]);
    expect(readGlobalFlags(["batch", "-", "--style", text])).toMatchObject({ quiet: false, verbose: false });
    const started = await world.vidgen("generate", "a fox", "--set", `style=${text}`, "--no-wait");
    expect(started.stderr).toContain("Started ");
  },
);
