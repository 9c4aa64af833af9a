import { copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import * as z from "zod";
import { createWorld, isStart, type World } from "../../vidgen.ts";

/** Four rows in two shards, as two runs have left them: each has two rows. */
async function createShards(prompts = ["a fox", "an owl", "a hare", "a bear"]) {
  const world = await createWorld();
  const file = join(world.folder, "shots.csv");
  writeFileSync(file, ["id,prompt", ...prompts.map((prompt, i) => `row-${i + 1},${prompt}`), ""].join("\n"));
  const part = (index: number) => `${file}.${index}-of-2.results.jsonl`;
  const codes: number[] = [];
  for (const index of [1, 2]) {
    const argv = ["--shard", `${index}/2`, "-o", join(world.folder, "clips/{id}.mp4"), "--jobs", "1"];
    codes.push((await world.vidgen("batch", file, ...argv)).code);
  }
  return { world, file, part, codes };
}

const status = (world: World, ...argv: string[]) => world.vidgen("batch", "status", ...argv);

test("two shards have each row once, in a results file of its own; status of both is the whole", async () => {
  const { world, part, codes } = await createShards();
  expect(codes).toEqual([0, 0]);
  expect(world.requests.filter(isStart)).toHaveLength(4);
  const run = await status(world, part(1), part(2));
  expect(run).toEqual({
    code: 0,
    stderr: "",
    stdout: "4 rows: 4 done, 0 running, 0 failed, 0 unknown, 0 missing\n",
  });
});

test("it says which shard is missing, and which is double", async () => {
  const { world, part } = await createShards();
  const copy = join(world.folder, "copy.jsonl");
  copyFileSync(part(1), copy);
  const one = await status(world, part(1));
  expect([one.code, one.stdout]).toEqual([5, expect.stringMatching(/^4 rows: \d done.*\nmissing shards: 2\/2\n$/)]);
  const double = await status(world, part(1), part(2), copy);
  expect([double.code, double.stderr]).toEqual([5, expect.stringContaining("not one complete set")]);
  expect(double.stdout).toMatch(/duplicate shards: 1\/2\n$/);
});

test("each row that is not done has a line, and --json follows the schema of help", async () => {
  const { world, part } = await createShards(["[fail: no foxes]", "[http: 500]", "[http: 401]", "a bear"]);
  const run = await status(world, part(1), part(2));
  expect([run.code, run.stderr]).toEqual([6, expect.stringContaining("no row is paid for twice")]);
  expect(run.stdout).toMatch(/^line 2\trow-1\tfailed\t[0-9a-f-]{36}\tThe generation failed: no foxes$/m);
  expect(run.stdout).toMatch(/^line 3\trow-2\tunknown\t[0-9a-f-]{36}\t.*It may have been charged/m);
  const { commands } = JSON.parse((await world.vidgen("help", "batch", "--json")).stdout);
  const document = JSON.parse((await status(world, part(1), part(2), "--json")).stdout);
  expect(z.fromJSONSchema(commands[0].result).safeParse(document).error).toBeUndefined();
  expect(document).toMatchObject({ rows: 4, failed: 1, unknown: 1, shards: { of: 2, missing: [], double: [] } });
});

test("what it advises is what does something about the rows that are open", async () => {
  const advice = async (prompts: string[], retries: string[]) => {
    const { world, file } = await createShards(prompts);
    const { stderr } = await status(world, file);
    const hints = stderr.trimEnd().split("\n").slice(1);
    expect(hints).toHaveLength(retries.length);
    for (const [i, flag] of retries.entries()) expect(hints[i]).toContain(flag);
  };
  await advice(["a fox", "[fail]", "a hare", "a bear"], ["add --retry-failed to"]);
  await advice(["a fox", "[http: 500]", "a hare", "[fail]"], ["add --retry-unknown to", "add --retry-failed to"]);
  await advice(["a fox", "[http: 401]", "a hare", "a bear"], ["no row is paid for twice"]);
});

test("the file with the rows stands for all of its results, wherever they are", async () => {
  const { world, file, part } = await createShards();
  const whole = { code: 0, stderr: "", stdout: "4 rows: 4 done, 0 running, 0 failed, 0 unknown, 0 missing\n" };
  expect(await status(world, file)).toEqual(whole);
  expect(await status(world, file, part(1))).toEqual(whole);
  const own = join(world.folder, "elsewhere/owls.csv");
  mkdirSync(join(world.folder, "elsewhere"));
  writeFileSync(own, "prompt\nan owl\n");
  await world.vidgen("batch", own, "--results", join(world.folder, "owls.jsonl"));
  expect((await status(world, own)).stdout).toContain("1 row: 1 done");
  rmSync(join(world.folder, "owls.jsonl"));
  expect(await status(world, own)).toMatchObject({ code: 2, stderr: expect.stringContaining("it has no results yet") });
});

test("a file that is no results file, or does not exist", async () => {
  const { world, file: shots } = await createShards();
  const file = join(world.folder, "notes.txt");
  copyFileSync(shots, file);
  expect(await status(world, file)).toMatchObject({ code: 2, stderr: expect.stringContaining("not a results file") });
  expect(await status(world, `${file}.x`)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("There is no results file"),
  });
});

test("its help has its own flags and those of every command, not those of batch", async () => {
  const world = await createWorld();
  const { stdout } = await status(world, "--help");
  expect(stdout).toContain("--json");
  expect(stdout).not.toContain("--max-credits");
});
