import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { afterEach, expect, test } from "vitest";
import { sameLine } from "../../src/cli/next.ts";
import type { ErrorFields } from "../../src/client/generation/events.ts";
import { tinyMp4 } from "../mp4.ts";
import { createWorld, failure, goneReply, isStart, kill, mediaUrl, onStart, type Run, type World } from "../vidgen.ts";

// What a program is told to run after an error is run here, as it is.

const home = process.cwd();
afterEach(() => process.chdir(home));

const unknownId = "123e4567-e89b-12d3-a456-426614174000";
const refuse = (status: number) => onStart(() => Response.json({ error: "no" }, { status }));
const unanswered = onStart(() => new Response("", { status: 502 }));

async function open(): Promise<World> {
  const world = await createWorld({ renderMs: 15_000 });
  process.chdir(world.folder);
  return world;
}

function errorOf({ stderr }: Run): ErrorFields {
  return JSON.parse(stderr).error;
}

const countStarts = (world: World) => world.requests.filter(isStart).length;

/** Runs what an error names, in a new process. Only what says so may have started a generation. */
async function runNext(world: World, { next = [] }: ErrorFields): Promise<Run> {
  const [command] = next;
  if (next.length !== 1 || command === undefined) throw new Error(`one command was expected: ${JSON.stringify(next)}`);
  const { argv, pays } = command;
  expect(argv[0]).toBe("vidgen");
  for (const word of ["--again", "--dismiss"]) expect(argv).not.toContain(word);
  const before = countStarts(world);
  const run = await world.reboot().vidgen(...argv.slice(1));
  if (!pays) expect(countStarts(world)).toBe(before);
  return run;
}

test.each<[string, string[], World["faults"], Partial<ErrorFields>]>([
  ["usage", ["generate", "a fox", "--bogus"], [], { code: "usage", charged: "no", attempt: null }],
  ["a target that exists", ["generate", "a fox", "-o", "here.mp4"], [], { code: "output", charged: "no" }],
  ["a start that was refused", ["generate", "a fox"], [refuse(400)], { code: "rejected" }],
  ["a key that was refused", ["generate", "a fox"], [refuse(401)], { code: "auth" }],
  ["too few credits", ["generate", "a fox"], [refuse(402)], { code: "credits" }],
  ["a generation that failed", ["generate", "[fail] a fox"], [], { code: "failed", charged: "yes" }],
])("%s: there is nothing to run", async (_, argv, faults, expected) => {
  const world = await open();
  world.faults = faults;
  writeFileSync("here.mp4", "a video");
  const error = errorOf(await world.vidgen(...argv, "--json"));
  expect(error).toMatchObject({ ...expected, next: [] });
  expect(error.charged).toBe(expected.charged);
  const isWritten = !["usage", "output"].includes(error.code);
  expect(error.attempt !== null).toBe(isWritten);
});

test("no key: nothing was sent", async () => {
  const world = await open();
  world.env.VIDGEN_API_KEY = "";
  expect(errorOf(await world.vidgen("generate", "a fox", "--json"))).toMatchObject({ charged: "no", next: [] });
});

test("a service that cannot be reached: the same line, which pays", async () => {
  const world = await open();
  world.faults = [onStart(() => Promise.reject(failure("ECONNREFUSED", false)) as never)];
  const line = ["generate", "a fox, it's red", "-o", "fox.mp4", "--json"];
  const error = errorOf(await world.vidgen(...line));
  expect(error).toMatchObject({ code: "network", charged: "no", next: [{ argv: ["vidgen", ...line], pays: true }] });
  world.faults = [];
  const before = countStarts(world);
  expect(await runNext(world, error)).toMatchObject({ code: 0 });
  expect([countStarts(world) - before, existsSync("fox.mp4")]).toEqual([1, true]);
  // What --again does is for a person to decide.
  world.faults = [onStart(() => Promise.reject(failure("ECONNREFUSED", false)) as never)];
  expect(errorOf(await world.vidgen("generate", "a fox", "--again", "--json"))).toMatchObject({ next: [] });
});

