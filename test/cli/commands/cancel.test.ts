import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  apiKey,
  baseUrl,
  createWorld,
  type Fault,
  failure,
  isStart,
  kill,
  killAtLine,
  type World,
} from "../../vidgen.ts";

const unknownId = "123e4567-e89b-12d3-a456-426614174000";

/** A world with one generation in it, which takes 30 s. */
async function withGeneration(prompt = "a fox") {
  const world = await createWorld();
  const { stdout } = await world.vidgen("generate", prompt, "--no-wait");
  return { world, id: stdout.trim() };
}

/** Somebody else cancels it. */
async function cancelAtService(world: World, id: string): Promise<void> {
  const init = { method: "POST", headers: { Authorization: `Bearer ${apiKey}` } };
  expect(await world.start(new Request(`${baseUrl}/api/cancel?id=${id}`, init))).toMatchObject({ status: "failed" });
}

/** Answers a cancel in place of the service. */
const onCancel =
  (answer: (id: string) => Response | Promise<Response>): Fault =>
  ({ url }) =>
    url.includes("/api/cancel") ? answer(new URL(url).searchParams.get("id") ?? "") : undefined;

const json = (status: number, body: unknown) => Response.json(body, { status });

test("ends a generation, tells which credits came back on stderr, and writes it down", async () => {
  const { world, id } = await withGeneration();
  expect(await world.vidgen("cancel", id)).toEqual({
    code: 0,
    stdout: "",
    stderr: `Cancelled ${id}; 10 credits were returned.\n`,
  });
  expect((await world.vidgen("status", id)).stdout).toBe(`${id}\tfailed\n`);
  expect((await world.vidgen("list")).stdout).toMatch(/failed/);
  const [entry] = JSON.parse((await world.vidgen("list", "--json")).stdout);
  expect(entry).toMatchObject({ id, status: "failed" });
});

test.each([
  ["says that its engine has said so first", { error: "cancelled at http://gpu-1:8000", credits_returned: 10 }, 0],
  ["says that the engine may have made it", { error: "cancelled while it waited", error_code: "unclear" }, 6],
])("a service that %s", async (_, body, code) => {
  const { world, id } = await withGeneration();
  world.faults.push(({ url }) => (url.includes(id) ? json(200, { id, status: "failed", ...body }) : undefined));
  const cancelled = await world.vidgen("cancel", id);
  expect([cancelled.code, cancelled.stderr.startsWith(`Cancelled ${id}; 10 credits`)]).toEqual([code, code === 0]);
});

test("--yes is accepted, as by delete: cancel never asks", async () => {
  const world = await createWorld();
  const { stdout } = await world.vidgen("generate", "a fox", "--no-wait");
  expect(await world.vidgen("cancel", stdout.trim(), "--yes")).toMatchObject({ code: 0, stdout: "" });
});

test("--json is the service's reply, with what came back", async () => {
  const { world, id } = await withGeneration();
  const { code, stdout } = await world.vidgen("cancel", "last", "--json");
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ id, status: "failed", error: "cancelled", credits_returned: 10 });
});

