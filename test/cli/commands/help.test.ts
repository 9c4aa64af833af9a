import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { Command } from "@commander-js/extra-typings";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { collectValues } from "../../../src/cli/command.ts";
import { describeCommand } from "../../../src/cli/help/tree.ts";
import { main } from "../../../src/cli/main.ts";
import { listPages, readPage as readSource } from "../../../src/docs.ts";
import { exits } from "../../../src/errors.ts";
import { aspectRatios, models } from "../../../src/protocol/models.ts";
import { apiKey, createWorld, type World } from "../../vidgen.ts";

test.each(["generate", "serve", "help"])("help %s is what %s --help prints, also with --json", async (command) => {
  const world = await createWorld();
  expect(await world.vidgen("help", command)).toEqual(await world.vidgen(command, "--help"));
  const json = await world.vidgen(command, "--help", "--json");
  expect([json.code, JSON.parse(json.stdout).name]).toEqual([0, command]);
  expect(await world.vidgen("help", command, "--json")).toEqual(json);
});

test.each(["generate", "again"])(
  "%s --help has the fifteen flags that most people need, with --all every one",
  async (name) => {
    const world = await createWorld();
    const flags = async (...argv: string[]) => {
      const { stdout } = await world.vidgen(...argv);
      return { names: [...stdout.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag = ""]) => flag), stdout };
    };
    const short = await flags(name, "--help");
    expect(short.names).toHaveLength(15);
    expect(short.names).toEqual(expect.arrayContaining(["--output", "--image", "--local", "--again", "--max-cost"]));
    const everyFlag: string[] = JSON.parse((await world.vidgen("help", name, "--json")).stdout).flags.map(
      ({ long }: { long: string }) => long,
    );
    const all = await flags(name, "--help", "--all");
    expect(all.names).toEqual(expect.arrayContaining([...everyFlag, "--json", "--quiet"]));
    expect(short.stdout).toContain(`\`vidgen ${name} --help --all\` shows all ${all.names.length} flags.`);
    expect(await flags("help", name, "--all")).toEqual(all);
    // An example shows no flag that the list below it does not explain.
    const examples = short.stdout.split("\n").filter((line) => line.startsWith("  $ vidgen"));
    const shown = examples.flatMap((line) => line.match(/ (--[\w-]+)/g) ?? []).map((flag) => flag.trim());
    expect(shown.filter((flag) => !short.names.includes(flag))).toEqual([]);
  },
);

test("help alone is what --help prints", async () => {
  const world = await createWorld();
  expect(await world.vidgen("help")).toEqual(await world.vidgen("--help"));
});

/** A page as an installed program prints it, without npx. */
function readPage(name: string) {
  const page = readSource(name);
  return { ...page, text: page.text.replaceAll("npx vidgen", "vidgen") };
}

test.each(listPages())(
  "help %s prints the page with the program's own name, and with a summary for TAB",
  async (name) => {
    const world = await createWorld();
    const { text, title } = readPage(name);
    expect(await world.vidgen("help", name)).toEqual({ code: 0, stdout: `${text}\n`, stderr: "" });
    expect(text.startsWith(`# ${title}\n`)).toBe(true);
  },
);

