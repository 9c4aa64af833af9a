import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { baseUrl, createWorld, type Fault, failure, kill, type World } from "../../vidgen.ts";

const unknownId = "123e4567-e89b-12d3-a456-426614174000";
const json = (status: number, body: unknown) => Response.json(body, { status });

/** A world with a video in it, which is saved to fox.mp4, or whose URL was printed. */
async function withVideo({ isSaved = true } = {}) {
  const world = await createWorld({ renderMs: 1000 });
  const file = join(world.folder, "fox.mp4");
  const line = ["generate", "a fox", ...(isSaved ? ["-o", file] : [])];
  expect((await world.vidgen(...line)).code).toBe(0);
  const [{ id }] = await list(world);
  return { world, id, file, line };
}

const list = async (world: World) => JSON.parse((await world.vidgen("list", "--json")).stdout);
const starts = (world: World) => world.requests.filter(({ method, url }) => method === "POST" && /generate$/.test(url));
const deletes = (world: World) => world.requests.filter(({ method }) => method === "DELETE");
const onDelete =
  (answer: () => Response | Promise<Response>): Fault =>
  ({ method }) =>
    method === "DELETE" ? answer() : undefined;

test("deletes the video at the service, keeps the file, and what it cost stays on record", async () => {
  const { world, id, file } = await withVideo();
  expect(await world.vidgen("delete", id, "--yes")).toEqual({
    code: 0,
    stdout: "",
    stderr: `Deleted the video of ${id}.\n`,
  });
  expect(existsSync(file)).toBe(true);
  expect(await list(world)).toMatchObject([{ id, status: "deleted", credits: 10, file }]);
  for (const command of ["status", "wait"])
    expect(await world.vidgen(command, id)).toMatchObject({
      code: 10,
      stderr: expect.stringContaining(
        `error: The video of ${id} was deleted.\n  \`vidgen again ${id}\` starts the same request once more, and is charged.\n`,
      ),
    });
  expect(await list(world)).toMatchObject([{ status: "deleted" }]);
  expect(await world.vidgen("delete", id, "--yes")).toMatchObject({
    code: 0,
    stderr: `The service no longer had a video of ${id}.\n`,
  });
});

test("--files deletes the saved file too, unless it was changed", async () => {
  const one = await withVideo();
  expect(JSON.parse((await one.world.vidgen("delete", one.id, "--files", "--yes", "--json")).stdout)).toEqual({
    id: one.id,
    deleted: true,
    was_there: true,
    file_deleted: one.file,
  });
  expect(readdirSync(one.world.folder)).toEqual([]);
  const other = await withVideo();
  writeFileSync(other.file, "edited");
  expect(await other.world.vidgen("delete", other.id, "--files", "--yes")).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/fox\.mp4 was not deleted: it is missing, or was changed since it was saved\.\n$/),
  });
  expect(readFileSync(other.file, "utf8")).toBe("edited");
});

test("in a script it needs --yes, at a terminal it asks, and names what was never saved", async () => {
  const { world, id } = await withVideo({ isSaved: false });
  expect(await world.vidgen("delete", id)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("Add --yes to delete."),
  });
  Object.assign(world, { isTerminal: true, columns: 200 });
  world.answers.push(["Delete", "\r"]);
  const refused = await world.vidgen("delete", id);
  expect(refused).toMatchObject({ code: 130, stderr: expect.stringContaining("Nothing was deleted.") });
  expect(stripVTControlCharacters(refused.stderr).replace(/started \d+ s/, "started 2 s")).toContain(
    `${id}: "a fox", started 2 s ago, never saved to a file here\n? Delete this video at the service? (the cost stays in the journal)`,
  );
  expect(deletes(world)).toEqual([]);
  world.answers.push(["Delete", "y\r"]);
  expect((await world.vidgen("delete", id)).code).toBe(0);
  expect(deletes(world)).toHaveLength(1);
});

test.each([
  [[], "? Delete this video at the service? (its file stays, and the cost in the journal)"],
  [["--files"], "? Delete this video at the service, and its file? (the cost stays in the journal)"],
])("the question with %j names the prompt, the age and the file, and what stays", async (flags, question) => {
  const { world, id, file } = await withVideo();
  Object.assign(world, { isTerminal: true, columns: 200 });
  world.answers.push(["Delete", "\r"]);
  const { stderr } = await world.vidgen("delete", id, ...flags);
  expect(stripVTControlCharacters(stderr).replace(/started \d+ s/, "started 2 s")).toContain(
    `${id}: "a fox", started 2 s ago, saved as ${file}\n${question}`,
  );
  expect(existsSync(file)).toBe(true);
});

test("what still runs is not deleted, which would cancel it: exit 2, and nothing else is deleted either", async () => {
  const { world, id } = await withVideo();
  const running = (await world.vidgen("generate", "an owl", "--no-wait")).stdout.trim();
  expect(await world.vidgen("delete", id, running, "--yes")).toEqual({
    code: 2,
    stdout: "",
    stderr: `error: ${running} is still running. Nothing was deleted.\n  \`vidgen cancel ${running}\` stops it.\n`,
  });
  expect(deletes(world)).toEqual([]);
});

