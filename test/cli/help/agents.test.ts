import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import { readPage } from "../../../src/docs.ts";
import { exits } from "../../../src/errors.ts";
import { createWorld, isStart, onStart, type World } from "../../vidgen.ts";

const page = readPage("agents").text;

/** Each command line of the page, once, with what is said of it behind a "#". */
const found = [...page.matchAll(/^ {4}(vidgen .*?) +# (.*)|`(vidgen [^`]+)`/gm)].map(
  ([, typed, note = "", quoted]) => ({ typed: typed ?? quoted ?? "", note }),
);
const lines = [...new Map(found.reverse().map((line) => [line.typed, line])).values()].reverse();
const starts = lines.filter(({ typed }) => typed.startsWith("vidgen generate "));

const home = process.cwd();
afterEach(() => process.chdir(home));

/** A machine on which a video was made, and the start of another may have been charged. */
async function prepare(renderMs: number): Promise<{ world: World; words: Record<string, string> }> {
  const world = await createWorld({ renderMs });
  process.chdir(world.folder);
  writeFileSync("prompt.txt", "a prompt");
  writeFileSync("shots.csv", "id,prompt,model\nfox,a fox,wan-2.5\nbear,a bear,ray-3\n");
  const id = (await world.vidgen("generate", "an owl", "--no-wait")).stdout.trim();
  world.faults.push(onStart(() => new Response("", { status: 502 }), 1));
  await world.vidgen("generate", "a cat", "--no-wait");
  const [{ attempt }] = JSON.parse((await world.vidgen("list", "--status", "unknown", "--json")).stdout);
  return { world, words: { "<id>": id, "<attempt>": attempt } };
}

/** Types a line as a shell would, with real ids in it. */
async function type(typed: string, { world, words }: Awaited<ReturnType<typeof prepare>>): Promise<number> {
  if (typed.startsWith("vidgen batch status")) await world.vidgen("batch", "shots.csv");
  // A person types it, at a terminal.
  world.isTerminal = typed === "vidgen login";
  if (world.isTerminal) world.answers.push(["API key", `${world.env.VIDGEN_API_KEY}\r`], ["Where should", "\r"]);
  const [, ...argv] = (typed.match(/"[^"]*"|'[^']*'|\S+/g) ?? []).map((word) => word.replace(/^(["'])(.*)\1$/, "$2"));
  // The preview's worker is made by the build.
  if (argv.includes("--local")) return runBuilt(argv, world);
  return (await world.vidgen(...argv.map((word) => words[word] ?? word))).code;
}

async function runBuilt(argv: string[], { home, folder }: World): Promise<number> {
  const bin = fileURLToPath(new URL("../../../bin/vidgen.js", import.meta.url));
  const { NODE_EXTRA_CA_CERTS: _, ...env } = process.env;
  const child = spawn(process.execPath, [bin, ...argv], { cwd: folder, env: { ...env, VIDGEN_HOME: home } });
  const [code] = await once(child, "close");
  return code;
}

const longMs = 5 * 60_000;

describe.each(lines)("$typed", ({ typed, note }) => {
  test("works", async () => {
    expect(await type(typed, await prepare(1000))).toBe(0);
  });

  test("ends with 5 where the page says so, while the video is not ready", {
    skip: typed.includes("--local"),
  }, async () => {
    const isPending = note.includes("exit 5") || typed.startsWith("vidgen wait");
    expect(await type(typed, await prepare(longMs))).toBe(isPending ? exits.pending.exit : 0);
  });
});

test("is a page: at most 60 lines of 110 characters", () => {
  const all = page.trimEnd().split("\n");
  expect(all.length).toBeLessThanOrEqual(60);
  expect(all.filter((line) => line.length > 110)).toEqual([]);
});

test("has each command that an agent needs", () => {
  const named = new Set(lines.map(({ typed }) => typed.split(" ")[1]));
  for (const name of ["generate", "wait", "status", "list", "batch", "models", "doctor"]) expect(named).toContain(name);
});

test("is what help agents prints, and names flags and variables that exist", async () => {
  const world = await createWorld();
  expect((await world.vidgen("help", "agents")).stdout).toBe(`${page}\n`);
  const everything = (await world.vidgen("help", "--json")).stdout;
  const flags = page.match(/(?<= )--[a-z][a-z-]*/g) ?? [];
  expect(flags.length).toBeGreaterThan(20);
  for (const word of [...flags, ...(page.match(/VIDGEN_\w+/g) ?? [])]) expect(everything).toContain(`"${word}"`);
});

test("none of its lines pays twice, however often it is typed, or waits longer than a tool does", async () => {
  expect(starts.length).toBeGreaterThan(2);
  const paid = starts.filter(({ typed }) => !typed.includes("--local"));
  for (const { typed } of paid) expect(typed).toMatch(/--reuse/);
  const waiting = lines.filter(
    ({ typed }) => /^vidgen (generate|wait) /.test(typed) && !/--no-wait|--dry-run/.test(typed),
  );
  for (const { typed } of waiting) expect(typed).toMatch(/--timeout 50s/);
  const prepared = await prepare(longMs);
  const before = prepared.world.requests.filter(isStart).length;
  for (const { typed } of [...paid, ...paid, ...paid]) {
    await type(typed, prepared);
    prepared.world.reboot();
  }
  expect(prepared.world.requests.filter(isStart)).toHaveLength(before + 1);
});

test("the skill is the page, below what tells an agent when to read it", async () => {
  const skill = (await (await createWorld()).vidgen("help", "--skill")).stdout;
  const [, frontMatter = "", body] = /^---\n([\s\S]*?)\n---\n\n([\s\S]*)$/.exec(skill) ?? [];
  expect(body).toBe(`${page}\n`);
  expect(frontMatter).toMatch(
    /^name: vidgen\ndescription: [^\n:<>]{100,1024}\nlicense: MIT\ncompatibility: [^\n:<>]{1,500}\nmetadata:\n {2}version: "\d+\.\d+\.\d+"$/,
  );
  const root = new URL("../../../", import.meta.url);
  expect(readFileSync(new URL("dist/SKILL.md", root), "utf8")).toBe(skill);
  // `npx skills add <clone>` finds it there.
  await expect(skill).toMatchFileSnapshot(fileURLToPath(new URL(".agents/skills/vidgen/SKILL.md", root)));
});