describe("a page at a terminal", () => {
  const drawn = (text: string) => stripVTControlCharacters(text);
  /** A terminal, and what its pager was given. */
  async function createReader({ isInstalled = true } = {}) {
    const world = await createWorld();
    world.isTerminal = true;
    const shown: [pager: string, text: string][] = [];
    world.io.page = async (text, pager) => {
      if (isInstalled) shown.push([pager, drawn(text)]);
      return isInstalled;
    };
    return { world, shown };
  }

  test("is drawn, and shown in less or in the reader's own pager", async () => {
    const { world, shown } = await createReader();
    expect(await world.vidgen("help", "exit-codes")).toEqual({ code: 0, stdout: "", stderr: "" });
    world.env.PAGER = "most -w";
    await world.vidgen("help", "exit-codes");
    expect(shown.map(([pager]) => pager)).toEqual(["less", "most -w"]);
    for (const [, text] of shown) {
      expect(text).toMatch(/^Exit codes and their meaning\n {2}Every command/);
      expect(text).toMatch(/^ {2}code {2}name +meaning$/m);
      expect(text).toMatch(/^ {2}5 {5}pending +timed out/m);
      expect(text).not.toMatch(/\||^#/m);
    }
  });

  test.each<[string, Record<string, string>, string[]]>([
    ["PAGER is empty", { PAGER: "" }, []],
    ["PAGER is cat", { PAGER: "cat" }, []],
    ["in CI", { CI: "true" }, []],
    ["with --no-input", {}, ["--no-input"]],
  ])("is printed as it is drawn, if %s", async (_, env, flags) => {
    const { world, shown } = await createReader();
    Object.assign(world.env, env);
    const { code, stdout } = await world.vidgen("help", "exit-codes", ...flags);
    expect([code, shown]).toEqual([0, []]);
    expect(drawn(stdout)).toMatch(/^ {2}5 {5}pending +timed out/m);
  });

  test("is printed if the pager is not installed, and without colours if they are not wanted", async () => {
    const { world } = await createReader({ isInstalled: false });
    expect((await world.vidgen("help", "exit-codes")).stdout).toContain("\u001b[1m");
    world.env.NO_COLOR = "1";
    const { stdout } = await world.vidgen("help", "exit-codes");
    expect(stdout).toBe(drawn(stdout));
    expect(stdout).toMatch(/^ {2}5 {5}pending +timed out, or `status --exit-status`/m);
  });

  test.each([
    [["generate", "--help"], /^Examples:\n {2}\$ vidgen generate/],
    [["help", "batch", "status"], /^Examples:\n {2}\$ vidgen batch status/],
    [["--help"], /^Examples:/],
  ])("%j is paged as a page is", async (argv, text) => {
    const { world, shown } = await createReader();
    expect(await world.vidgen(...argv)).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(shown).toEqual([["less", expect.stringMatching(text)]]);
    expect((await world.vidgen(...argv, "--no-input")).stdout).toMatch(text);
    expect((await world.vidgen(...argv, "--json")).stdout).toMatch(/^\{/);
    expect(shown).toHaveLength(1);
  });

  test("is not what vidgen alone or --version prints, which need no pager", async () => {
    const { world, shown } = await createReader();
    for (const argv of [[], ["--version"], ["generate", "--version"]])
      expect((await world.vidgen(...argv)).stdout).not.toBe("");
    expect(shown).toEqual([]);
  });

  test("for agents is printed at once: one with a terminal would wait for a key", async () => {
    const { world, shown } = await createReader();
    expect(drawn((await world.vidgen("help", "agents")).stdout)).toMatch(/^vidgen for AI agents$/m);
    expect(shown).toEqual([]);
  });

  test("is data with --json", async () => {
    const { world, shown } = await createReader();
    expect(JSON.parse((await world.vidgen("help", "library", "--json")).stdout)).toHaveProperty("page");
    expect(shown).toEqual([]);
  });
});

test("with --json a topic that is data is given as data, and any other as its page", async () => {
  const world = await createWorld();
  const json = async (topic: string) => JSON.parse((await world.vidgen("help", topic, "--json")).stdout);
  expect(await json("exit-codes")).toEqual(
    Object.entries(exits).map(([name, { exit, meaning }]) => ({ code: exit, name, meaning })),
  );
  expect((await json("environment")).slice(0, 2)).toEqual([
    { name: "VIDGEN_API_KEY", flag: null, meaning: expect.stringContaining("the API key") },
    { name: "VIDGEN_BASE_URL", flag: "--base-url", meaning: expect.stringContaining("https") },
  ]);
  expect(await json("output")).toMatchObject({
    stdout: { wait: "the URL; with `-o`, and after `generate --local`, the file" },
    places: { "-": "the video itself on stdout" },
    error: { message: "what happened, and whether it may have been charged" },
    events: { saved: "id, file: saved by this run" },
  });
  expect(await json("directives")).toContainEqual({ text: "[fail]", effect: "the generation fails" });
  expect(await json("agents")).toEqual({
    page: readPage("agents").text,
    actions: expect.objectContaining({ hung_up: "interrupted: the same line again, with --reuse and without --again" }),
  });
  expect(await json("library")).toEqual({ page: readPage("library").text });
});

test("help batch is the page, and with --json the command with its page", async () => {
  const world = await createWorld();
  const { text } = readPage("batch");
  expect((await world.vidgen("help", "batch")).stdout).toBe(`${text}\n`);
  const command = JSON.parse((await world.vidgen("batch", "--help", "--json")).stdout);
  expect(JSON.parse((await world.vidgen("help", "batch", "--json")).stdout)).toEqual({ ...command, page: text });
});

test("serve --help says where the words are that simulate failures", async () => {
  const world = await createWorld();
  expect((await world.vidgen("serve", "--help")).stdout).toContain("vidgen help directives");
});

test.each([
  ["engine", "real-models"],
  ["presets", "project"],
])("help %s prints the page %s", async (word, name) => {
  expect((await (await createWorld()).vidgen("help", word)).stdout).toBe(`${readPage(name).text}\n`);
});

test.each([
  [["key"], "login"],
  [["login", "key"], "login"],
  [["images"], "generate"],
])("help %s prints the help of %s", async (words, command) => {
  const world = await createWorld();
  expect(await world.vidgen("help", ...words)).toEqual(await world.vidgen(command, "--help"));
});

test("a word without a page gives the topics that mention it", async () => {
  const { code, stderr } = await (await createWorld()).vidgen("help", "FFmpeg");
  expect([code, stderr]).toEqual([
    2,
    'error: No help for "FFmpeg".\n  These topics mention it: batch, environment, film, library.\n',
  ]);
});

test("a misspelt name gets a suggestion, and the names there are", async () => {
  const world = await createWorld();
  expect(await world.vidgen("help", "exit-code")).toEqual({
    code: 2,
    stdout: "",
    stderr: expect.stringMatching(
      /^error: No help for "exit-code"\. Did you mean exit-codes\?\n {2}Commands and topics: generate, .*directives, .*windows\.\n$/,
    ),
  });
  expect((await world.vidgen("help", "genrate")).stderr).toContain("Did you mean generate?");
  expect((await world.vidgen("help", "hovercraft")).stderr).not.toContain("Did you mean");
});

test("help --json is the whole of it", async () => {
  const world = await createWorld();
  const tree = JSON.parse((await world.vidgen("help", "--json")).stdout);
  expect(tree.name).toBe("vidgen");
  expect(tree.version).toBe((await world.vidgen("--version")).stdout.trim());
  expect(tree.exit_codes).toContainEqual({ code: 6, name: "unknown", meaning: exits.unknown.meaning });
  for (const topic of ["environment", "output", "directives", "agents"])
    expect(tree[topic]).toEqual(JSON.parse((await world.vidgen("help", topic, "--json")).stdout));
  expect(tree.flags).toContainEqual(expect.objectContaining({ long: "--json", type: "boolean", default: false }));
  const { stdout } = await world.vidgen("--help");
  const [, listed = ""] = stdout.split("Make videos:\n");
  const [commands = ""] = listed.split("Topics,");
  const names: string[] = tree.commands.map(({ name }: { name: string }) => name);
  expect(
    commands
      .match(/^ {2}\w+/gm)
      ?.map((name) => name.trim())
      .sort(),
  ).toEqual(names.sort());
});

test("help --json describes the value of each flag", async () => {
  const world = await createWorld();
  const {
    arguments: parameters,
    flags,
    examples,
  } = JSON.parse((await world.vidgen("help", "generate", "--json")).stdout);
  expect(parameters).toEqual([expect.objectContaining({ name: "prompt", required: false, variadic: false })]);
  expect(examples[0]).toMatch(/^vidgen generate /);
  const flag = (long: string) => flags.find((flag: { long: string }) => flag.long === long);
  expect(flag("--model")).toEqual({
    usage: "-m, --model <id>",
    short: "-m",
    long: "--model",
    description: "the model, or several with commas between them (default: VIDGEN_MODEL, else wan-2.5)",
    type: "string",
    repeatable: false,
    default: null,
    choices: null,
    known: models.map(({ id }) => id),
  });
  expect(flag("--aspect-ratio").known).toEqual(aspectRatios);
  expect(flag("--timeout").default).toBe("15m");
  expect(flag("--no-wait")).toMatchObject({ type: "boolean", default: false });
  expect(
    flags.filter((flag: { repeatable: boolean }) => flag.repeatable).map(({ long }: { long: string }) => long),
  ).toEqual(["--image", "--reference", "--set", "--engine"]);
  const serve = JSON.parse((await world.vidgen("help", "serve", "--json")).stdout);
  expect(serve.flags).toContainEqual(
    expect.objectContaining({ long: "--pace", choices: ["fast", "realistic"], default: "fast", repeatable: false }),
  );
});

test("a flag is repeatable when its values are collected, not when they are parsed", () => {
  const command = new Command("x").option("--size <n>", "", Number).option("--image <url>", "", collectValues);
  const flags = describeCommand(command).flags.map(({ long, repeatable }) => [long, repeatable]);
  expect(flags).toEqual([
    ["--size", false],
    ["--image", true],
    ["--help", false],
  ]);
});

test("help --json has the schema of each result, and the results keep to it", async () => {
  const world = await createWorld();
  const { commands } = JSON.parse((await world.vidgen("help", "--json")).stdout);
  const schemaOf = (name: string) => commands.find((command: { name: string }) => command.name === name).result;
  const json = async (...argv: string[]) => JSON.parse((await world.vidgen(...argv, "--json")).stdout);
  const file = join(world.folder, "fox.mp4");
  const { id } = await json("generate", "a fox", "--no-wait");
  const documents: [string, unknown][] = [
    ["generate", await json("generate", "a fox", "-o", file)],
    ["generate", await json("generate", "a fox", "-n", "2")],
    ["again", await json("again", id)],
    ["status", await json("status", id)],
    ["wait", await json("wait", id)],
    ["wait", await json("wait", id, (await world.vidgen("generate", "[fail]", "--no-wait")).stdout.trim())],
    ["list", await json("list")],
    ["models", await json("models")],
    ["login", JSON.parse((await feed(world, apiKey, "login", "--with-token", "--json")).stdout)],
    ["logout", await json("logout")],
    ["doctor", await json("doctor")],
    ["completion", await json("completion", "bash")],
  ];
  for (const [name, document] of documents) {
    const schema = z.fromJSONSchema(schemaOf(name));
    expect([name, schema.safeParse(document).error]).toEqual([name, undefined]);
    expect([{}, [{}]].map((wrong) => schema.safeParse(wrong).success)).toEqual([false, false]);
  }
  const untold = commands.filter(({ result }: { result: unknown }) => result === null);
  expect(untold.map(({ name }: { name: string }) => name)).toEqual(["mcp", "help"]);
});

function feed(world: World, stdin: string, ...argv: string[]) {
  world.stdin = stdin;
  return world.vidgen(...argv);
}

test("--help names the topics that there is help on, by who reads them", async () => {
  const world = await createWorld();
  const { stdout } = await world.vidgen("--help");
  const [, rows = ""] = /^Topics, for vidgen help <topic>:\n([\s\S]*)$/m.exec(stdout) ?? [];
  const names = rows.replace(/^ +For [a-z ]+? {2,}/gm, ",").split(",");
  expect(
    names
      .map((name) => name.trim())
      .filter(Boolean)
      .sort(),
  ).toEqual(listPages());
  expect(rows.match(/^ {2}For [a-z ]+?(?= {2})/gm)).toEqual([
    "  For people",
    "  For programs",
    "  For your own service",
  ]);
});

test("--help has the commands and the flags in groups, and each is in one of them", async () => {
  const world = await createWorld();
  const headings = async (...argv: string[]) => (await world.vidgen(...argv)).stdout.match(/^[A-Z][a-z ]+:$/gm);
  const every = "Flags of every command:";
  const making = ["Make videos:", "Get information:", "Set up:", "Run a service:"];
  expect(await headings("--help")).toEqual(["Examples:", ...making, every]);
  const starting = ["Request:", "Output:", "Money:", "Waiting:", "Service:"];
  for (const command of ["generate", "again"]) {
    expect(await headings(command, "--help")).toEqual(["Examples:", "Arguments:", ...starting]);
    expect(await headings(command, "--help", "--all")).toEqual(["Examples:", "Arguments:", ...starting, every]);
  }
  expect(await headings("batch", "--help")).toEqual([
    ...["Examples:", "Arguments:", "Rows:", "Request of each row:", "Output:", "Money:", "Running:", "Service:"],
    ...[every, "Commands:"],
  ]);
  expect(await headings("serve", "--help")).toEqual([
    ...["Examples:", "Engines:", "Addresses:", "Storage:", "Keys and credits:", "Page and log:", every],
  ]);
});

test("vidgen alone fits a screen of 24 lines: a first line to type, the commands most people need, and where the rest is", async () => {
  const world = await createWorld();
  world.isTerminal = true;
  const { code, stdout, stderr } = await world.vidgen();
  expect([code, stderr]).toEqual([0, ""]);
  const lines = stdout.trimEnd().split("\n");
  expect(lines.length).toBeLessThan(24);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  const first = lines.findIndex((line) => line.startsWith("  $ vidgen generate "));
  expect(first).toBeLessThan(3);
  for (const name of ["generate", "again", "batch", "list", "wait", "status", "models", "login"])
    expect(stdout).toMatch(new RegExp(`^ {2}${name}\\b.* {2}\\S`, "m"));
  const tree = JSON.parse((await world.vidgen("help", "--json")).stdout);
  for (const { name } of tree.commands) expect(stdout).toMatch(new RegExp(`\\b${name}\\b`));
});

test("help that is piped from a narrow terminal is wrapped to it", async () => {
  const world = await createWorld();
  const { io } = world;
  Object.assign(io.stderr, { columns: 50 });
  const out: string[] = [];
  io.stdout.on("data", (chunk) => out.push(String(chunk)));
  await main(["generate", "--help"], io);
  const lines = out
    .join("")
    .split("\n")
    .filter((line) => !line.startsWith("  $ "));
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(50);
});

test("help takes several words, and the names of commands in groups", async () => {
  const world = await createWorld();
  expect(await world.vidgen("help", "exit", "codes")).toEqual(await world.vidgen("help", "exit-codes"));
  expect(await world.vidgen("help", "config", "set")).toEqual(await world.vidgen("config", "set", "--help"));
  expect(await world.vidgen("help", "price")).toEqual(await world.vidgen("help", "cost"));
  const topics = await world.vidgen("help", "topics");
  expect(topics.stdout.match(/^ {2}[\w-]+(?= )/gm)).toHaveLength(listPages().length);
  for (const name of listPages()) expect(topics.stdout).toContain(`  ${readPage(name).title}\n`);
});

test("help of a word that is no command says what there is", async () => {
  const world = await createWorld();
  expect(await world.vidgen("help", "show")).toEqual({
    code: 2,
    stdout: "",
    stderr: 'error: No help for "show".\n  To see one generation: vidgen status\n',
  });
});
