import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { quote } from "../../../src/shell.ts";
import { findPart } from "../../folder.ts";
import { tinyMp4 } from "../../mp4.ts";
import { createWorld, failure, goneReply, isStart, mediaUrl, type World } from "../../vidgen.ts";

const unknownId = "123e4567-e89b-12d3-a456-426614174000";

async function start(world: World, prompt = "a fox"): Promise<string> {
  return (await world.vidgen("generate", prompt, "--no-wait")).stdout.trim();
}

test("follows a generation that exists, looking at once", async () => {
  const world = await createWorld();
  const id = await start(world);
  await world.io.sleep(31_000);
  expect(await world.vidgen("wait", id)).toMatchObject({ code: 0, stdout: `${mediaUrl}/${id}.mp4\n` });
  expect(world.requests.map(({ method }) => method)).toEqual(["POST", "GET"]);
});

test("saves it with -o", async () => {
  const world = await createWorld();
  const id = await start(world);
  const file = join(world.folder, "fox.mp4");
  expect(await world.vidgen("wait", id, "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  expect(readFileSync(file)).toEqual(Buffer.from(tinyMp4("a fox")));
});

test("never starts anything", async () => {
  const world = await createWorld();
  const id = await start(world);
  await world.vidgen("wait", id);
  expect(world.requests.filter(isStart)).toHaveLength(1);
});

test("several ids are followed side by side and saved into a folder", async () => {
  const world = await createWorld();
  const ids = [await start(world, "one"), await start(world, "two"), await start(world, "three")];
  const run = await world.vidgen("wait", ...ids, "-o", join(world.folder, "clips/"));
  expect(run.code).toBe(0);
  expect(run.stdout.trim().split("\n")).toHaveLength(3);
  expect(readdirSync(join(world.folder, "clips"))).toHaveLength(3);
});

test("several ids with --json are one array, in the order of the ids, and the exit code is the worst", async () => {
  const world = await createWorld();
  const ids = [await start(world, "one"), await start(world, "[fail]"), unknownId];
  const run = await world.vidgen("wait", ...ids, "--json");
  expect(run.code).toBe(10);
  const documents = JSON.parse(run.stdout);
  expect(documents).toMatchObject([
    { status: "completed" },
    { status: "failed", error: { code: "failed" } },
    { status: null, error: { code: "not_found" } },
  ]);
  expect(documents.map(({ id }: { id: string }) => id)).toEqual(ids);
  const fields = ["code", "message", "hint", "id", "attempt", "charged", "http_status", "next"];
  const unstated = fields.filter((name) => name !== "charged");
  expect(documents.slice(1).map(({ error }: { error: object }) => Object.keys(error))).toEqual([fields, unstated]);
  expect(documents[1].error).toMatchObject({ message: expect.stringMatching(/^The generation failed/), id: ids[1] });
  expect(documents[2].error).toMatchObject({ id: unknownId, http_status: 404 });
  expect(JSON.parse(run.stderr)).toMatchObject({ error: { code: "not_found", id: unknownId } });
});

const noMedia: World["faults"][number] = (request) =>
  request.url.startsWith(mediaUrl) ? new Response("", { status: 418 }) : undefined;

test.each<[string[], World["faults"], number]>([
  [["[fail]", "a fox"], [noMedia], 4],
  [["[fail]", "[slow: 90s]"], [], 4],
])("the same two failures, %j, end wait and batch with the same code", async (prompts, faults, code) => {
  const world = await createWorld();
  const ids = [];
  for (const prompt of prompts) ids.push(await start(world, prompt));
  world.faults = faults;
  const how = ["-o", join(world.folder, "{id}.mp4"), "--timeout", "60s"];
  const file = join(world.folder, "shots.txt");
  writeFileSync(file, prompts.join("\n"));
  const runs = [await world.vidgen("wait", ...ids, ...how), await world.vidgen("batch", file, ...how)];
  expect(runs.map((run) => run.code)).toEqual([code, code]);
});

test("each message is printed once, with the generations that it is about", async () => {
  const world = await createWorld();
  const ids = [await start(world, "[fail] one"), await start(world, "[fail] two"), unknownId];
  const { stderr } = await world.vidgen("wait", ...ids);
  const lines = stderr.split("\n").filter((line) => line.startsWith("error: "));
  expect(lines.map((line) => line.replace(/failed: .*/, "failed")).sort()).toEqual(
    [`error: ${ids[0]}, ${ids[1]}: The generation failed`, `error: The service has no generation ${unknownId}.`].sort(),
  );
});

test.each([
  ["--all with an id", ["wait", "--all", "a"]],
  ["an empty id", ["wait", ""]],
  ["several into one file", ["wait", "a", "b", "-o", "x.mp4"]],
  ["several onto stdout", ["wait", "a", "b", "-o", "-"]],
])("%s is a usage error", async (_, argv) => {
  const world = await createWorld();
  expect(await world.vidgen(...argv)).toMatchObject({ code: 2, stdout: "" });
  expect(world.requests).toEqual([]);
});

test("an id that was not started here is exit 10 after three 404s within 15 s", async () => {
  const world = await createWorld();
  expect(await world.vidgen("wait", unknownId, "--interval", "10m")).toMatchObject({ code: 10, stdout: "" });
  expect(world.requests).toHaveLength(3);
  expect(world.io.now()).toBeLessThan(15_000);
});

test("an id that was started here has 60 s of 404s before it is exit 10", async () => {
  const world = await createWorld();
  const id = await start(world);
  let goneUntil = 50_000;
  world.faults.push(() => (world.io.now() < goneUntil ? goneReply() : undefined));
  expect(await world.vidgen("wait", id)).toMatchObject({ code: 0 });
  const from = world.io.now();
  goneUntil = Number.POSITIVE_INFINITY;
  expect(await world.vidgen("wait", id)).toMatchObject({
    code: 10,
    stderr: expect.stringContaining("has no generation"),
  });
  expect(world.io.now() - from).toBe(60_000);
});

test.each([401, 403, 400])(
  "a %i among good looks is survived; three in a row end it, as does one at the first look",
  async (status) => {
    const world = await createWorld({ renderMs: 100_000 });
    const id = await start(world);
    const refused = () => new Response(null, { status });
    const looks = [undefined, refused(), refused(), undefined, refused(), refused(), undefined];
    world.faults.push(() => looks.shift());
    expect(await world.vidgen("wait", id)).toMatchObject({ code: 0 });
    const code = status === 400 ? 1 : 3;
    const count = world.requests.length;
    looks.push(refused());
    expect(await world.vidgen("wait", id)).toMatchObject({ code });
    expect(world.requests.length - count).toBe(1);
    const running = () => Response.json({ id, status: "processing" });
    looks.push(running(), refused(), refused(), refused());
    expect(await world.vidgen("wait", id)).toMatchObject({ code, stderr: expect.stringContaining("Resume with:") });
  },
);

test("a service that was never reached is exit 8, with the doctor and the command to continue; reached once it is 5", async () => {
  const world = await createWorld();
  const id = await start(world);
  const looks = [() => Response.json({ id, status: "processing" })];
  const unreached = () => Promise.reject(failure("ECONNREFUSED", false));
  world.faults.push(() => (looks.shift() ?? unreached)());
  expect(await world.vidgen("wait", id, "--timeout", "2m")).toMatchObject({ code: 5 });
  const run = await world.vidgen("wait", id, "--timeout", "2m");
  expect(run).toMatchObject({ code: 8, stderr: expect.stringContaining("econnrefused on purpose") });
  for (const hint of ["`vidgen doctor`", `vidgen wait ${id}`]) expect(run.stderr).toContain(hint);
  expect(run.stderr).not.toContain("still generating");
});

test.each([["generate"], ["status"], ["wait"]])(
  "%s ends at once where nothing listens on this machine",
  async (command) => {
    const world = await createWorld();
    world.env.VIDGEN_BASE_URL = "http://127.0.0.1:8787";
    world.faults.push(() => Promise.reject(failure("ECONNREFUSED", false)));
    expect(await world.vidgen(command, unknownId)).toMatchObject({
      code: 8,
      stderr: expect.stringContaining("econnrefused on purpose"),
    });
    expect([world.requests.length, world.io.now()]).toEqual([1, 0]);
  },
);

test("a service on this machine that was reached a moment ago may be restarted meanwhile", async () => {
  const world = await createWorld();
  world.env.VIDGEN_BASE_URL = "http://127.0.0.1:8787";
  const refused = () => Promise.reject(failure("ECONNREFUSED", false));
  const running = () => Response.json({ id: unknownId, status: "processing" });
  const done = () => Response.json({ id: unknownId, status: "completed", video_url: `${mediaUrl}/fox.mp4` });
  const looks = [running, refused, refused, refused, done];
  world.faults.push(() => looks.shift()?.());
  expect(await world.vidgen("wait", unknownId)).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("No usable response (econnrefused on purpose (ECONNREFUSED))"),
  });
});

