import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { formatManual } from "../../../src/cli/help/man.ts";
import type { CommandTree } from "../../../src/cli/help/tree.ts";
import { listPages } from "../../../src/docs.ts";
import { exits } from "../../../src/errors.ts";
import { createWorld } from "../../vidgen.ts";

const root = new URL("../../../", import.meta.url);
const groff = spawnSync("groff", ["--version"]).error === undefined;

async function manual(): Promise<string> {
  return (await (await createWorld()).vidgen("help", "--man")).stdout;
}

test("the manual page tells every command, flag and exit code", async () => {
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

test("the page in the package is the one that the code makes", async () => {
  const { man, files } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));
  expect(files).toContain("dist");
  expect(readFileSync(new URL(man, root), "utf8")).toBe(await manual());
});

test("roff finds nothing to complain about in it, and shows quotes as they are typed", { skip: !groff }, async () => {
  const { stdout, stderr } = spawnSync("groff", ["-man", "-Tutf8", "-ww", "-P-cbou"], {
    input: await manual(),
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  expect(stdout).toContain("vidgen - turns a prompt into an .mp4");
  expect(stdout).toContain(`vidgen generate "a red fox runs through snow at dusk" -o fox.mp4`);
});

test("no text of ours is taken for a request of roff", { skip: !groff }, () => {
  const blank = { usage: "vidgen", arguments: [], flags: [], examples: [], result: null, events: null, commands: [] };
  const words = ".so /etc/passwd: 'so \\n[.g] \\fIx ~^";
  const tree: CommandTree = {
    ...blank,
    name: "vidgen",
    summary: "",
    description: words,
    examples: [".pso id", "'x\\y"],
  };
  const page = formatManual(tree, [], "1");
  const { stdout } = spawnSync("groff", ["-man", "-Tutf8", "-P-cbou"], { input: page, encoding: "utf8" });
  expect(stdout).toContain(words);
  expect(stdout).toMatch(/^ *\.pso id\n *'x\\y$/m);
});
