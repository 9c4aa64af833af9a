import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import packageJson from "../package.json" with { type: "json" };
import { readStartReply } from "../src/client/http/salvage.ts";
import { listPages, readBlocks, readPage, readTables } from "../src/docs.ts";
import { exits } from "../src/errors.ts";
import { fields } from "../src/protocol/fields.ts";
import { models } from "../src/protocol/models.ts";
import { readGeneration, states } from "../src/protocol/schema.ts";
import { createWorld } from "./vidgen.ts";

const root = new URL("../", import.meta.url);
const readme = readFileSync(new URL("README.md", root), "utf8");
const pages = listPages().map((name) => ({ file: `src/docs/${name}.md`, text: readPage(name).text }));
const texts = [{ file: "README.md", text: readme }, ...pages];

/** The tables of a page, each as the cells of its rows. */
function tables(page: string): string[][][] {
  return readTables(readPage(page).text).map((rows) => rows.map((row) => Object.values(row)));
}

async function help(...names: string[]) {
  return JSON.parse((await (await createWorld()).vidgen("help", ...names, "--json")).stdout);
}

test("the second line to type passes the tests, and is what CI runs", () => {
  const [run = "", gate = ""] = readme.match(/^ {4}.+/gm)?.map((line) => line.trim()) ?? [];
  expect(run).toMatch(/^npm ci .* -o fox\.mp4$/);
  expect(gate).toBe("npm ci && npm test");
  for (const file of [".ci/run", ".github/workflows/test.yml", ".github/workflows/release.yml"])
    expect(readFileSync(new URL(file, root), "utf8").trimEnd().split("\n").map(command)).toContain(gate);
});

/** A step of a workflow, or a line of a script. */
function command(line: string): string {
  return line.trim().replace(/^- run: /, "");
}

test("no line of README or of a page is longer than 120 characters", () => {
  const long = texts.flatMap(({ file, text }) => text.split("\n").map((line) => `${file}: ${line}`));
  expect(long.filter((line) => line.length > 120 + line.indexOf(" ") + 1)).toEqual([]);
});

test("each page begins with its title, and README links to it", () => {
  for (const { file, text } of pages) {
    expect(text).toMatch(/^# \S/);
    expect(readme).toContain(`](${file})`);
  }
});

test.each(texts)("the links of $file lead to files", ({ file, text }) => {
  const links = [...text.matchAll(/\]\(([^)]+)\)/g)].map(([, link = ""]) => link);
  expect(links.filter((link) => !existsSync(new URL(link, new URL(file, root))))).toEqual([]);
});