test("the time is over: exit 5, with the command to continue", async () => {
  const world = await createWorld();
  const id = await start(world);
  const run = await world.vidgen("wait", id, "--timeout", "2s");
  expect(run).toMatchObject({ code: 5, stdout: "", stderr: expect.stringContaining(`vidgen wait ${id}`) });
});

test("an id that looks like a path is sent as an id, and never becomes one", async () => {
  const world = await createWorld();
  expect(await world.vidgen("wait", "../../etc/passwd?x=1&y")).toMatchObject({ code: 10 });
  expect(world.requests[0]?.url).toMatch(/\?id=\.\.%2F\.\.%2Fetc%2Fpasswd%3Fx%3D1%26y$/);
});

test("without an id it is the newest that runs, and how many more do; when none does, exit 10", async () => {
  const world = await createWorld();
  expect(await world.vidgen("wait")).toMatchObject({ code: 10, stdout: "" });
  await start(world, "oldest");
  await start(world, "older");
  const newest = await start(world, "newer");
  const run = await world.vidgen("wait");
  expect(run).toMatchObject({ code: 0, stdout: `${mediaUrl}/${newest}.mp4\n` });
  expect(run.stderr).toContain("2 more are running: vidgen wait --all\n");
  const next = await world.vidgen("wait");
  expect(next.stderr).toContain("1 more is running: vidgen wait --all\n");
  expect((await world.vidgen("wait")).stderr).not.toContain("more");
});