test.each([
  ["cancel", (id: string) => ["cancel", id]],
  ["status, which sees that it has failed", (id: string) => ["status", id]],
])("what a killed process has left, its lock, partial file and lease, is removed by %s", async (name, line) => {
  const world = await createWorld();
  await kill(
    world,
    (request) => request.url.includes("generation-status"),
    "generate",
    "a fox",
    "-o",
    join(world.folder, "fox.mp4"),
  );
  expect((await readdir(world.folder)).sort()).toEqual([
    ".fox.mp4.lock",
    expect.stringMatching(/^fox\.mp4\..*\.part$/),
  ]);
  expect(await readdir(world.home)).toContain("journal.jsonl.leases");
  const [{ id }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
  if (name !== "cancel") await cancelAtService(world, id);
  await world.vidgen(...line(id));
  expect([await readdir(world.folder), (await readdir(world.home)).filter((each) => /lock|lease/.test(each))]).toEqual([
    [],
    [],
  ]);
});

test.each([
  ["a start, before its partial file is written down, is removed by --dismiss", true],
  ["a wait with a place of its own is removed by the end", false],
])("the lock and the lease of a process that was killed in %s", async (_, isNew) => {
  const world = await createWorld();
  const own = join(world.folder, "fox.mp4");
  const left = async () => [
    ...(await readdir(world.folder)),
    ...(await readdir(world.home)).filter((each) => /lock|lease/.test(each)),
  ];
  if (isNew) {
    await killAtLine(world, "intent", "generate", "a fox", "-o", own);
    expect(await left()).toEqual([".fox.mp4.lock", "journal.jsonl.leases", "journal.jsonl.lock"]);
    const [{ attempt }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    expect(await world.vidgen("list", "--dismiss", attempt)).toMatchObject({ code: 0 });
  } else {
    const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    await kill(world, (request) => request.url.includes("generation-status"), "wait", id, "-o", own);
    expect(await left()).toEqual([".fox.mp4.lock"]);
    expect(await world.vidgen("wait", id)).toMatchObject({ code: 0 });
  }
  expect(await left()).toEqual([]);
});

test("the same run again starts a new one", async () => {
  const world = await createWorld();
  const run = ["generate", "a fox", "--timeout", "5s"];
  expect((await world.vidgen(...run)).code).toBe(5);
  await world.vidgen("cancel", "last");
  const again = await world.vidgen("generate", "a fox");
  expect(again).toMatchObject({ code: 0, stderr: expect.not.stringContaining("Resuming") });
  expect(world.requests.filter(isStart)).toHaveLength(2);
});

test("a command that waits ends as for one that failed", async () => {
  const { world, id } = await withGeneration();
  const waiting = world.vidgen("wait", id);
  await world.io.sleep(6_000);
  await cancelAtService(world, id);
  const { code, stderr } = await waiting;
  expect([code, stderr]).toEqual([4, expect.stringMatching(/\nerror: The generation failed: cancelled\n$/)]);
});

test("a row of a batch whose generation was cancelled has failed", async () => {
  const world = await createWorld();
  const file = join(world.folder, "rows.txt");
  await writeFile(file, "a fox\nan owl\n");
  const running = world.vidgen("batch", file, "-o", `${world.folder}/clips/`, "--yes");
  while (world.requests.filter(isStart).length < 2) await world.io.sleep(1_000);
  const [first] = JSON.parse((await world.vidgen("list", "--json")).stdout);
  await cancelAtService(world, first.id);
  const { code, stderr } = await running;
  expect([code, stderr]).toEqual([4, expect.stringContaining("cancelled")]);
});

test.each([
  [
    "has no such path",
    () => json(404, { error: { code: "not_found", message: "no such path" } }),
    1,
    "no such path (HTTP 404)",
  ],
  ["has a page there", () => new Response("<html>", { status: 404 }), 1, "HTTP 404"],
  ["allows no such method", () => json(405, { error: "method not allowed" }), 1, "method not allowed (HTTP 405)"],
  [
    "refuses unknown paths",
    () => json(403, { message: "Missing Authentication Token" }),
    1,
    "Missing Authentication Token (HTTP 403)",
  ],
  ["answers anything well", () => json(200, { ok: true }), 1, "HTTP 200"],
  ["answers with the generation as it is", (id: string) => json(200, { id, status: "processing" }), 1, "HTTP 200"],
  ["breaks", () => json(500, {}), 8, "HTTP 500"],
  ["is busy", () => json(429, { error: "slow down" }), 8, "slow down (HTTP 429)"],
  ["is away", () => Promise.reject(failure("ECONNRESET", true)), 8, "econnreset on purpose (ECONNRESET)"],
])(
  "a service that %s does not cancel: the message says what came, and the generation goes on",
  async (_, answer, code, why) => {
    const { world, id } = await withGeneration();
    world.faults.push(onCancel(answer));
    expect(await world.vidgen("cancel", id)).toMatchObject({
      code,
      stdout: "",
      stderr: `error: The service did not cancel the generation, which continues: ${why}.\n  \`vidgen wait ${id}\` waits for it.\n`,
    });
    expect((await world.vidgen("wait", id)).code).toBe(0);
  },
);

test("an unknown id is exit 10, and a wrong key exit 3", async () => {
  const { world, id } = await withGeneration();
  expect(await world.vidgen("cancel", unknownId)).toMatchObject({
    code: 10,
    stderr: expect.stringContaining(`The service has no generation ${unknownId}.`),
  });
  world.env.VIDGEN_API_KEY = "another-key-0123456789";
  expect((await world.vidgen("cancel", id)).code).toBe(3);
});

test("what has completed stays completed: exit 1, and no advice to wait for it", async () => {
  const { world, id } = await withGeneration();
  await world.io.sleep(31_000);
  expect(await world.vidgen("cancel", id)).toMatchObject({
    code: 1,
    stderr: `error: The generation has completed: nothing was cancelled.\n  \`vidgen delete ${id}\` deletes its video, where the service can.\n`,
  });
  expect((await world.vidgen("status", id)).stdout).toContain("completed");
});

test("asked again after its answer was lost, it is told as cancelled", async () => {
  const { world, id } = await withGeneration();
  let lost = 0;
  world.faults.push(async (request) => {
    if (!request.url.includes("/api/cancel") || lost++ > 0) return undefined;
    await world.start(request);
    throw new Error("socket hang up");
  });
  expect(await world.vidgen("cancel", id)).toMatchObject({
    code: 0,
    stderr: `Cancelled ${id}; 10 credits were returned.\n`,
  });
});

test("where each answer was lost until its status is asked for, it is told what came back too", async () => {
  const { world, id } = await withGeneration();
  let isOut = true;
  world.faults.push(async (request) => {
    if (!request.url.includes("/api/cancel")) isOut = false;
    if (!isOut) return undefined;
    await world.start(request);
    throw new Error("socket hang up");
  });
  expect(await world.vidgen("cancel", id)).toMatchObject({
    code: 0,
    stderr: `Cancelled ${id}; 10 credits were returned.\n`,
  });
});

test("cancelled twice: credits came back once, and the second time it says so", async () => {
  const { world, id } = await withGeneration();
  expect((await world.vidgen("cancel", id)).stderr).toBe(`Cancelled ${id}; 10 credits were returned.\n`);
  expect(await world.vidgen("cancel", id)).toEqual({
    code: 0,
    stdout: "",
    stderr: `${id} was already cancelled. Nothing was changed, and no credits were returned now.\n`,
  });
});

test("of several, each is told, and the worst decides the exit", async () => {
  const { world, id } = await withGeneration();
  const other = (await world.vidgen("generate", "an owl", "--no-wait")).stdout.trim();
  const run = await world.vidgen("cancel", id, unknownId, other, other);
  expect(run).toMatchObject({ code: 10, stdout: "" });
  expect(run.stderr.match(/Cancelled/g)).toHaveLength(2);
  const { code, stdout } = await world.vidgen("cancel", id, unknownId, "--json");
  expect(code).toBe(10);
  expect(JSON.parse(stdout)).toMatchObject([
    { id, status: "failed", credits_returned: 10 },
    { id: unknownId, error: { code: "not_found" } },
  ]);
});

test("less than 8 characters of an id may be a slip: exit 2, and nothing is cancelled", async () => {
  const { world, id } = await withGeneration();
  const before = world.requests.length;
  for (const short of [id.slice(0, 1), id.slice(0, 7)])
    expect(await world.vidgen("cancel", short)).toEqual({
      code: 2,
      stdout: "",
      stderr: `error: "${short}" is too short: give at least 8 characters of it.\n  \`vidgen list\` shows what was started here.\n`,
    });
  expect(world.requests).toHaveLength(before);
  expect(await world.vidgen("cancel", id.slice(0, 8).toUpperCase())).toMatchObject({ code: 0 });
});

test("a short id is cancelled when it is the whole of it", async () => {
  const world = await createWorld();
  world.faults.push((request) => {
    if (isStart(request)) return Response.json({ success: true, data: { id: "7", status: "processing" } });
    if (request.url.includes("id=7")) return Response.json({ id: "7", status: "failed", error: "cancelled" });
    return undefined;
  });
  await world.vidgen("generate", "a fox", "--no-wait");
  expect(await world.vidgen("cancel", "7")).toMatchObject({ code: 0, stderr: "Cancelled 7.\n" });
});

test("no id, or an empty one, is exit 2", async () => {
  const world = await createWorld();
  expect((await world.vidgen("cancel")).code).toBe(2);
  expect((await world.vidgen("cancel", "")).code).toBe(2);
});
