import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import * as z from "zod";
import { createReporter } from "../../src/cli/terminal/reporter.ts";
import { createWorld, failure, isStart, mediaUrl, onStart, type Run, type World } from "../vidgen.ts";

type Fields = { event: string; error?: Fields | null; [field: string]: unknown };

const uuid = /^[0-9a-f-]{36}$/;
const counts = { total: 0, done: 0, running: 0, failed: 0, refused: 0, unsent: 0, unknown: 0 };

/** The events of a run; checks what is true of each of them. */
async function readEvents({ stdout, code }: Run, world: World): Promise<Fields[]> {
  const { commands } = JSON.parse((await world.vidgen("help", "--json")).stdout);
  const schema = commands.find(({ name }: { name: string }) => name === "wait").events;
  const document = JSON.parse((await world.vidgen("help", "output", "--json")).stdout);
  const events: Fields[] = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  for (const event of events) {
    expect([event, z.fromJSONSchema(schema).safeParse(event).error]).toEqual([event, undefined]);
    const kind = schema.anyOf.find(({ properties }: Fields & { properties: Fields }) => {
      return (properties.event as unknown as { const: string }).const === event.event;
    });
    expect(Object.keys(kind.properties)).toEqual(expect.arrayContaining(Object.keys(event)));
    const told = document.events[event.event];
    for (const field of Object.keys(event).slice(2)) expect(told).toMatch(new RegExp(`\\b${field}\\b`));
  }
  expect(events.map(({ event }) => event).indexOf("summary")).toBe(events.length - 1);
  expect(events.at(-1)).toMatchObject({ exit_code: code });
  expect(events.filter(({ event }) => event === "error")).toHaveLength(code === 0 ? 0 : 1);
  return events;
}

/** The names of the events, and with a state or an end its status. */
function names(events: Fields[]): string[] {
  return events.map(({ event, status }) => (status === undefined ? event : `${event} ${status}`));
}

const followed = ["started", "state processing", "state completed"];
const fox = ["generate", "a fox", "--events"];
const pressWhilePolled = (request: Request, world: World) => void (request.method === "GET" && world.press("Ctrl-C"));
const refuseToConnect = (request: Request) => {
  if (isStart(request)) throw failure("ECONNREFUSED", false);
  return undefined;
};

test.each<[string, { argv: string[]; fault?: World["faults"][number]; code: number; said: string[]; count: object }]>([
  [
    "a video that is saved",
    {
      argv: [...fox, "-o", "fox.mp4"],
      code: 0,
      count: { done: 1 },
      said: [...followed, "progress", "saved", "ended completed"],
    },
  ],
  ["a video that is not saved", { argv: fox, code: 0, said: [...followed, "ended completed"], count: { done: 1 } }],
  ["--no-wait", { argv: [...fox, "--no-wait"], code: 0, said: ["started"], count: { running: 1 } }],
  [
    "a generation that fails",
    {
      argv: ["generate", "[fail]", "--events"],
      code: 4,
      count: { failed: 1 },
      said: ["started", "ended failed", "error"],
    },
  ],
  [
    "a wait that is too short",
    {
      argv: [...fox, "--timeout", "15s"],
      code: 5,
      count: { running: 1 },
      said: ["started", "state processing", "ended processing", "error"],
    },
  ],
  [
    "Ctrl-C",
    {
      argv: fox,
      code: 130,
      count: { running: 1 },
      fault: pressWhilePolled,
      said: ["started", "ended processing", "error"],
    },
  ],
  [
    "Ctrl-C after the service has said that it takes no more",
    {
      argv: fox,
      code: 130,
      count: { refused: 1 },
      said: ["ended refused", "error"],
      fault(request, world) {
        if (!isStart(request)) return undefined;
        world.press("Ctrl-C");
        return new Response("{}", { status: 429 });
      },
    },
  ],
  [
    "an unknown outcome",
    {
      argv: fox,
      code: 6,
      count: { unknown: 1 },
      fault: onStart(() => new Response("", { status: 502 })),
      said: ["ended unknown", "error"],
    },
  ],
  [
    "a start that is refused",
    {
      argv: ["generate", "[credits: 0]", "--events"],
      code: 7,
      said: ["ended refused", "error"],
      count: { refused: 1 },
    },
  ],
  [
    "a service that cannot be reached",
    { argv: fox, fault: refuseToConnect, code: 8, said: ["ended unsent", "error"], count: { unsent: 1 } },
  ],
  ["a file that exists", { argv: [...fox, "-o", "exists.mp4"], code: 9, said: ["error"], count: {} }],
  ["a flag that does not exist", { argv: [...fox, "--nope"], code: 2, said: ["error"], count: {} }],
  ["--events with -o -", { argv: [...fox, "-o", "-"], code: 2, said: ["error"], count: {} }],
  ["--events with --json", { argv: [...fox, "--json"], code: 2, said: ["error"], count: {} }],
  ["--events with --dry-run", { argv: [...fox, "--dry-run"], code: 2, said: ["error"], count: {} }],
  ["a command without events", { argv: ["models", "--events"], code: 2, said: ["error"], count: {} }],
])("the events of %s, and a summary", async (_, { argv, fault, code, said, count }) => {
  const world = await createWorld();
  writeFileSync(join(world.folder, "exists.mp4"), "");
  if (fault) world.faults.push(fault);
  const run = await world.vidgen(...argv.map((word) => (word.endsWith(".mp4") ? join(world.folder, word) : word)));
  world.faults.length = 0;
  const events = await readEvents(run, world);
  expect([run.code, names(events)]).toEqual([code, [...said, "summary"]]);
  const total = Object.values(count).length;
  expect(events.at(-1)).toMatchObject({ ...counts, ...count, total });
});