test("--all saves running generations and unsaved videos under readable names; a second time there is nothing to do", async () => {
  const world = await createWorld();
  const folder = join(world.folder, "clips/");
  await start(world, "one fox");
  await world.vidgen("generate", "two foxes", "-o", join(world.folder, "two.mp4"), "--timeout", "1s");
  await world.vidgen("generate", "[fail]", "-o", join(world.folder, "three.mp4"));
  await world.vidgen("generate", "four foxes", "-o", join(world.folder, "four.mp4"));
  const run = await world.vidgen("wait", "--all", "-o", folder);
  expect(run.code).toBe(0);
  expect(readdirSync(folder).map((name) => name.replace(/-[0-9a-f]{8}\.mp4$/, ""))).toEqual([
    "one-fox-wan-2.5",
    "two-foxes-wan-2.5",
  ]);
  expect(await world.vidgen("wait", "--all", "-o", folder)).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "Nothing to wait for.\n",
  });
  expect(world.requests.filter(isStart)).toHaveLength(4);
});

test("--all takes a video that has its name for saved, though the process died before it wrote that down", async () => {
  const world = await createWorld();
  const folder = join(world.folder, "clips/");
  await start(world, "one fox");
  const { stdout } = await world.vidgen("wait", "--all", "-o", folder);
  const journal = join(world.home, "journal.jsonl");
  const lines = readFileSync(journal, "utf8").split("\n");
  const place = (line: string) => line.replace('"kind":"intent"', '"kind":"intent","place":"clips/"');
  writeFileSync(
    journal,
    lines
      .filter((line) => !line.includes('"delivered"'))
      .map(place)
      .join("\n"),
  );
  expect(await world.vidgen("wait", "--all", "-o", folder)).toMatchObject({ code: 0, stdout });
  expect(await world.vidgen("wait", "--all", "-o", folder)).toMatchObject({ code: 0, stdout: "" });
});

test("--all does not wait longer than a minute for a completed generation without a video", async () => {
  const world = await createWorld();
  const odd = await start(world, "odd");
  await start(world, "a fox");
  world.faults.push((request) =>
    request.url.endsWith(odd) ? Response.json({ id: odd, status: "completed", video_url: null }) : undefined,
  );
  const run = await world.vidgen("wait", "--all");
  expect(run).toMatchObject({ code: 1, stderr: expect.stringContaining("the service returned no video URL") });
  expect(run.stdout.trim().split("\n")).toHaveLength(1);
  expect(world.requests.findLast(({ url }) => url.endsWith(odd))?.at).toBe(60_000);
});