test("what may have been charged stays on record until it is dismissed", async () => {
  const world = await createWorld({ renderMs: 1000 });
  const id = (await world.vidgen("generate", "an owl", "--no-wait")).stdout.trim();
  const [{ attempt }] = await list(world);
  await world.io.sleep(2000);
  const unclear = { id, status: "failed", error: "no usable answer", error_code: "unclear" };
  world.faults.push(({ url }) => (url.includes("generation-status") ? json(200, unclear) : undefined));
  expect(await world.vidgen("delete", id, "--yes")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`vidgen list --dismiss ${attempt}`),
  });
  expect(deletes(world)).toEqual([]);
  expect((await world.vidgen("list", "--dismiss", attempt)).code).toBe(0);
  expect((await world.vidgen("delete", id, "--yes")).code).toBe(0);
});

test("--unclear deletes one of which nobody knows whether it was charged, and says that the same line is paid again", async () => {
  const world = await createWorld({ renderMs: 1000 });
  const line = ["generate", "an owl", "--no-wait"];
  const id = (await world.vidgen(...line)).stdout.trim();
  await world.io.sleep(2000);
  const unclear = { id, status: "failed", error: "no usable answer", error_code: "unclear" };
  world.faults.push(({ url }) => (url.includes("generation-status") ? json(200, unclear) : undefined));
  expect(await world.vidgen("delete", "--unclear", id)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("Add --yes to delete."),
  });
  world.isTerminal = true;
  world.answers.push(["Delete", "\r"]);
  const asked = await world.vidgen("delete", "--unclear", id);
  const question = stripVTControlCharacters(asked.stderr).replace(/\s+/g, "");
  expect([asked.code, question]).toEqual([130, expect.stringContaining("Thesamelinethenstartsanewone,whichispaid.")]);
  world.isTerminal = false;
  expect((await world.vidgen("delete", "--unclear", id, id, "--yes")).code).toBe(2);
  expect(deletes(world)).toEqual([]);
  expect((await world.vidgen("delete", "--unclear", id, "--yes")).code).toBe(0);
  expect(deletes(world).map(({ url }) => new URL(url).search)).toEqual(["?acknowledged=unclear"]);
  world.faults.pop();
  expect((await world.vidgen(...line)).code).toBe(0);
  expect(starts(world)).toHaveLength(2);
});

test("--unclear deletes nothing else", async () => {
  const { world, id } = await withVideo();
  expect((await world.vidgen("delete", "--unclear", id, "--yes")).code).toBe(2);
  expect(deletes(world)).toEqual([]);
});

test("a line with -n whose videos were all saved is finished, also if one was deleted: the same line starts a new run", async () => {
  const { world } = await withVideo({ isSaved: false });
  const line = ["generate", "a fox", "-n", "2", "-o", join(world.folder, "{n}.mp4")];
  await world.vidgen(...line);
  const [{ id }] = await list(world);
  await world.vidgen("delete", id, "--files", "--yes");
  expect((await world.vidgen(...line)).code).toBe(0);
  expect(starts(world)).toHaveLength(1 + 2 + 2);
});

test("the same line, of a video that was never saved, starts a new generation", async () => {
  const { world, id, line } = await withVideo({ isSaved: false });
  await world.vidgen("delete", id, "--yes");
  expect((await world.vidgen(...line, "--reuse")).code).toBe(0);
  expect(starts(world)).toHaveLength(2);
});

test("a video that was paid for and is not saved: nothing waits for it once it was deleted", async () => {
  const world = await createWorld({ renderMs: 1000 });
  const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
  await world.io.sleep(2000);
  expect((await world.vidgen("delete", id, "--yes")).code).toBe(0);
  expect(await world.vidgen("wait", "--all", "-o", `${world.folder}/`)).toMatchObject({ code: 0, stdout: "" });
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
  ["breaks", () => json(500, {}), 8, "HTTP 500"],
  ["is away", () => Promise.reject(failure("ECONNRESET", true)), 8, "econnreset on purpose (ECONNRESET)"],
])(
  "a service that %s does not delete: the message says what came and where the video stays, and no file is deleted",
  async (_, answer, code, why) => {
    const { world, id, file } = await withVideo();
    world.faults.push(onDelete(answer));
    expect(await world.vidgen("delete", id, "--files", "--yes")).toMatchObject({
      code,
      stderr: expect.stringContaining(
        `error: The service did not delete the video of ${id}, which stays at ${new URL(baseUrl).host}: ${why}. Nothing was deleted.\n`,
      ),
    });
    expect([existsSync(file), (await list(world))[0].status]).toEqual([true, "completed"]);
  },
);

test("an answer that is lost: it asks again, and a video that is gone counts as deleted", async () => {
  const { world, id } = await withVideo();
  let lost = 0;
  world.faults.push(async (request) => {
    if (request.method !== "DELETE" || lost++ > 0) return undefined;
    const again = new Request(request.url, { method: "DELETE", headers: request.headers });
    await world.start(again);
    return new Response("", { status: 502 });
  });
  expect((await world.vidgen("delete", id, "--yes")).code).toBe(0);
  expect((await list(world))[0].status).toBe("deleted");
});

