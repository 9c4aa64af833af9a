import { spawnSync } from "node:child_process";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lacks } from "../../needs.ts";
import { createWorld, failure, goneReply, isStart, mediaUrl } from "../../vidgen.ts";

const unknownId = "123e4567-e89b-12d3-a456-426614174000";

/** A world with one generation in it, which takes 30 s. */
async function withGeneration(prompt = "a fox") {
  const world = await createWorld();
  const { stdout } = await world.vidgen("generate", prompt, "--no-wait");
  return { world, id: stdout.trim() };
}

test("is one line: id and status, and the url when there is one", async () => {
  const { world, id } = await withGeneration();
  expect(await world.vidgen("status", id)).toMatchObject({ code: 0, stdout: `${id}\tprocessing\n`, stderr: "" });
  await world.io.sleep(31_000);
  expect(await world.vidgen("status", id)).toMatchObject({
    code: 0,
    stdout: `${id}\tcompleted\t${mediaUrl}/${id}.mp4\n`,
  });
});

test("--json is the service's reply", async () => {
  const { world, id } = await withGeneration();
  const { stdout } = await world.vidgen("status", id, "--json");
  expect(Object.keys(JSON.parse(stdout))).toEqual(["id", "status", "video_url", "thumbnail_url", "created_at"]);
});

test.each([
  [
    { fetching: "its video cannot be fetched: HTTP 404" },
    "Completed at its engine; its video cannot be fetched: HTTP 404.",
  ],
  [{ not_submitted: "the engine is busy." }, "Not submitted yet: the engine is busy; nothing was charged so far."],
  [{ fetching: true, not_submitted: null }, undefined],
])("what the service says about a generation that is not at its engine follows on stderr: %j", async (fields, said) => {
  const world = await createWorld();
  world.faults.push(() => Response.json({ id: unknownId, status: "processing", ...fields }));
  const stdout = `${unknownId}\tprocessing\n`;
  const looked = await world.vidgen("status", unknownId);
  expect(looked).toMatchObject({ code: 0, stdout, stderr: said === undefined ? "" : `${said}\n` });
  const asked = await world.vidgen("status", unknownId, "--exit-status");
  expect(asked).toMatchObject({ code: 5, stderr: expect.stringContaining(`error: ${said ?? "Still generating."}\n`) });
});

test("--exit-status tells the states apart by the exit code", async () => {
  const { world, id } = await withGeneration();
  expect(await world.vidgen("status", id, "--exit-status")).toMatchObject({ code: 5, stdout: `${id}\tprocessing\n` });
  await world.io.sleep(31_000);
  expect(await world.vidgen("status", id, "--exit-status")).toMatchObject({ code: 0 });
  const failed = await withGeneration("[fail]");
  expect(await failed.world.vidgen("status", failed.id)).toMatchObject({ code: 0, stdout: `${failed.id}\tfailed\n` });
  expect(await failed.world.vidgen("status", failed.id, "--exit-status")).toMatchObject({ code: 4 });
});

test.skipIf(lacks("sh")).each([
  [[5, 5, 0], 3],
  [[5, 4], 2],
  [[3], 1],
])("the loop in its help ends with the generation, however that ends (%j)", async (exits, looks) => {
  const { stdout } = await (await createWorld()).vidgen("status", "--help");
  const [, loop = ""] = /^ {2}\$ (.*do sleep 10; done)$/m.exec(stdout) ?? [];
  const codes = exits.map((exit, i) => `${i + 1}) return ${exit};;`).join(" ");
  const script = `looks=0; sleep() { :; }; vidgen() { looks=$((looks + 1)); case $looks in ${codes} *) exit 99; esac; }`;
  const { stdout: said } = spawnSync("sh", ["-c", `${script}\n${loop.replace("<id>", "x")}\necho $looks`]);
  expect(String(said)).toBe(`${looks}\n`);
});

test("an unknown id is exit 10", async () => {
  const world = await createWorld();
  expect(await world.vidgen("status", unknownId)).toMatchObject({
    code: 10,
    stdout: "",
    stderr: `error: The service has no generation ${unknownId}.\n  \`vidgen list\` shows what was started here.\n`,
  });
});