test("several that were interrupted have one command to resume with, and their last known status", async () => {
  const world = await createWorld();
  const ids = [await start(world, "one"), await start(world, "two")];
  const run = await world.vidgen("wait", ...ids, "--timeout", "2s", "-o", join(world.folder, "clips/"));
  const [one, two] = ids;
  expect(run).toMatchObject({ code: 5, stdout: "" });
  const [message, hint, ...rest] = run.stderr.split("\n").slice(-3);
  expect([message, rest]).toEqual([
    expect.stringMatching(/^error: .*: Timed out after 2 s; still generating\.$/),
    [""],
  ]);
  for (const id of ids) expect(message).toContain(id);
  expect(hint).toBe(`  Resume with: vidgen wait ${one} ${two} -o ${quote(join(world.folder, "clips/"), "posix")}`);
  const all = await world.vidgen("wait", "--all", "--timeout", "2s", "--json");
  expect(JSON.parse(all.stdout).map(({ status }: { status: string }) => status)).toEqual(["processing", "processing"]);
  expect(JSON.parse(all.stderr).error.hint).toBe("Resume with: vidgen wait --all");
});

test("--all with a service ignores generations that were started at other services", async () => {
  const world = await createWorld();
  await start(world);
  expect(await world.vidgen("wait", "--all", "--base-url", "https://other.example", "--json")).toMatchObject({
    code: 0,
    stdout: "[]\n",
  });
});

