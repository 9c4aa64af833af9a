import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import packageJson from "../package.json" with { type: "json" };
import { variables } from "../src/cli/help/topics.ts";
import { exits } from "../src/errors.ts";
import { createWorld } from "./vidgen.ts";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");

/** The cells of the table below a heading, without its head. */
function table(heading: string): string[][] {
  const [, section = ""] = readme.split(`## ${heading}\n`);
  const rows = (section.split("\n## ")[0] ?? "").split("\n").filter((line) => line.startsWith("|"));
  return rows.slice(2).map((row) =>
    row
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

test("the second line to type passes the tests, and is what CI runs", () => {
  const [run = "", gate = ""] = readme.match(/^ {4}.+/gm)?.map((line) => line.trim()) ?? [];
  expect(run).toMatch(/^npm ci .* -o fox\.mp4$/);
  expect(gate).toBe("npm ci && npm test");
  const root = new URL("../", import.meta.url);
  for (const file of [".ci/run", ".github/workflows/test.yml", ".github/workflows/release.yml"])
    expect(readFileSync(new URL(file, root), "utf8").trimEnd().split("\n").map(command)).toContain(gate);
});

/** A step of a workflow, or a line of a script. */
function command(line: string): string {
  return line.trim().replace(/^- run: /, "");
}

test("the table of exit codes is the code's own", () => {
  const own = Object.entries(exits).map(([name, { exit, meaning }]) => [String(exit), name, meaning]);
  expect(table("Exit codes")).toEqual(own);
});

test("the table of commands is what the help says", async () => {
  const world = await createWorld();
  const { stdout } = await world.vidgen("--help");
  const rows = table("Commands").map(([usage = "", summary]) => [/^`(\w+)/.exec(usage)?.[1], summary]);
  const help = [...stdout.matchAll(/^ {2}(\w+)(?: [[<][^\]>]*[\]>])* {2,}(\S.*)$/gm)].map(([, name, summary]) => [
    name,
    summary,
  ]);
  expect(rows).toEqual(help);
});

test("what each command prints on stdout is what the help topic says", async () => {
  const world = await createWorld();
  const { stdout } = JSON.parse((await world.vidgen("help", "output", "--json")).stdout);
  const rows = table("Commands").map(([usage = "", , printed]) => [/^`(\w+)/.exec(usage)?.[1], printed]);
  expect(rows).toEqual(Object.entries(stdout));
});

test("the table of settings is the help topic's own", () => {
  const own = variables.filter(({ name }) => name.startsWith("VIDGEN_"));
  const cells = own.map(({ name, flag, meaning }) => [`\`${name}\``, flag === null ? "" : `\`${flag}\``, meaning]);
  expect(table("Settings")).toEqual(cells);
});

test("the command lines use flags that exist", async () => {
  const world = await createWorld();
  const help = await Promise.all(
    ["generate", "wait", "serve", "listen", "batch"].map((command) => world.vidgen(command, "--help")),
  );
  const known = help.map(({ stdout }) => stdout).join("");
  const lines = readme.split("\n").filter((line) => line.startsWith("    ") && line.includes("vidgen"));
  const flags = lines.flatMap((line) => line.match(/ (--?[a-z][a-z-]*)/g) ?? []);
  expect(flags.length).toBeGreaterThan(5);
  for (const flag of flags) expect(known).toContain(flag.trim());
});

test("the CI recipes run the vidgen of the lock file, and give the key to no other step", () => {
  const recipes = [...readme.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, recipe = ""]) => recipe);
  for (const recipe of recipes) {
    expect(recipe).toMatch(/^ {6}- run: npm ci --ignore-scripts$/m);
    expect(recipe).not.toContain("npx");
    const steps = recipe.split(/^ {6}- /m).filter((step) => step.includes("VIDGEN_API_KEY"));
    expect(steps).toEqual([expect.stringMatching(/^run: node_modules\/.bin\/vidgen (generate|batch) /)]);
  }
  expect(recipes).toHaveLength(2);
  expect(readme).toContain(`vidgen-${packageJson.version}.tgz`);
});