test("last is the newest generation, also one that has ended, for status, wait and list --open", async () => {
  const { world, id } = await withGeneration();
  for (const argv of [["status"], ["wait"], ["list", "--open"]])
    expect(await (await createWorld()).vidgen(...argv, "last")).toMatchObject({ code: 10, stdout: "" });
  await world.io.sleep(31_000);
  expect((await world.vidgen("status", "last")).stdout).toContain(`${id}\tcompleted`);
  expect(await world.vidgen("list", "--open", "last")).toMatchObject({
    code: 9,
    stderr: expect.stringContaining(`\`vidgen wait ${id} -o <file> --open\``),
  });
  const file = join(world.folder, "fox.mp4");
  expect(await world.vidgen("wait", "last", "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  world.env.DISPLAY = ":0";
  for (const name of ["last", id]) {
    expect(await world.vidgen("list", "--open", name)).toMatchObject({ code: 0, stdout: `${file}\n`, stderr: "" });
    expect(world.launched.pop()).toEqual(["xdg-open", [file]]);
  }
  await rm(file);
  expect(await world.vidgen("list", "--open", "last")).toMatchObject({
    code: 9,
    stderr: expect.stringContaining(file),
  });
  expect(world.launched).toEqual([]);
});

test("another key says that the generation was started with another one", async () => {
  const { world, id } = await withGeneration();
  world.env.VIDGEN_API_KEY = "another-key-0123456789";
  world.faults = [goneReply];
  expect(await world.vidgen("status", id)).toMatchObject({
    code: 10,
    stderr: expect.stringMatching(/no generation \S+ for this key \(account \w+\); it was started with another key/),
  });
});

test("without an id it is the newest that runs; when none does, the last one; when nothing was started, exit 10", async () => {
  expect(await (await createWorld()).vidgen("status")).toMatchObject({
    code: 10,
    stdout: "",
    stderr: "error: No generation was started here yet.\n  `vidgen generate` starts one.\n",
  });
  const { world } = await withGeneration("older");
  const newest = (await world.vidgen("generate", "newer", "--no-wait")).stdout.trim();
  expect(await world.vidgen("status")).toMatchObject({ code: 0, stdout: `${newest}\tprocessing\n` });
  await world.io.sleep(61_000);
  await world.vidgen("wait", "--all");
  const last = { code: 0, stdout: `${newest}\tcompleted\t${mediaUrl}/${newest}.mp4\n`, stderr: "" };
  expect(await world.vidgen("status")).toEqual(last);
});

test("at a terminal it is a line for a person: what it is, how it is, and where", async () => {
  const { world, id } = await withGeneration();
  world.isTerminal = true;
  await world.io.sleep(5_000);
  expect((await world.vidgen("status")).stdout).toBe(`${id} (a fox, wan-2.5), started 5 s ago: processing\n`);
  await world.io.sleep(31_000);
  const url = `${mediaUrl}/${id}.mp4`;
  expect((await world.vidgen("status")).stdout).toBe(`${id} (a fox, wan-2.5), started 36 s ago: completed, ${url}\n`);
  const file = join(world.folder, "fox.mp4");
  await world.vidgen("wait", id, "-o", file);
  expect((await world.vidgen("status")).stdout).toBe(
    `${id} (a fox, wan-2.5), started 36 s ago: completed, saved as ${file}\n`,
  );
  await rm(file);
  expect((await world.vidgen("status")).stdout).toBe(`${id} (a fox, wan-2.5), started 36 s ago: completed, ${url}\n`);
  expect((await world.vidgen("status", "--json")).stdout).toContain(`"video_url": "${url}"`);
  await world.vidgen("generate", "[fail] \u001b[31mfoxes", "--no-wait");
  await world.io.sleep(31_000);
  expect((await world.vidgen("status")).stdout).toMatch(/^\S+ \(\[fail\] foxes, wan-2\.5\), .*: failed\n$/);
});

test("at a terminal an id that the journal does not know is shown too", async () => {
  const world = await createWorld();
  world.isTerminal = true;
  world.faults.push(() => Response.json({ id: unknownId, status: "processing" }));
  expect((await world.vidgen("status", unknownId)).stdout).toBe(`${unknownId}: processing\n`);
});

test("survives passing trouble, and gives up within half a minute: exit 8", async () => {
  const { world, id } = await withGeneration();
  let trouble = 2;
  world.faults.push((request) =>
    isStart(request) || trouble-- <= 0 ? undefined : new Response("oops", { status: 503 }),
  );
  expect(await world.vidgen("status", id)).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^(No usable response \(oops \(HTTP 503\)\); retrying in \d+ s\.\n){2}$/),
  });
  world.faults.push(() => Promise.reject(failure("ECONNREFUSED", false)));
  const start = world.io.now();
  expect(await world.vidgen("status", id)).toMatchObject({
    code: 8,
    stdout: "",
    stderr: expect.stringContaining("Run `vidgen doctor` to diagnose the problem."),
  });
  expect(world.io.now() - start).toBeLessThanOrEqual(30_000);
});

const odd: [string, object, number][] = [
  ["a reply without an id speaks of the one asked for", { status: "processing" }, 0],
  [
    "a reply about another generation is not believed",
    { id: "another", status: "completed", video_url: "https://x.example/v" },
    8,
  ],
  ["a reply that is no state is looked at again", { message: "queued" }, 8],
  ["a refusal with 200 is one", { success: false, message: "no such thing" }, 1],
];
test.each(odd)("%s", async (_, reply, code) => {
  const world = await createWorld();
  world.faults.push(() => Response.json(reply));
  expect(await world.vidgen("status", unknownId)).toMatchObject({ code });
});

test("line breaks in the service's words forge no line", async () => {
  const world = await createWorld();
  world.faults.push(() => Response.json({ error: "one\r\nerror: two" }, { status: 400 }));
  expect((await world.vidgen("status", unknownId)).stderr.match(/^error: /gm)).toHaveLength(1);
});

test("a short key hides nothing else", async () => {
  const world = await createWorld();
  world.env.VIDGEN_API_KEY = "media";
  const video_url = "https://media.example/v.mp4";
  world.faults.push(() => Response.json({ id: unknownId, status: "completed", video_url }));
  expect((await world.vidgen("status", unknownId)).stdout).toContain(video_url);
});

test("reads a reply that is wrapped in data", async () => {
  const world = await createWorld();
  world.faults.push(() => Response.json({ data: { id: unknownId, status: "processing" } }));
  expect(await world.vidgen("status", unknownId)).toMatchObject({ code: 0, stdout: `${unknownId}\tprocessing\n` });
});

test("an id needs no journal: one that cannot be read is in the way of neither status nor wait", async () => {
  const { world, id } = await withGeneration();
  const journal = join(world.home, "journal.jsonl");
  await rm(journal);
  await mkdir(journal);
  expect(await world.vidgen("status", id)).toMatchObject({ code: 0, stdout: `${id}\tprocessing\n` });
  expect(await world.vidgen("wait", id)).toMatchObject({ code: 0, stdout: `${mediaUrl}/${id}.mp4\n` });
  const file = join(world.folder, "fox.mp4");
  expect(await world.vidgen("wait", id, "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  expect(await world.vidgen("status", unknownId)).toMatchObject({ code: 10 });
});