test("an interrupted line with --again: without it once an attempt is recorded, which --again would pay for again; before that, as typed", async () => {
  const line = ["generate", "a fox", "--again", "--json"];
  const without = ["vidgen", "generate", "a fox", "--json"];
  const world = await open();
  // While the request is retried, no byte of which was sent.
  world.faults = [
    onStart(() => {
      world.press("Ctrl-C");
      throw failure("ECONNREFUSED", false);
    }),
  ];
  const error = errorOf(await world.vidgen(...line));
  expect(error).toMatchObject({
    code: "interrupted",
    attempt: expect.any(String),
    next: [{ argv: without, pays: true }],
  });
  // Of several, one is made and one is not.
  let starts = 0;
  world.reboot();
  world.faults = [(request) => (isStart(request) && ++starts > 1 ? refuse(402)(request, world) : undefined)];
  const several = errorOf(await world.vidgen(...line, "-n", "2"));
  expect(several).toMatchObject({ next: [{ argv: [...without, "-n", "2"], pays: true }] });
  expect(several.hint).toContain("the same command without --again");
  world.faults = [];
  const before = countStarts(world);
  expect(await runNext(world, several)).toMatchObject({ code: 0 });
  expect(countStarts(world)).toBe(before + 1);
  const typed = { argv: line, command: "generate" };
  expect(sameLine(typed, { hasIntent: false })).toEqual([{ argv: ["vidgen", ...line], pays: true }]);
  const quoted = { ...typed, argv: ["generate", "--again", "--", "--again"] };
  expect(sameLine(quoted, { hasIntent: true })).toMatchObject([{ argv: ["vidgen", "generate", "--", "--again"] }]);
});

test("no usable answer: the list, which shows the attempt; so does the same line", async () => {
  const world = await open();
  world.faults = [unanswered];
  for (const _ of ["sent", "typed again"]) {
    const error = errorOf(await world.vidgen("generate", "a fox", "-o", "fox.mp4", "--json"));
    expect(error).toMatchObject({ code: "unknown", id: null, charged: "maybe", attempt: expect.any(String) });
    expect((await runNext(world, error)).stdout).toContain("a fox");
  }
  expect(countStarts(world)).toBe(1);
});

test("no usable answer, but an id: wait", async () => {
  const world = await open();
  world.faults = [
    async (request) => (isStart(request) ? Response.json(await world.start(request), { status: 502 }) : undefined),
  ];
  const line = ["generate", "a fox", "-o", "fox.mp4", "--timeout", "2m", "--json"];
  for (const _ of ["sent", "typed again"]) {
    const error = errorOf(await world.vidgen(...line));
    expect(error).toMatchObject({ code: "unknown", charged: "maybe", attempt: expect.any(String) });
    const argv = ["vidgen", "wait", error.id, "-o", "fox.mp4"];
    expect(error.next).toEqual([{ argv, pays: false }]);
    if (_ === "typed again") expect(await runNext(world, error)).toMatchObject({ code: 0 });
  }
  expect(existsSync("fox.mp4")).toBe(true);
});

test.each([
  [["generate", "a fox", "--timeout", "10s", "-o", "fox.mp4"]],
  [["generate", "a fox", "--timeout", "10s", "-o", "fox.mp4", "--reuse"]],
  [["again", "last", "--timeout", "10s", "-o", "fox.mp4"]],
])("a time to wait that is over, %j: wait with the same -o, until it is there", async (line) => {
  const world = await open();
  await world.vidgen("generate", "an owl", "--no-wait");
  const before = countStarts(world);
  for (const how of ["sent", "typed again"]) {
    const error = errorOf(await world.vidgen(...line, "--json"));
    expect(error).toMatchObject({ code: "pending", charged: "yes", attempt: expect.any(String) });
    const argv = ["vidgen", "wait", error.id, "-o", "fox.mp4"];
    expect(error.next).toEqual([{ argv, pays: false }]);
    expect(error.hint).toContain(argv.join(" "));
    if (how === "typed again") expect(await runNext(world, error)).toMatchObject({ code: 0 });
  }
  expect([existsSync("fox.mp4"), countStarts(world)]).toEqual([true, before + 1]);
});

test("wait, status and events say the same", async () => {
  const world = await open();
  const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
  const waited = errorOf(await world.vidgen("wait", id, "-o", "fox.mp4", "--timeout", "5s", "--json"));
  const argv = ["vidgen", "wait", id, "-o", "fox.mp4"];
  expect(waited).toMatchObject({ charged: "yes", next: [{ argv, pays: false }] });
  const events = (await world.vidgen("wait", id, "--timeout", "5s", "--events")).stdout.trim().split("\n");
  const errors = events.map((line) => JSON.parse(line)).filter(({ error }) => error);
  expect(errors.map(({ event, error }) => [event, error.charged, error.next[0].argv])).toEqual(
    ["ended", "error"].map((event) => [event, "yes", ["vidgen", "wait", id]]),
  );
  const looked = errorOf(await world.vidgen("status", id, "--exit-status", "--json"));
  expect(looked).toMatchObject({
    code: "pending",
    charged: "yes",
    next: [{ argv: ["vidgen", "wait", id], pays: false }],
  });
  expect(await runNext(world, looked)).toMatchObject({ code: 0 });
});