test("the page about the code names files that exist", () => {
  const page = readFileSync(new URL(".github/ARCHITECTURE.md", root), "utf8");
  const names = [...page.matchAll(/`([\w/.-]+\.ts)`/g)].map(([, name = ""]) => name);
  const files = readdirSync(new URL("src", root), { recursive: true, encoding: "utf8" });
  const isFile = (name: string) => files.some((file) => `src/${file.replaceAll("\\", "/")}`.endsWith(`/${name}`));
  expect(names.length).toBeGreaterThan(20);
  expect(names.filter((name) => !isFile(name.replace(/^src\//, "")))).toEqual([]);
});

test("the tables of exit codes are the code's own, also for agents", () => {
  const own = Object.entries(exits).map(([name, { exit, meaning }]) => [String(exit), name, meaning]);
  expect(tables("exit-codes")).toEqual([own]);
  const [codes = []] = tables("agents");
  expect(codes.map(([code, name]) => [code, name])).toEqual(own.map(([code, name]) => [code, name]));
});

test("the table of commands is what the help says", async () => {
  const { commands } = await help();
  const [rows = []] = readTables(readme).map((rows) => rows.map((row) => Object.values(row)));
  const own = commands.map(({ usage, summary }: Record<string, string>) => [usage, summary]);
  const short = own.map(([usage, summary]: string[]) => [
    usage?.replace(/^vidgen | \[options\]| \[command\]/g, ""),
    summary,
  ]);
  expect(rows).toEqual(short);
});

test("the page on output has each command", async () => {
  const { commands } = await help();
  const [stdout = []] = tables("output");
  expect(stdout.map(([name]) => name)).toEqual(commands.map(({ name }: { name: string }) => name));
});

test("the page on output has each event, and names each field that the schema has", async () => {
  const { text } = readPage("output");
  const [, , , rows = []] = tables("output");
  const schemas: { properties: { event: { const: string } } }[] = (await help("generate")).events.anyOf;
  const names = schemas.map(({ properties }) => properties.event.const);
  expect(rows.map(([name]) => name)).toEqual(names);
  const [, section = ""] = text.split("## events\n");
  // The row of `summary` refers to the text below it for what a batch has.
  const toldOf = ([name, fields = ""]: string[]) => (name === "summary" ? section : `event at row line ${fields}`);
  for (const [i, { properties }] of schemas.entries())
    expect(toldOf(rows[i] ?? []).match(/\w+/g)).toEqual(expect.arrayContaining(Object.keys(properties)));
  for (const field of ["event", "at", "row", "line"]) expect(section).toContain(`\`${field}\``);
  expect(readPage("agents").text).toContain(`JSON lines: ${names.join(", ")}.`);
});

test("the fields of an error are those that it has", async () => {
  const { error } = JSON.parse((await (await createWorld()).vidgen("models", "--nope", "--json")).stderr);
  const [, , rows = []] = tables("output");
  expect(rows.map(([name]) => name)).toEqual(Object.keys(error));
  const shape = `{"error":{${Object.keys(error).map((name) => `"${name}"`)}}}`;
  // A space lets roff break the line.
  for (const page of ["output", "agents"]) expect(readPage(page).text.replaceAll('", "', '","')).toContain(shape);
});

test("the command lines use commands and flags that exist", async () => {
  const { commands, flags } = await help();
  const shared = flags.flatMap(namesOf);
  const typed = texts.flatMap(({ text }) => commandLines(text));
  expect(typed.length).toBeGreaterThan(40);
  for (const line of typed) {
    const [name = "", ...words] = line.split(/ +/);
    const command = commands.find((command: { name: string }) => command.name === name);
    expect([line, command?.name]).toEqual([line, name]);
    const below = (command.commands ?? []).find((command: { name: string }) => command.name === words[0]);
    const known = [...shared, ...(below ?? command).flags.flatMap(namesOf)];
    const used = words.filter((word) => /^--?[a-z]/.test(word));
    expect([line, used.filter((flag) => !known.includes(flag))]).toEqual([line, []]);
  }
});

/** What is typed behind `vidgen` in the examples of a text, without comments and what is quoted. */
function commandLines(text: string): string[] {
  const joined = text.replace(/ \\\n +/g, " ");
  const examples = joined.match(/^(?: {4}| {6}- run: ).*/gm) ?? [];
  return examples.flatMap((line) => {
    const bare = line.replace(/ # .*/, "").replace(/"[^"]*"|'[^']*'/g, "QUOTED");
    return [...bare.matchAll(/(?:npx |bin\/|^ {4})vidgen ((?!-- )[^;|)]+)/g)].map(([, words = ""]) => words.trim());
  });
}

function namesOf({ short, long }: { short: string | null; long: string | null }): (string | null)[] {
  return [short, long];
}

const recipes = [...readPage("ci").text.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, recipe = ""]) => recipe);

/** The steps of a workflow, or of an action, that have the text. */
function stepsWith(text: string, workflow: string): string[] {
  return workflow.split(/^ +- (?=run|uses|id)/m).filter((step) => step.includes(text));
}

test("the CI recipes run the vidgen of a commit or of the lock file, and give the key to no other step", () => {
  const [action, batch, lockFile, ...others] = recipes;
  for (const recipe of [action, batch]) {
    const uses = /^uses: you\/vidgen\/\.github@[0-9a-f]{40}\n {8}with:\n(?: {10}\w.*\n){3,4}$/;
    expect(stepsWith("VIDGEN_API_KEY", recipe ?? "")).toEqual([expect.stringMatching(uses)]);
  }
  expect(lockFile).toMatch(/^ {6}- run: npm ci --ignore-scripts$/m);
  expect(stepsWith("VIDGEN_API_KEY", lockFile ?? "")).toEqual([
    expect.stringMatching(/^run: node_modules\/.bin\/vidgen generate /),
  ]);
  expect(others).toEqual([]);
  expect(recipes.join()).not.toContain("npx");
  expect(readPage("ci").text).toContain(`vidgen-${packageJson.version}.tgz`);
});

test("the container is started with flags that serve has", async () => {
  const serve = (await help()).commands.find(({ name }: { name: string }) => name === "serve");
  const read = (file: string) => readFileSync(new URL(`.github/${file}`, root), "utf8");
  const lines = `${read("Containerfile")}${read("compose.yaml")}`.match(/^(ENTRYPOINT|CMD| +command:).*/gm) ?? [];
  expect(lines).toHaveLength(4);
  const used = lines.join().match(/--[a-z-]+/g) ?? [];
  expect(serve.flags.flatMap(namesOf)).toEqual(expect.arrayContaining(used));
});

describe("the page on the API", () => {
  const { text } = readPage("api");
  const [generation = [], known = [], , stated = [], sent = []] = readTables(text);
  const examples = readBlocks(text)
    .filter(({ kind }) => kind === "code")
    .map(({ lines }) => lines.join("\n"));
  const replies = examples.filter((example) => example.startsWith("{\n"));

  test("has the models, the states and the fields of the code", () => {
    expect(known).toEqual(models.map(({ id, characteristic }) => ({ model: id, "known for": characteristic })));
    expect(stated.map(({ status }) => status)).toEqual(states);
    expect(sent.map(({ field }) => field).filter((field) => field !== "imageUrls")).toEqual(
      fields.map(({ name }) => name),
    );
  });

  test("has examples that vidgen reads, with the fields of its table alone", () => {
    const [started = "", ...statuses] = replies;
    const data = JSON.parse(started).data;
    expect(readStartReply(started)).toEqual({
      started: { generation: data, remaining_credits: 990 },
      saysNo: false,
    });
    const found = statuses.map((reply) => readGeneration(JSON.parse(reply), data.id));
    expect(found.map((each) => each?.status)).toEqual(["processing", "completed", "failed", "completed"]);
    const names = [data, ...found].flatMap((each) => Object.keys(each ?? {}));
    expect([...new Set(names)].sort()).toEqual(generation.map(({ field }) => field).sort());
  });

  test("has each section that a comment names", () => {
    const sections = [...text.matchAll(/^## (\d[\d.]*) /gm)].map(([, number]) => number);
    const files = readdirSync(new URL("src", root), { recursive: true, encoding: "utf8" });
    const named = files
      .filter((file) => /\.tsx?$/.test(file))
      .flatMap((file) => [
        ...readFileSync(new URL(`src/${file}`, root), "utf8").matchAll(
          /\bsections? (\d[\d.]*\d|\d)(?: and (\d[\d.]*\d|\d))? of api\.md/gi,
        ),
      ])
      .flatMap(([, ...numbers]) => numbers.filter((number) => number !== undefined));
    expect(new Set(named).size).toBeGreaterThan(5);
    expect([...new Set(named)].filter((number) => !sections.includes(number))).toEqual([]);
  });
});
