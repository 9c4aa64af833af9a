import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { formatManual } from "../../../src/cli/help/man.ts";
import type { CommandTree } from "../../../src/cli/help/tree.ts";
import { hasGroff } from "../../needs.ts";
import { createWorld } from "../../vidgen.ts";

test("roff finds nothing to complain about in it, and shows quotes as they are typed", {
  skip: !hasGroff,
}, async () => {
  const { stdout, stderr } = spawnSync("groff", ["-man", "-Tutf8", "-ww", "-P-cbou"], {
    input: (await (await createWorld()).vidgen("help", "--man")).stdout,
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  expect(stdout).toContain("vidgen - turns a prompt into an .mp4");
  expect(stdout).toContain(`vidgen generate "a red fox runs through snow at dusk" -o fox.mp4`);
});

test("no text of ours is taken for a request of roff", { skip: !hasGroff }, () => {
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
