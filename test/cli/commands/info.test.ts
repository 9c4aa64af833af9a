import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tinyMp4 } from "../../mp4.ts";
import { lacks } from "../../needs.ts";
import { apiKey, createWorld, isStart, type World } from "../../vidgen.ts";

/** A world with a place for a video, and the path of its info file. */
async function createArchive() {
  const world = await createWorld();
  const file = join(world.folder, "fox.mp4");
  return { world, file, info: `${file}.json`, generate: ["generate", "a fox", "-o", file, "--write-info-json"] };
}

const read = (path: string) => JSON.parse(readFileSync(path, "utf8"));
const polls = (world: World) => world.requests.filter(({ url }) => url.includes("generation-status")).length;

test("the info beside a video tells the whole request without its secrets, the times and the credits", async () => {
  const { world, file, info, generate } = await createArchive();
  const secret = ["--callback-url", "https://hooks.example/done?token=canary-1", "--set", "seed=7", "-d", "8"];
  const run = await world.vidgen(...generate, ...secret, "--json");
  expect(run.code).toBe(0);
  const { id, created_at } = JSON.parse(run.stdout);
  const callback_url = expect.stringMatching(/^sha256:/);
  expect(read(info)).toEqual({
    id,
    model: "wan-2.5",
    prompt: "a fox",
    request: { prompt: "a fox", model: "wan-2.5", duration: 8, callback_url, seed: 7 },
    started_at: "2026-01-01T00:00:00.000Z",
    created_at,
    completed_at: expect.stringMatching(/^2026-01-01T00:00:3\d/),
    credits: 10,
    cost: null,
    remaining_credits: 990,
  });
  const text = readFileSync(info, "utf8");
  expect(text).toMatch(/^\{\n {2}"id": "[^"]+",\n[\s\S]*\n\}\n$/);
  expect(text).not.toContain("canary");
  expect(readdirSync(world.folder).sort()).toEqual(["fox.mp4", "fox.mp4.json"]);
  expect(readFileSync(file)).toEqual(Buffer.from(tinyMp4("a fox")));
});

test("the credits are those that the service has stated, by generate, wait and what is added later", async () => {
  const { world, info, generate } = await createArchive();
  await world.vidgen(...generate);
  const { id, ...first } = read(info);
  expect(first).toMatchObject({ credits: 10, remaining_credits: 990 });
  rmSync(info);
  await world.vidgen("wait", id, "-o", join(world.folder, "fox.mp4"), "--write-info-json");
  expect(read(info)).toEqual({ id, ...first });
});

test("of a service that states no cost they are null, also where the balance has fallen as much before", async () => {
  const { world, info, generate } = await createArchive();
  world.faults.push(async (request) => {
    if (!isStart(request)) return undefined;
    const { credits_charged: _, ...reply } = (await world.start(request)) as Record<string, unknown>;
    return Response.json(reply);
  });
  for (const prompt of ["a bear", "a cub"]) await world.vidgen("generate", prompt, "--no-wait");
  await world.vidgen(...generate);
  expect(read(info)).toMatchObject({ credits: null, remaining_credits: 970 });
});

test("when it ended is null where nobody watched it", async () => {
  const { world, file, info } = await createArchive();
  const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
  await world.io.sleep(100_000);
  await world.vidgen("wait", id, "-o", file, "--write-info-json");
  expect(read(info)).toMatchObject({ id, completed_at: null, credits: 10 });
});

test("in a folder each video of wait has its own, and what another machine started has what the service says", async () => {
  const world = await createWorld();
  const ids = [];
  for (const prompt of ["a fox", "an owl"])
    ids.push((await world.vidgen("generate", prompt, "--no-wait")).stdout.trim());
  rmSync(join(world.home, "journal.jsonl"));
  world.faults.push((request) => {
    if (!request.url.includes("generation-status")) return undefined;
    const id = new URL(request.url).searchParams.get("id");
    const video_url = `https://media.video.example/${id}.mp4`;
    const times = { created_at: "2026-01-01T00:00:01.000Z", completed_at: `2026-01-01T00:00:02.000Z ${apiKey}` };
    return Response.json({ id, status: "completed", video_url, ...times });
  });
  world.faults.push((request) => (request.url.endsWith(".mp4") ? new Response(Buffer.from(tinyMp4("x"))) : undefined));
  const run = await world.vidgen("wait", ...ids, "-o", `${world.folder}/`, "--write-info-json");
  expect(run.code).toBe(0);
  for (const file of run.stdout.trim().split("\n"))
    expect(read(`${file}.json`)).toMatchObject({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      request: null,
      started_at: null,
      remaining_credits: null,
      created_at: "2026-01-01T00:00:01.000Z",
      completed_at: "2026-01-01T00:00:02.000Z [key]",
    });
  expect(readdirSync(world.folder)).toHaveLength(4);
});

test("a video that is saved already gets its info when that is missing, also while the service is away", async () => {
  const { world, file, info } = await createArchive();
  await world.vidgen("generate", "a fox", "-o", file);
  const again = ["generate", "a fox", "-o", file, "--reuse", "--write-info-json"];
  expect(await world.vidgen(...again)).toMatchObject({ code: 0, stdout: `${file}\n` });
  const { id, created_at } = read(info);
  expect(created_at).toEqual(expect.any(String));
  rmSync(info);
  world.faults.push(() => new Response("", { status: 503 }));
  const wait = ["wait", id, "-o", file, "--write-info-json"];
  expect(await world.vidgen(...wait)).toMatchObject({ code: 0, stdout: `${file}\n` });
  expect(read(info)).toMatchObject({ id, created_at: null, request: { prompt: "a fox" }, remaining_credits: 990 });
  const before = polls(world);
  expect(await world.vidgen(...wait)).toMatchObject({ code: 0 });
  expect(polls(world)).toBe(before);
});

test("batch starts new rows first, and asks for infos concurrently until the service does not answer", async () => {
  const { world } = await createArchive();
  const table = join(world.folder, "shots.txt");
  const prompts = Array.from({ length: 12 }, (_, n) => `a fox ${n}`);
  writeFileSync(table, prompts.join("\n"));
  const batch = ["batch", table, "-o", join(world.folder, "{n}.mp4"), "--jobs", "12"];
  expect(await world.vidgen(...batch)).toMatchObject({ code: 0 });
  writeFileSync(table, [...prompts, "an owl"].join("\n"));
  const earlier = world.requests.length;
  let asked = 0;
  let most = 0;
  const done = new Set(
    JSON.parse((await world.vidgen("list", "-L", "99", "--json")).stdout).map(({ id }: { id: string }) => id),
  );
  world.faults.push(async (request) => {
    if (!done.has(new URL(request.url).searchParams.get("id"))) return undefined;
    most = Math.max(most, ++asked);
    await world.io.sleep(10);
    asked--;
    return new Response("", { status: 503 });
  });
  const before = world.io.now();
  const second = await world.vidgen(...batch, "--write-info-json");
  expect(second).toMatchObject({ code: 0 });
  const [, firstAfterPrices] = world.requests.slice(earlier);
  expect(isStart(firstAfterPrices as World["requests"][number])).toBe(true);
  expect(most).toBeGreaterThan(1);
  expect(most).toBeLessThanOrEqual(4);
  expect(world.io.now() - before).toBeLessThan(3 * 60_000);
  for (const [n, prompt] of prompts.entries())
    expect(read(join(world.folder, `${n + 1}.mp4.json`))).toMatchObject({ prompt, credits: 10 });
});

test("a file that is not about this generation is left alone, and the video is safe; --overwrite replaces both", async () => {
  const { world, file, info, generate } = await createArchive();
  writeFileSync(info, '{"id":"another"}');
  const run = await world.vidgen(...generate);
  const message = `error: The video is saved as ${file}, but its info file is not: ${info} exists and belongs to`;
  expect(run).toMatchObject({ code: 9, stdout: "", stderr: expect.stringContaining(message) });
  expect(run.stderr).toMatch(/Resume with: vidgen wait \S+ -o \S+fox\.mp4'? --write-info-json\n$/);
  expect([readFileSync(file), read(info)]).toEqual([Buffer.from(tinyMp4("a fox")), { id: "another" }]);
  const id = /wait (\S+)/.exec(run.stderr)?.[1] ?? "";
  const wait = ["wait", id, "-o", file, "--write-info-json"];
  expect(await world.vidgen(...wait)).toMatchObject({ code: 9, stderr: expect.stringContaining(message) });
  expect(await world.vidgen(...wait, "--overwrite")).toMatchObject({ code: 0 });
  expect(read(info)).toMatchObject({ id, prompt: "a fox" });
  expect(readdirSync(world.folder).sort()).toEqual(["fox.mp4", "fox.mp4.json"]);
});

test("an info of the same generation is replaced by a download", async () => {
  const { world, file, info, generate } = await createArchive();
  await world.vidgen(...generate);
  const { id } = read(info);
  writeFileSync(info, JSON.stringify({ id, note: "old" }));
  linkSync(info, `${info}.old`);
  rmSync(file);
  expect(await world.vidgen("wait", id, "-o", file, "--write-info-json")).toMatchObject({ code: 0 });
  expect(read(info)).toMatchObject({ id, model: "wan-2.5" });
  // A crash while it is written would leave the old one whole.
  expect(read(`${info}.old`)).toEqual({ id, note: "old" });
});

type Obstacle = [string, (path: string) => void, reason: string];
const link: Obstacle = ["a link to itself", (info) => symlinkSync(info, info), "too many symbolic links"];

test.each<Obstacle>([
  ["a folder", mkdirSync, "exists and belongs to another generation"],
  ...(lacks("symbolic links") ? [] : [link]),
])("%s in its place is not replaced: exit 9, the video kept, nothing left behind", async (_, make, reason) => {
  const { world, file, info, generate } = await createArchive();
  make(info);
  const run = await world.vidgen(...generate, "--overwrite");
  expect(run).toMatchObject({ code: 9, stderr: expect.stringContaining(`The video is saved as ${file}, but`) });
  expect(run.stderr).toContain(reason);
  expect([existsSync(file), readdirSync(world.folder).length]).toEqual([true, 2]);
});

test.each([
  "generate fox",
  "generate fox --no-wait",
  "generate fox -o -",
  "wait --all",
  "wait 11111111-1111-4111-8111-111111111111 -o -",
])("%s without a saved file is a usage error", async (line) => {
  const world = await createWorld();
  const stderr = expect.stringContaining("error: --write-info-json writes a file beside the saved video: it needs -o");
  const run = await world.vidgen(...line.split(" "), "--write-info-json");
  expect(run).toMatchObject({ code: 2, stdout: "", stderr });
  expect(world.requests).toEqual([]);
});