test("an unknown id is exit 10, and a key that the service rejects exit 3", async () => {
  const { world, id } = await withVideo();
  expect((await world.vidgen("delete", unknownId, "--yes")).code).toBe(10);
  world.env.VIDGEN_API_KEY = "another-key-0123456789";
  expect((await world.vidgen("delete", id, "--yes")).code).toBe(3);
  expect(deletes(world)).toEqual([]);
});

test("while another process follows it: exit 2, and nothing is deleted", async () => {
  const world = await createWorld({ renderMs: 1000 });
  const file = join(world.folder, "fox.mp4");
  const isDownload = ({ url }: Request) => url.endsWith(".mp4");
  let code: number | undefined;
  let stderr = "";
  world.faults.push(async (request) => {
    if (!isDownload(request) || code !== undefined) return undefined;
    code = 0;
    const [{ id }] = await list(world);
    ({ code, stderr } = await world.vidgen("delete", id, "--yes"));
    return undefined;
  });
  expect((await world.vidgen("generate", "a fox", "-o", file)).code).toBe(0);
  expect([code, stderr]).toEqual([2, expect.stringMatching(/^error: Another process is saving the video of .*/)]);
  expect(existsSync(file)).toBe(true);
});

test("what a killed process has left is removed with it", async () => {
  const world = await createWorld({ renderMs: 1000 });
  await kill(world, ({ url }) => url.endsWith(".mp4"), "generate", "a fox", "-o", join(world.folder, "fox.mp4"));
  expect(readdirSync(world.folder).length).toBeGreaterThan(0);
  const [{ id }] = await list(world);
  expect((await world.vidgen("delete", id, "--yes")).code).toBe(0);
  expect(readdirSync(world.folder)).toEqual([]);
});

/** A video of another account, which was started elsewhere. */
async function withGuestVideo() {
  const world = await createWorld({ renderMs: 1000 });
  const key = (await world.vidgen("accounts", "create", "guest")).stdout.trim();
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const body = JSON.stringify({ prompt: "a hare", model: "wan-2.5" });
  const reply = await world.start(new Request(`${baseUrl}/api/generate`, { method: "POST", headers, body }));
  await world.io.sleep(2000);
  return { world, id: (reply as { data: { id: string } }).data.id };
}

test("the owner deletes another account's video after a question that names the account", async () => {
  const { world, id } = await withGuestVideo();
  Object.assign(world, { isTerminal: true, columns: 200 });
  world.answers.push(["Delete", "\r"]);
  const refused = await world.vidgen("delete", id);
  expect(stripVTControlCharacters(refused.stderr)).toContain(
    `${id}: never saved to a file here\n? Delete this video at the service, of the account guest? (the cost stays in the journal)`,
  );
  expect(deletes(world)).toEqual([]);
  world.answers.push(["Delete", "y\r"]);
  expect((await world.vidgen("delete", id)).code).toBe(0);
  expect(await list(world)).toEqual([]);
});

test("--yes alone deletes no video of another account; --account names it, and only it", async () => {
  const { world, id } = await withGuestVideo();
  const own = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
  await world.io.sleep(2000);
  for (const isTerminal of [false, true]) {
    Object.assign(world, { isTerminal });
    expect(await world.vidgen("delete", id, "--yes")).toMatchObject({
      code: 10,
      stderr: expect.stringContaining(`${id} belongs to the account guest.`),
    });
  }
  Object.assign(world, { isTerminal: false });
  expect(await world.vidgen("delete", id, own, "--account", "guest", "--yes")).toMatchObject({
    code: 10,
    stderr: expect.stringContaining(`${own} belongs to the account local.`),
  });
  expect(deletes(world)).toEqual([]);
  expect(await world.vidgen("delete", id, "--account", "guest", "--yes")).toMatchObject({
    code: 0,
    stderr: `Deleted the video of ${id}.\n`,
  });
});

test("the owner cancels another account's generation by the name of the account", async () => {
  const { world, id: ended } = await withGuestVideo();
  const key = (await world.vidgen("accounts", "create", "ada")).stdout.trim();
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const body = JSON.stringify({ prompt: "a hare", model: "wan-2.5" });
  const reply = await world.start(new Request(`${baseUrl}/api/generate`, { method: "POST", headers, body }));
  const { id } = (reply as { data: { id: string } }).data;
  expect(await world.vidgen("cancel", id)).toMatchObject({
    code: 10,
    stderr: expect.stringContaining("add --account ada to `vidgen delete` or `vidgen cancel`"),
  });
  expect((await world.vidgen("cancel", ended, "--account", "ada")).code).toBe(10);
  expect(await world.vidgen("cancel", id, "--account", "ada")).toMatchObject({
    code: 0,
    stderr: `Cancelled ${id}; 10 credits were returned.\n`,
  });
});
