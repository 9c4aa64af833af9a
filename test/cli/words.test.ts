import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { flagHints, hintFor, hints } from "../../src/cli/words.ts";
import { createWorld, isStart, type World } from "../vidgen.ts";

/** A machine with a generation that runs, a saved one, and a file of rows. */
async function createHouse() {
  const world = await createWorld();
  const [saved, rows] = [join(world.folder, "fox.mp4"), join(world.folder, "shots.csv")];
  const { code } = await world.vidgen("generate", "a fox", "-o", saved);
  const running = (await world.vidgen("generate", "an owl", "--no-wait")).stdout.trim();
  writeFileSync(rows, "prompt\na fox\nan owl\n");
  // ffmpeg answers that it is there.
  const run: World["io"]["run"] = async (_, __, { onStdout }) => {
    onStdout?.("libx264\n");
    return { code: 0, stdout: "", stderr: "ffmpeg version 7\n" };
  };
  Object.assign(world.io, { run });
  expect(code).toBe(0);
  world.requests.length = 0;
  return { world, running, saved, rows };
}

/** The command that the hint of a failed command line ends with. */
function hintedLine({ stderr }: { stderr: string }): string {
  return /: vidgen (.*)\n$/.exec(stderr)?.[1] ?? "";
}

const placeOf = ({ running, saved, rows }: Awaited<ReturnType<typeof createHouse>>, line: string) => {
  if (line.includes("<rows>")) return rows;
  return line.startsWith("vidgen cancel") ? running : saved;
};