test("a generation that costs nothing was not charged", async () => {
  const world = await open();
  world.faults = [
    async (request) =>
      isStart(request) ? Response.json({ ...(await world.start(request)), credits_charged: 0 }) : undefined,
  ];
  const error = errorOf(await world.vidgen("generate", "a fox", "--timeout", "5s", "--json"));
  expect(error).toMatchObject({ code: "pending", charged: "no" });
});

test("a video that cannot be downloaded: wait", async () => {
  const world = await open();
  world.faults = [({ url }) => (url.startsWith(mediaUrl) ? new Response("", { status: 418 }) : undefined)];
  const error = errorOf(await world.vidgen("generate", "a fox", "-o", "fox.mp4", "--json"));
  expect(error).toMatchObject({ code: "output", charged: "yes", attempt: expect.any(String) });
  world.faults = [];
  expect(await runNext(world, error)).toMatchObject({ code: 0, stdout: "fox.mp4\n" });
});

test("an id that nobody knows: the list", async () => {
  const world = await open();
  await world.vidgen("generate", "a fox", "--no-wait");
  const error = errorOf(await world.vidgen("wait", unknownId, "--json"));
  expect(error).toMatchObject({ code: "not_found", attempt: null });
  expect(error).not.toHaveProperty("charged");
  expect((await runNext(world, error)).stdout).toContain("a fox");
});

test("a lost generation: wait asks for it again; so does the same line", async () => {
  const world = await open();
  world.faults = [({ url }) => (url.includes("generation-status") ? goneReply() : undefined)];
  const line = ["generate", "a fox", "-o", "fox.mp4", "--json"];
  for (const _ of ["sent", "typed again"]) {
    const error = errorOf(await world.vidgen(...line));
    expect(error).toMatchObject({ code: "not_found", charged: "yes", attempt: expect.any(String) });
    expect(await runNext(world, error)).toMatchObject({ code: 10 });
  }
  world.faults = [];
  const found = errorOf(await world.vidgen(...line));
  expect(await runNext(world, found)).toMatchObject({ code: 0, stdout: "fox.mp4\n" });
});

test("Ctrl-C before the request: the same line, which pays; after it: wait", async () => {
  const world = await open();
  world.faults = [
    onStart(() => {
      world.press("Ctrl-C");
      return Promise.reject(failure("ECONNREFUSED", false)) as never;
    }),
  ];
  const line = ["generate", "a fox", "-o", "fox.mp4", "--json"];
  const early = errorOf(await world.vidgen(...line));
  expect(early).toMatchObject({
    code: "interrupted",
    charged: "no",
    next: [{ argv: ["vidgen", ...line], pays: true }],
  });
  world.faults = [({ url }) => void (url.includes("generation-status") && world.press("Ctrl-C"))];
  const before = countStarts(world);
  const run = await runNext(world, early);
  expect([run.code, countStarts(world)]).toEqual([130, before + 1]);
  world.faults = [];
  expect(await runNext(world, errorOf(run))).toMatchObject({ code: 0, stdout: "fox.mp4\n" });
});

test("several of one line: each has its wait, and the line itself is typed again", async () => {
  const world = await open();
  const line = ["generate", "a fox", "-n", "2", "-o", "clips/", "--timeout", "10s", "--json"];
  const run = await world.vidgen(...line);
  const error = errorOf(run);
  expect(error).toMatchObject({ code: "pending", charged: "yes", next: [{ argv: ["vidgen", ...line], pays: true }] });
  const documents: { id: string; error: ErrorFields }[] = JSON.parse(run.stdout);
  for (const { id, error } of documents) expect(error.next?.[0]?.argv.slice(1, 3)).toEqual(["wait", id]);
  const ids = documents.map(({ id }) => id);
  const waited = errorOf(await world.vidgen("wait", ...ids, "-o", "more/", "--timeout", "1s", "--json"));
  const argv = ["vidgen", "wait", ...ids, "-o", "more/"];
  expect(waited.next).toEqual([{ argv, pays: false }]);
  let done = await runNext(world, error);
  while (done.code === 5) done = await runNext(world, error);
  expect([done.code, countStarts(world)]).toEqual([0, 2]);
});

test("a batch: the same line, which pays; its rows name no command", async () => {
  const world = await open();
  writeFileSync("shots.txt", "a fox\n-- a bear\n");
  const run = await world.vidgen("batch", "shots.txt", "-o", "clips/{n}.mp4", "--timeout", "10s", "--json");
  const error = errorOf(run);
  expect(error).toMatchObject({ code: "pending", charged: "yes", next: [{ pays: true }] });
  const { generations } = JSON.parse(run.stdout);
  expect(generations.map((row: { error: ErrorFields }) => [row.error.charged, "next" in row.error])).toEqual([
    ["yes", false],
    ["yes", false],
  ]);
  let done = await runNext(world, error);
  while (done.code === 5) done = await runNext(world, error);
  expect([done.code, countStarts(world), existsSync(join("clips", "2.mp4"))]).toEqual([0, 2, true]);
});

