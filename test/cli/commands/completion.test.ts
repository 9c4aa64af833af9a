import { expect, test } from "vitest";
import { createWorld } from "../../vidgen.ts";

const shells = ["bash", "zsh", "fish", "powershell"];

test.each(shells)("the script for %s asks vidgen itself what fits", async (shell) => {
  const world = await createWorld();
  const { code, stdout, stderr } = await world.vidgen("completion", shell);
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(/vidgen __complete "--current=/);
  expect(stdout).not.toContain("undefined");
});

test.each(shells)(
  "the script for %s has no word in it that runs what was typed, nor a hidden command",
  async (shell) => {
    const world = await createWorld();
    const { stdout } = await world.vidgen("completion", shell);
    expect(stdout.split("\n").slice(1).join("\n")).not.toMatch(/\beval\b|compgen|Invoke-Expression|\biex\b|\$\{\(e\)/);
    expect(stdout.match(/__complete/g)).toEqual(["__complete"]);
  },
);

test("a flag takes a value in each command that has it, or in none: the scripts rely on it", async () => {
  const world = await createWorld();
  const { commands, flags } = JSON.parse((await world.vidgen("help", "--json")).stdout);
  const types = new Map<string, Set<string>>();
  for (const { long, type } of [...flags, ...commands.flatMap((command: { flags: object[] }) => command.flags)])
    types.set(long, (types.get(long) ?? new Set()).add(type));
  expect([...types].filter(([, each]) => each.size > 1)).toEqual([]);
});

test("another shell is a usage error that names those there are", async () => {
  const world = await createWorld();
  expect(await world.vidgen("completion", "tcsh")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/bash, zsh, fish or powershell/),
  });
});
