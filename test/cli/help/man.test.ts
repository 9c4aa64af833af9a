import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { listPages } from "../../../src/docs.ts";
import { exits } from "../../../src/errors.ts";
import { createWorld } from "../../vidgen.ts";

const root = new URL("../../../", import.meta.url);

async function manual(): Promise<string> {
  return (await (await createWorld()).vidgen("help", "--man")).stdout;
}

test("the manual page has every command, flag and exit code", async () => {
  const page = (await manual()).replaceAll("\\-", "-");
  const world = await createWorld();
  const { commands, flags } = JSON.parse((await world.vidgen("help", "--json")).stdout);
  for (const command of commands) expect(page).toContain(`.SS "${command.usage}"`);
  for (const { usage } of [...flags, ...commands.flatMap((command: { flags: object[] }) => command.flags)])
    expect(page).toContain(`.TP\n\\fB${usage}\\fR\n`);
  for (const [name, { exit }] of Object.entries(exits)) expect(page).toContain(`\n\\fB${exit} ${name}\\fR\n`);
  for (const name of listPages()) expect(page).toContain(`.SH "${name.replace("-", " ").toUpperCase()}"\n`);
  expect(page).not.toMatch(/`|\]\(|^\|/m);
});

test("an item of a list stands by itself, and **words** are bold", async () => {
  const page = await manual();
  expect(page).toMatch(/\n\.IP \\\(bu 2\nCut instead of continuing: .*\n\.IP \\\(bu 2\nLet several/);
  expect(page).toContain("\\fBIt repeats no POST.\\fR HAProxy");
});

test("the page in the package is the one that the code makes", async () => {
  const { man, files } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));
  expect(files).toContain("dist");
  expect(readFileSync(new URL(man, root), "utf8")).toBe(await manual());
});