test.each(hints)("$typed: what the hint says works, is free, and nothing was sent before", async ({ typed, line }) => {
  const house = await createHouse();
  const { world } = house;
  const rest = /<id>|\[id\]|<rows>/.test(line) ? [placeOf(house, line)] : [];
  const hinted = new Set<string>();
  for (const words of typed) {
    const unknown = await world.vidgen(...words.split(" "), ...rest);
    expect([unknown.code, unknown.stdout, world.requests]).toEqual([2, "", []]);
    expect(unknown.stderr).toMatch(/^error: Unknown command '[\w-]+'/);
    expect(unknown.stderr).not.toMatch(/Did you mean|vidgen (generate|again) (?!--help)["'\w]/);
    hinted.add(hintedLine(unknown));
  }
  expect([...hinted]).toEqual([expect.not.stringContaining("<")]);
  const isAsked = line.startsWith("vidgen delete");
  const words = [...hinted].join("").split(" ");
  const argv = [...words.map((word) => word.replace(/^'(.*)'$/, "$1")), ...(isAsked ? ["--yes"] : [])];
  const run = await world.vidgen(...argv.map((word) => (word === "." ? world.folder : word)));
  expect([argv, run.code, run.stderr]).toEqual([argv, 0, expect.anything()]);
  expect(world.requests.filter(isStart)).toEqual([]);
});

test("no word has two hints, and none is a command", async () => {
  const words = hints.flatMap(({ typed }) => typed);
  expect(new Set(words).size).toBe(words.length);
  const { commands } = JSON.parse((await (await createWorld()).vidgen("help", "--json")).stdout);
  const names: string[] = commands.flatMap(
    ({ name, commands = [] }: { name: string; commands?: { name: string }[] }) => [
      name,
      ...commands.map((each) => `${name} ${each.name}`),
    ],
  );
  expect(words.filter((word) => names.includes(word))).toEqual([]);
});

test("no flag that has a hint is a flag of its command", async () => {
  const { commands } = JSON.parse((await (await createWorld()).vidgen("help", "--json")).stdout);
  type Listed = { name: string; flags: { short: string | null; long: string | null }[] };
  const known = (commands as Listed[]).flatMap(({ name, flags }) =>
    flags.flatMap(({ short, long }) => [`${name} ${short}`, `${name} ${long}`]),
  );
  const hinted = flagHints.flatMap(({ typed, of = ["generate", "again"] }) =>
    typed.flatMap((flag) => (of === "all" ? ["generate", "login", "serve"] : of).map((name) => `${name} ${flag}`)),
  );
  expect(known).toContain("serve --port");
  expect(hinted.filter((each) => known.includes(each))).toEqual([]);
});

test("the words typed after a misspelled command are in the suggested command line", () => {
  expect(hintFor("show", ["8077"])).toMatch(/: vidgen status 8077$/);
  expect(hintFor("show")).toMatch(/: vidgen status$/);
  expect(hintFor("open", ["my fox.mp4"])).toMatch(/: vidgen list --open 'my fox.mp4'$/);
  expect(hintFor("rm", ["a.mp4", "b.mp4"])).toMatch(/: vidgen delete <id>$/);
  expect(hintFor("film", ["shots.csv"])).toMatch(/: vidgen batch shots.csv -o clips\/ --join film.mp4 --dry-run$/);
  expect(hintFor("join", ["a.mp4"])).toMatch(/: vidgen batch <rows> -o clips\/ --join/);
  expect(hintFor("ls", ["red", "fox"])).toMatch(/: vidgen list red fox$/);
  expect(hintFor("ls")).toMatch(/: vidgen list$/);
  expect(hintFor("hovercraft")).toBeUndefined();
});

const paid = /vidgen (generate|again|batch)\b(?!.*(--help|--dry-run))/;

test.each([
  ["rm", "cc.mp4"],
  ["show", "8077"],
  ["open"],
  ["play", "fox.mp4"],
  ["film", "shots.csv"],
  ["upscale", "a.mp4"],
  ["extend"],
  ["share"],
  ["image", "a fox"],
  ["delete df27"],
  ["hovercraft", "a fox"],
  ["frobnicate", "the", "7f3c1a2b"],
  ["foo", "bar", "clip.mov"],
  ["foo", "bar", "list"],
  ["foo", "and", "last"],
  ["red", "fox"],
])("vidgen %s %s %s is not turned into something to pay for", async (...words) => {
  const world = await createWorld();
  const { code, stderr } = await world.vidgen(...words);
  expect(code).toBe(2);
  expect(stderr).not.toMatch(paid);
});

test("a file that exists is no word of a prompt", async () => {
  const world = await createWorld();
  const words = ["put", "a", join(world.folder, "note")];
  writeFileSync(join(world.folder, "note"), "");
  expect((await world.vidgen(...words)).stderr).not.toMatch(paid);
});

test.each([
  [["a red fox"], '"a red fox"'],
  [["a", "red", "fox"], '"a red fox"'],
  [["\u201ca", "red", "fox\u201d"], '"a red fox"'],
])("%j is a prompt", async (words, prompt) => {
  const world = await createWorld();
  expect((await world.vidgen(...words)).stderr).toContain(
    `To generate a video from this prompt: vidgen generate ${prompt}\n`,
  );
});

/** A world in which the same words are typed again as the hint has them. */
async function follow(world: World, ...words: string[]) {
  const run = await world.vidgen(...words);
  expect(run).toMatchObject({ code: 2, stdout: "" });
  expect(world.requests).toEqual([]);
  const [, line = ""] = / vidgen (.*)\n$/.exec(run.stderr) ?? [];
  const typed = [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? "");
  return { ...run, typed };
}

test.each<[string[], RegExp, string[]]>([
  [
    ["-m", "sora-2", "generate", "x"],
    /Unknown option '-m'\.\n {2}Flags come after `generate`: /,
    ["generate", "x", "-m", "sora-2"],
  ],
  [
    ["--no-wait", "a fox"],
    /Unknown option '--no-wait'\.\n {2}Flags come after `generate`: /,
    ["generate", "a fox", "--no-wait"],
  ],
  [
    ["--model=sora-2", "-q", "generate", "a fox", "--no-wait"],
    /Flags come after `generate`: /,
    ["generate", "a fox", "--no-wait", "--model=sora-2", "-q"],
  ],
  [
    ["generate", "a fox", "--timeout", "5", "minutes"],
    /Too many arguments: minutes follows --timeout 5\.\n {2}Quote a value that has a space in it: /,
    ["generate", "a fox", "--timeout", "5 minutes"],
  ],
  [
    ["generate", "a", "red", "fox", "--timeout", "5", "minutes", "--dry-run"],
    /Too many arguments: minutes follows --timeout 5\.\n/,
    ["generate", "a red fox", "--timeout", "5 minutes", "--dry-run"],
  ],
  [
    ["generate", "\u201ca", "red", "fox\u201d", "--no-wait"],
    /Too many arguments\.\n {2}Quote the prompt: /,
    ["generate", "a red fox", "--no-wait"],
  ],
])("%j is explained, and the line of the hint works", async (words, says, typed) => {
  const world = await createWorld();
  const hinted = await follow(world, ...words);
  expect(hinted.stderr).toMatch(says);
  expect(hinted.typed).toEqual(typed);
  expect((await world.vidgen(...typed)).code).toBe(0);
});

test.each([
  [["generate", "a fox", "an owl"]],
  [["generate", "a fox", "an owl", "-n", "2"]],
  [["generate", "fox", "an owl"]],
])("%j: several prompts are not glued to one", async (words) => {
  const world = await createWorld();
  const { code, stderr } = await world.vidgen(...words);
  expect([code, stderr]).toEqual([
    2,
    "error: Too many arguments: generate takes one prompt, not 2.\n  For several videos of one prompt, add -n. For several prompts, write them to a file, one per line: vidgen help batch\n",
  ]);
});

test.each([
  [["-help"], "vidgen --help"],
  [["-version"], "vidgen --version"],
  [["generate", "-help"], "vidgen generate --help"],
  [["list", "-json"], "vidgen list --json"],
  [["generate", "a fox", "-local"], "vidgen generate 'a fox' --local"],
  [["generate", "a fox", "-model", "sora-2"], "vidgen generate 'a fox' --model sora-2"],
])("%j: a long flag with one dash is no prompt, and no other flag", async (words, line) => {
  const world = await createWorld();
  const { code, stderr } = await world.vidgen(...words);
  expect([code, stderr]).toEqual([2, expect.stringMatching(/\n {2}Long flags have two dashes: .*\n$/)]);
  expect(stderr).toContain(`: ${line}\n`);
  expect(world.requests).toEqual([]);
});

test.each(["-delete", "-list", "-foo"])("vidgen %s is not turned into something to pay for", async (word) => {
  const world = await createWorld();
  expect((await world.vidgen(word)).stderr).not.toMatch(paid);
});

test("the end of a long flag with one dash is no value of the short one: nothing is sent", async () => {
  const world = await createWorld();
  expect(await world.vidgen("generate", "a fox", "-model=sora-2")).toEqual({
    code: 2,
    stdout: "",
    stderr:
      'error: -model=sora-2 would set --model to "odel=sora-2". Nothing was sent.\n  Long flags have two dashes: --model.\n',
  });
  expect(world.requests).toEqual([]);
});

test("again takes one prompt too", async () => {
  const world = await createWorld();
  expect((await world.vidgen("again", "last", "a", "blue", "fox", "--no-wait")).stderr).toContain(
    'Quote the prompt: vidgen again last "a blue fox" --no-wait\n',
  );
});

test.each([[["-h", "generate"]], [["--help", "generate"]], [["--no-color", "--help", "generate"]]])(
  "%j is the help of generate",
  async (words) => {
    const world = await createWorld();
    const help = await world.vidgen("generate", "--help");
    expect(await world.vidgen(...words)).toEqual(help);
  },
);

test.each([
  ["\u201ca red fox\u201d", "a red fox"],
  ["\u2018the fox\u2019s den\u2019", "the fox\u2019s den"],
  ["\u201ea red fox\u201c", "a red fox"],
  ["\u201cstop\u201d, says a fox, \u201cnow\u201d", "\u201cstop\u201d, says a fox, \u201cnow\u201d"],
  ["a fox", "a fox"],
])("the prompt %s is sent as %s", async (typed, prompt) => {
  const world = await createWorld();
  await world.vidgen("generate", typed, "--no-wait");
  world.stdin = typed;
  await world.vidgen("generate", "-", "--no-wait");
  expect(world.requests.filter(isStart).map(({ body }) => JSON.parse(body).prompt)).toEqual([prompt, prompt]);
});