test("each event says what it knows", async () => {
  const world = await createWorld();
  const file = join(world.folder, "fox.mp4");
  const run = await world.vidgen("generate", "a fox", "--events", "-o", file, "-m", "ray-3");
  const [started, , state, progress, saved, ended] = await readEvents(run, world);
  const id = started?.id;
  const start = { event: "started", at: "2026-01-01T00:00:00.000Z", model: "ray-3", resumed: false };
  expect(started).toMatchObject({ ...start, id: expect.stringMatching(uuid), attempt: expect.stringMatching(uuid) });
  expect(started).toHaveProperty("remaining_credits");
  expect(state).toMatchObject({ id, status: "completed" });
  expect(progress).toMatchObject({ id, received: progress?.total });
  expect(saved).toMatchObject({ id, file });
  expect(ended).toMatchObject({ id, file, video_url: `${mediaUrl}/${id}.mp4`, error: null });
  expect(new Date(String(ended?.at)).getTime()).toBeGreaterThan(Date.UTC(2026, 0, 1) + 30_000);
  expect(run.stderr).toContain(`Started ${id}`);
});

test("the schema refuses an event without one of its fields, and an unknown one", async () => {
  const world = await createWorld();
  const run = await world.vidgen("generate", "[fail]", "--events");
  const schema = z.fromJSONSchema(JSON.parse((await world.vidgen("help", "generate", "--json")).stdout).events);
  const optional = ["attempt", "model", "credits", "remaining_credits"];
  for (const event of await readEvents(run, world)) {
    for (const field of Object.keys(event).filter((name) => !optional.includes(name))) {
      const { [field]: _, ...rest } = event;
      expect([field, schema.safeParse(rest).success]).toEqual([field, false]);
    }
    expect(schema.safeParse({ ...event, event: "other" }).success).toBe(false);
  }
});

test("an error has the fields of --json, and stderr says the same to a person", async () => {
  const world = await createWorld();
  const run = await world.vidgen("generate", "[fail]", "--events");
  const [, ended, error] = await readEvents(run, world);
  const id = ended?.id;
  expect(error?.error).toMatchObject({ code: "failed", id, http_status: null });
  expect(ended?.error).toEqual(error?.error);
  expect(run.stderr).toContain(`error: ${error?.error?.message}\n`);
  const json = JSON.parse((await world.vidgen("wait", String(id), "--json")).stderr);
  expect(Object.keys(error?.error ?? {})).toEqual(Object.keys(json.error));
});

test("a run that is resumed, and one whose video is saved already", async () => {
  const world = await createWorld();
  const argv = [...fox, "--reuse", "-o", join(world.folder, "fox.mp4")];
  world.faults = [pressWhilePolled];
  const [first] = await readEvents(await world.vidgen(...argv), world);
  world.faults = [];
  world.reboot();
  const [id, attempt] = [first?.id, first?.attempt];
  const resumed = await readEvents(await world.vidgen(...argv), world);
  expect(resumed[0]).toMatchObject({ event: "started", id, attempt, resumed: true });
  expect(names(resumed).at(-2)).toBe("ended completed");
  const again = await readEvents(await world.vidgen(...argv), world);
  expect(names(again)).toEqual(["started", "ended completed", "summary"]);
  expect(again[1]).toMatchObject({ id, file: argv.at(-1), video_url: null, error: null });
  expect(again[2]).toMatchObject({ total: 1, done: 1 });
});

test("wait tells of each of several generations, and starts none", async () => {
  const world = await createWorld();
  const start = async (prompt: string) => (await world.vidgen("generate", prompt, "--no-wait")).stdout.trim();
  const unknownId = "123e4567-e89b-12d3-a456-426614174000";
  const [one, two] = [await start("one"), await start("two")];
  const folder = join(world.folder, "clips/");
  const events = await readEvents(await world.vidgen("wait", one, two, "-o", folder, "--events"), world);
  const of = (id: string) => names(events.filter((event) => event.id === id));
  const all = ["state processing", "state completed", "progress", "saved", "ended completed"];
  expect([of(one), of(two)]).toEqual([all, all]);
  expect(events.at(-1)).toMatchObject({ total: 2, done: 2 });
  const failing = await start("[fail]");
  const run = await world.vidgen("wait", one, failing, unknownId, "-o", folder, "--events");
  const lines: Fields[] = run.stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const ends = lines.filter(({ event }) => event === "ended");
  expect(ends.find(({ id }) => id === one)).toMatchObject({ status: "completed", error: null });
  expect(lines.some(({ event }) => event === "saved" || event === "started")).toBe(false);
  expect(ends.find(({ id }) => id === failing)).toMatchObject({ status: "failed", error: { code: "failed" } });
  expect(ends.find(({ id }) => id === unknownId)).toMatchObject({ status: "lost", error: { code: "not_found" } });
  expect(lines.at(-1)).toMatchObject({ exit_code: 10, total: 3, done: 1, failed: 1, lost: 1 });
});