test("an interrupted download resumes where it stopped", async () => {
  const world = await createWorld();
  const file = join(world.folder, "fox.mp4");
  const bytes = tinyMp4("a fox");
  const id = await start(world);
  await world.io.sleep(31_000);
  let isCut = true;
  world.faults.push(async (request) => {
    if (!request.url.startsWith(mediaUrl) || !isCut) return undefined;
    isCut = false;
    const pull = async (stream: ReadableStreamDefaultController) => {
      world.press("Ctrl-C");
      stream.error(new Error("cut"));
    };
    const headers = { ETag: (await etagOf(world, id)) ?? "", "Content-Length": String(bytes.length) };
    return new Response(
      new ReadableStream({ start: (stream) => stream.enqueue(bytes.slice(0, 20)), pull }, { highWaterMark: 0 }),
      { headers },
    );
  });
  expect(await world.vidgen("wait", id, "-o", file)).toMatchObject({ code: 130 });
  expect(readFileSync(findPart(world.folder))).toEqual(Buffer.from(bytes.slice(0, 20)));
  const next = await world.reboot();
  expect(await next.vidgen("wait", id, "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  expect(readFileSync(file)).toEqual(Buffer.from(bytes));
  expect(next.requests.at(-1)?.headers.get("Range")).toBe("bytes=20-");
  expect(readdirSync(world.folder)).toEqual(["fox.mp4"]);
});

test("a file that exists is exit 9, with no command that would fail again", async () => {
  const world = await createWorld();
  const id = await start(world);
  const place = join(world.folder, "fox.mp4");
  writeFileSync(place, "mine");
  const run = await world.vidgen("wait", id, "-o", place);
  expect(run).toMatchObject({ code: 9, stderr: expect.stringContaining("choose another name with -o") });
  expect(run.stderr).not.toContain("Resume with");
});

test("a file called .part is somebody else's: it is left alone, and is in nobody's way", async () => {
  const world = await createWorld();
  const file = join(world.folder, "fox.mp4");
  writeFileSync(`${file}.part`, "somebody's");
  const id = await start(world);
  expect(await world.vidgen("wait", id, "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  expect(readFileSync(`${file}.part`, "utf8")).toBe("somebody's");
});

test("a second wait for one file waits for the first one, and has the same video", async () => {
  const world = await createWorld();
  const file = join(world.folder, "fox.mp4");
  const id = await start(world);
  const runs = await Promise.all([0, 1].map(() => world.vidgen("wait", id, "-o", file)));
  expect(runs).toMatchObject([0, 1].map(() => ({ code: 0, stdout: `${file}\n` })));
  expect(world.requests.filter(({ url }) => url.startsWith(mediaUrl))).toHaveLength(1);
  expect(readdirSync(world.folder)).toEqual(["fox.mp4"]);
});

test("a process that was frozen while it saved does not write into the file of the one that has taken over its place", async () => {
  const world = await createWorld();
  const file = join(world.folder, "clip.mp4");
  const fox = await start(world, "a fox");
  const cat = await start(world, "a cat");
  await world.io.sleep(31_000);
  const [foxBytes, catBytes] = [tinyMp4("a fox"), tinyMp4("a cat")];
  const isMedia = ({ url }: Request, id: string) => url.startsWith(mediaUrl) && url.includes(id);
  type Step = (stream: ReadableStreamDefaultController) => void;
  const reply = (begin: Step, pull: Step) =>
    new Response(new ReadableStream({ start: begin, pull }, { highWaterMark: 0 }), {
      headers: { ETag: '"one"', "Content-Length": String(foxBytes.length) },
    });
  let thaw = () => {};
  await new Promise<void>((resolve) => {
    world.faults.push((request) => {
      if (!isMedia(request, fox)) return undefined;
      const begin = (stream: ReadableStreamDefaultController) => {
        stream.enqueue(foxBytes.slice(0, 20));
        thaw = () => stream.enqueue(foxBytes.slice(20));
      };
      return reply(begin, () => resolve());
    });
    void world.vidgen("wait", fox, "-o", file);
  });
  world.freeze();
  world.faults.push((request) => {
    if (!isMedia(request, cat)) return undefined;
    const pull = async (stream: ReadableStreamDefaultController) => {
      thaw();
      await new Promise(setImmediate);
      stream.close();
    };
    return reply((stream) => stream.enqueue(catBytes), pull);
  });
  expect(await world.vidgen("wait", cat, "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  expect(readFileSync(file)).toEqual(Buffer.from(catBytes));
});

async function etagOf(world: World, id: string): Promise<string | null> {
  const reply = await world.io.fetch(`${mediaUrl}/${id}.mp4`, { method: "HEAD" });
  return reply.headers.get("ETag");
}

describe("a template for -o", () => {
  test("names each of several videos", async () => {
    const world = await createWorld();
    const ids = [await start(world, "a fox"), await start(world, "a fox")];
    const named = await world.vidgen("wait", ...ids, "-o", join(world.folder, "{slug}-{id}.mp4"));
    expect(named.code).toBe(0);
    expect(readdirSync(world.folder).sort()).toEqual(ids.map((id) => `a-fox-${id}.mp4`).sort());
    const numbered = await world.vidgen("wait", ...ids, "-o", join(world.folder, "{n}.mp4"));
    expect(numbered.code).toBe(0);
    expect(readdirSync(world.folder)).toEqual(expect.arrayContaining(["1.mp4", "2.mp4"]));
  });

  test.each(["fox.mp4", "{slug}.mp4", "{date}-{model}.mp4"])("%s would name one file twice", async (name) => {
    const world = await createWorld();
    const ids = [await start(world, "a fox"), await start(world, "an owl")];
    const sent = world.requests.length;
    const run = await world.vidgen("wait", ...ids, "-o", join(world.folder, name));
    expect(run).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("distinct names") });
    expect([world.requests.length, readdirSync(world.folder)]).toEqual([sent, []]);
  });

  test("two ids that differ only in what no name can have do not share a file", async () => {
    const world = await createWorld();
    world.faults.push((request) => {
      const id = new URL(request.url).searchParams.get("id");
      const found = { id, status: "completed", video_url: `${mediaUrl}/${encodeURIComponent(id ?? "")}.mp4` };
      if (request.url.startsWith(mediaUrl)) return new Response(tinyMp4(request.url));
      return Response.json(found);
    });
    const run = await world.vidgen("wait", "a/b", "ab", "-o", join(world.folder, "{id}.mp4"));
    expect(run).toMatchObject({ code: 0, stderr: /id "a\/b" cannot be a file name/ });
    const files = readdirSync(world.folder);
    expect([files.length, files.includes("ab.mp4")]).toEqual([2, true]);
    const whole = ["a%2Fb", "ab"].map((id) => Buffer.from(tinyMp4(`${mediaUrl}/${id}.mp4`)));
    expect(readFileSync(join(world.folder, "ab.mp4"))).toEqual(whole[1]);
    expect(files.map((name) => readFileSync(join(world.folder, name)))).toContainEqual(whole[0]);
  });

  test("wait --all finds the videos that are already saved under this name", async () => {
    const world = await createWorld();
    const place = join(world.folder, "{slug}-{id}.mp4");
    await world.vidgen("generate", "a fox", "-o", place);
    const journal = join(world.home, "journal.jsonl");
    writeFileSync(journal, readFileSync(journal, "utf8").replace(/.*"kind":"delivered".*\n/, ""));
    const sent = world.requests.length;
    expect(await world.vidgen("wait", "--all", "-o", place)).toMatchObject({ code: 0 });
    expect([readdirSync(world.folder), world.requests.length]).toEqual([[expect.stringMatching(/^a-fox-/)], sent]);
  });
});