/** The command that a hint names in backticks. */
const hinted = ({ hint }: ErrorFields) => (/`(vidgen wait [^`]*)`/.exec(hint ?? "") ?? [])[1];

test("a refusal names in its hint the same command as for a program, with its flags", async () => {
  const world = await open();
  writeFileSync("vidgen.json", JSON.stringify({ model: "veo-3.1" }));
  const line = ["generate", "a fox", "-o", "fox.mp4", "--overwrite", "--json"];
  await kill(world, ({ url }) => url.includes("generation-status"), ...line);
  writeFileSync("vidgen.json", JSON.stringify({ model: "sora-2" }));
  const error = errorOf(await world.vidgen(...line));
  expect(error).toMatchObject({ code: "usage", id: expect.any(String), next: [{ pays: false }] });
  expect(error.next?.[0]?.argv.join(" ")).toBe(`vidgen wait ${error.id} -o fox.mp4 --overwrite`);
  expect(hinted(error)).toBe(error.next?.[0]?.argv.join(" "));
  expect(await runNext(world, error)).toMatchObject({ code: 0, stdout: "fox.mp4\n" });
});

test("a video without an address that can be printed: the hint and the command save it", async () => {
  const world = await open();
  const bytes = Buffer.from(tinyMp4("a fox")).toString("base64");
  world.faults = [
    ({ url }) => {
      const id = new URL(url).searchParams.get("id");
      const video_url = `data:video/mp4;base64,${bytes}`;
      return url.includes("generation-status") && id
        ? Response.json({ id, status: "completed", video_url })
        : undefined;
    },
  ];
  const run = await world.vidgen("generate", "a fox", "--json");
  const error = errorOf(run);
  expect(error).toMatchObject({ code: "output" });
  expect(hinted(error)).toBe(error.next?.[0]?.argv.join(" "));
  expect(error.hint).not.toContain("Resume with");
  expect(await runNext(world, error)).toMatchObject({ code: 0, stdout: "video.mp4\n" });
});

test("a resumed start whose file exists now: nothing to run, since the same -o would fail again", async () => {
  const world = await open();
  const line = ["generate", "a fox", "-o", "fox.mp4", "--json"];
  await kill(world, ({ url }) => url.includes("generation-status"), ...line);
  writeFileSync("fox.mp4", "something else");
  const error = errorOf(await world.vidgen(...line));
  expect(error).toMatchObject({ code: "output", charged: "yes", next: [] });
  expect(error.hint).toContain("-o <another name>");
  expect(error.hint).not.toContain("Resume with");
});

test("an id that begins with a dash comes after --", async () => {
  const world = await open();
  const id = "-x1";
  world.faults = [
    async (request) => {
      if (isStart(request)) {
        const started = (await world.start(request)) as { data: object };
        return Response.json({ ...started, data: { ...started.data, id } });
      }
      return request.url.includes("generation-status") ? Response.json({ id, status: "processing" }) : undefined;
    },
  ];
  const error = errorOf(await world.vidgen("generate", "a fox", "-o", "fox.mp4", "--timeout", "10s", "--json"));
  const argv = ["vidgen", "wait", "-o", "fox.mp4", "--", id];
  expect(error).toMatchObject({ id, next: [{ argv, pays: false }] });
  expect(await runNext(world, error)).toMatchObject({ code: 5 });
});

test("begins as the program was called, and shows no key", async () => {
  const world = await open();
  const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
  const look = async () => errorOf(await world.vidgen("wait", id, "--timeout", "1s", "--json")).next?.[0]?.argv;
  Object.assign(world.io, { program: ["node", "bin/vidgen.js"] });
  expect(await look()).toEqual(["node", "bin/vidgen.js", "wait", id]);
  world.env.npm_command = "exec";
  expect(await look()).toEqual(["npx", "vidgen", "wait", id]);
  world.faults = [onStart(() => Promise.reject(failure("ECONNREFUSED", false)) as never)];
  const run = await world.vidgen("generate", `a ${world.env.VIDGEN_API_KEY}`, "--json");
  expect(errorOf(run).next).toEqual([]);
});

test.each([
  ["batch status shots.csv.results.jsonl", "batch", false],
  ["batch shots.csv", "batch", true],
  ["generate -m batch status", "generate", true],
  ["generate fox --dry-run", "generate", false],
  ["generate -- --dry-run", "generate", true],
])("the line `%s` again can pay: %s %s", (line, command, pays) => {
  const argv = line.split(" ");
  expect(sameLine({ argv, command })).toEqual([{ argv: ["vidgen", ...argv], pays }]);
});
