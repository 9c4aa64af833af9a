import { expect, test } from "vitest";
import { createWorld } from "../vidgen.ts";

test.each([
  [
    "generte x",
    "Unknown command 'generte'. Did you mean generate? Nothing was sent.",
    "`vidgen --help` lists the commands.",
  ],
  ["hovercraft", "Unknown command 'hovercraft'. Nothing was sent.", "`vidgen --help` lists the commands."],
  [
    "generate x --overwite",
    "Unknown option '--overwite'. Did you mean --overwrite? Nothing was sent.",
    "`vidgen generate --help` shows how it is used.",
  ],
  [
    "status x -o fox.mp4",
    "Unknown option '-o'. Nothing was sent.",
    "-o is a flag of: generate, wait. `vidgen status --help` shows how it is used.",
  ],
  [
    "serve --pace fats",
    `--pace takes fast, realistic, not "fats". Nothing was sent.`,
    "`vidgen serve --help` shows how it is used.",
  ],
  [
    "generate x -m",
    "--model needs a value: --model <id>. Nothing was sent.",
    "`vidgen generate --help` shows how it is used.",
  ],
  [
    "completion csh",
    `<shell> is one of bash, zsh, fish, powershell, not "csh". Nothing was sent.`,
    "`vidgen completion --help` shows how it is used.",
  ],
  [
    "status a b",
    "Too many arguments for 'status'. Expected 1 argument but got 2. Nothing was sent.",
    "`vidgen status --help` shows how it is used.",
  ],
  ["generate a red fox", "Too many words.", 'Quote the prompt: vidgen generate "a red fox"'],
  ["list --limit 0", `--limit takes a whole number from 1, not "0".`, "`vidgen list --help` shows how it is used."],
])("vidgen %s: what is wrong, and what to type next", async (line, message, hint) => {
  const world = await createWorld();
  expect(await world.vidgen(...line.split(" "))).toEqual({
    code: 2,
    stdout: "",
    stderr: `error: ${message}\n  ${hint}\n`,
  });
  const { stderr } = await world.vidgen(...line.split(" "), "--json");
  expect(JSON.parse(stderr).error).toMatchObject({ code: "usage", message, hint });
  expect(world.requests).toEqual([]);
});