test.each([
  ["that fails", "[fail]", {}, "failed", "failed"],
  ["whose service has no key here", "a fox", { VIDGEN_API_KEY: undefined }, "processing", "auth"],
])("wait tells the end of one %s", async (_, prompt, env, status, reason) => {
  const world = await createWorld();
  const id = (await world.vidgen("generate", prompt, "--no-wait")).stdout.trim();
  Object.assign(world.env, env);
  const events = await readEvents(await world.vidgen("wait", id, "--events"), world);
  expect(names(events)).toEqual([`ended ${status}`, "error", "summary"]);
  expect(events[0]).toMatchObject({ id, error: { code: reason, id } });
});

test("a video that cannot be saved is completed, with the reason", async () => {
  const world = await createWorld();
  world.faults.push((request) => (request.url.startsWith(mediaUrl) ? new Response("", { status: 418 }) : undefined));
  const run = await world.vidgen(...fox, "-o", join(world.folder, "fox.mp4"));
  world.faults.length = 0;
  const events = await readEvents(run, world);
  expect(events.at(-3)).toMatchObject({ status: "completed", file: null, error: { code: "output" } });
  expect(events.at(-1)).toMatchObject({ exit_code: 9, total: 1, running: 1, done: 0 });
});

test.each([
  [true, null],
  [false, `${mediaUrl}/1b4e.mp4`],
])("with the local service inside the command (%s) the end has the URL %s", (isInProcess, video_url) => {
  const told: object[] = [];
  const reporter = createReporter(() => {}, { event: (event) => told.push(event) }, { now: () => 0 });
  const videoUrl = `${mediaUrl}/1b4e.mp4`;
  const durableUrl = isInProcess ? undefined : videoUrl;
  const result = { document: {}, file: undefined, videoUrl, durableUrl, isNew: true };
  reporter.ended("1b4e", result);
  expect(told).toEqual([expect.objectContaining({ event: "ended", video_url })]);
});

test("the JSON Schema of a batch's summary has each of its fields", async () => {
  const world = await createWorld();
  const shots = join(world.folder, "shots.txt");
  writeFileSync(shots, "a fox\n");
  const { stdout } = await world.vidgen("batch", shots, "--events");
  const summary: Fields = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
  const { commands } = JSON.parse((await world.vidgen("help", "--json")).stdout);
  const { events } = commands.find(({ name }: { name: string }) => name === "batch");
  const schema = events.anyOf.find((each: { properties: { event: { const: string } } }) => {
    return each.properties.event.const === "summary";
  });
  expect(Object.keys(schema.properties)).toEqual(expect.arrayContaining(Object.keys(summary)));
});

test("help with --events goes to stderr", async () => {
  const world = await createWorld();
  const run = await world.vidgen("generate", "--help", "--events");
  expect(names(await readEvents(run, world))).toEqual(["summary"]);
  expect(run.stderr).toContain("Usage: vidgen generate");
});

test("at a terminal progress is lines, as elsewhere", async () => {
  const world = await createWorld();
  world.isTerminal = true;
  const run = await world.vidgen(...fox);
  expect(run.stderr).toMatch(/^Started .*\n?.*\)\.\nGenerating .*\n/);
  expect(run.stderr).not.toContain("\u001b");
});

test.each([
  ["generate", "a fox"],
  ["generate", "a fox", "-n", "2", "--no-wait"],
  ["batch", "shots.txt"],
])("the service's warnings are printed once, and are in the JSON: %s %s", async (...line) => {
  const world = await createWorld();
  const [first] = line;
  const words = line.map((word) => (word === "shots.txt" ? join(world.folder, word) : word));
  writeFileSync(join(world.folder, "shots.txt"), "a fox\nan owl\n");
  const warnings = ["Previews do not show mood.", "imageUrl is null: the video is made without it."];
  world.faults.push(async (request) =>
    isStart(request) ? Response.json({ ...((await world.start(request)) as object), warnings }) : undefined,
  );
  const run = await world.vidgen(...words, "--events");
  expect(run.code).toBe(0);
  for (const warning of warnings) expect(run.stderr.split(warning)).toHaveLength(2);
  const events = run.stdout
    .trim()
    .split("\n")
    .map((text) => JSON.parse(text));
  for (const event of events) if (event.event === "started") expect(event.warnings).toEqual(warnings);
  if (first === "batch") return;
  const json = JSON.parse((await world.vidgen(...words, "--again", "--json")).stdout);
  for (const document of [json].flat()) expect(document.warnings).toEqual(warnings);
});
