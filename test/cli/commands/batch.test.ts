import { readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { lacks } from "../../needs.ts";
import { aPng } from "../../server/queue/pictures.ts";
import { makeSpecial, specialFiles } from "../../special.ts";
import {
  baseUrl,
  createWorld,
  failure,
  isStart,
  kill,
  mediaUrl,
  onStart,
  type Run,
  type World,
  type WorldOptions,
} from "../../vidgen.ts";

type Fields = { event: string; [field: string]: unknown };

/** A world with a CSV of these rows, and the command that saves each as its id. */
async function createBatch(
  rows = ["fox,a red fox", "owl,an owl", "hare,a hare"],
  header = "id,prompt",
  options: WorldOptions = {},
) {
  const world = await createWorld(options);
  const file = join(world.folder, "shots.csv");
  const results = `${file}.results.jsonl`;
  writeFileSync(file, [header, ...rows, ""].join("\n"));
  const place = join(world.folder, "clips/{id}.mp4");
  const clip = (id: string) => join(world.folder, `clips/${id}.mp4`);
  const batch = (...argv: string[]) => world.vidgen("batch", file, "-o", place, ...argv);
  return { world, file, results, place, clip, batch };
}

const starts = (world: World) => world.requests.filter(isStart).map(({ body }) => JSON.parse(body));
const lines = (text: string) => text.trimEnd().split("\n");

/** Ctrl-C at the first poll. */
const pressWhilePolled = (request: Request, world: World) =>
  void (request.url.includes("generation-status") && !world.io.signal.aborted && world.press("Ctrl-C"));

async function schemaOf(world: World, ...path: string[]) {
  const document = JSON.parse((await world.vidgen("help", "--json")).stdout);
  const find = (tree: { commands: { name: string }[] }, name: string) =>
    tree.commands.find((each) => each.name === name);
  return path.reduce((tree, name) => find(tree, name) as never, document);
}

test("the issue's lines: the plan, a path a row on stdout, a line a row on stderr; again nothing is paid", async () => {
  const { world, results, clip, batch } = await createBatch();
  const run = await batch("--jobs", "4", "--max-credits", "2000");
  expect([run.code, lines(run.stdout).sort()]).toEqual([0, ["fox", "hare", "owl"].map(clip)]);
  expect(lines(run.stderr)).toEqual([
    `3 rows: 3 to start (${results})`,
    "  wan-2.5: 3 to start, about 30 credits",
    "Cost: about 30 credits.",
    `[1/3] line 2, fox: ${clip("fox")}`,
    `[2/3] line 3, owl: ${clip("owl")}`,
    `[3/3] line 4, hare: ${clip("hare")}`,
    `3 of 3 done, 970 credits left; ${results}`,
  ]);
  const again = await batch();
  expect([again.code, again.stdout, starts(world)]).toEqual([0, "", [{}, {}, {}].map(() => expect.anything())]);
  expect(again.stderr).toContain("3 rows: 3 done, 0 to start");
});

test("--dry-run prints the plan with what is known of the cost, sends nothing and writes nothing", async () => {
  const { world, results, batch } = await createBatch();
  await world.vidgen("generate", "a bear", "--no-wait");
  await world.vidgen("generate", "a bear cub", "--no-wait");
  const sent = starts(world).length;
  const run = await batch("--dry-run", "-m", "wan-2.5");
  expect(run).toMatchObject({ code: 0, stderr: "" });
  expect(run.stdout).toBe(
    `3 rows: 3 to start (${results})\n  wan-2.5: 3 to start, about 30 credits\nCost: about 30 credits; 980 credits left.\n`,
  );
  expect(JSON.parse((await batch("--dry-run", "--json")).stdout)).toEqual({
    rows: 3,
    done: 0,
    deleted: 0,
    running: 0,
    failed: 0,
    refused: 0,
    unknown: 0,
    lost: 0,
    blocked: 0,
    to_start: 3,
    results,
    models: [{ model: "wan-2.5", to_start: 3, credits_each: 10, credits: 30, cost: null, unpriced: 0 }],
    credits: 30,
    cost: null,
    unpriced: 0,
    remaining_credits: 980,
    chains: [],
    unused_columns: [],
  });
  expect([starts(world).length, readdirSync(world.folder)]).toEqual([sent, ["shots.csv"]]);
});

test.each([
  [
    ["--max-credits", "25"],
    "--max-credits 25 is not enough for all rows: the batch will stop after about 2 of 3 rows.",
  ],
  [
    ["--keep-credits", "965"],
    "The remaining credits, with --keep-credits 965, are not enough for all rows: the batch will stop after about 1 of 3 rows.",
  ],
  [["--max-credits", "30", "--keep-credits", "950"], ""],
])("the plan says that a budget is too small, where the cost is known: %j", async (argv, says) => {
  const { world, batch } = await createBatch();
  for (const prompt of ["a bear", "a bear cub"]) await world.vidgen("generate", prompt, "--no-wait");
  const plan = await batch("--dry-run", ...argv);
  expect(lines(plan.stdout).slice(3)).toEqual(says === "" ? [] : [says]);
  const run = await batch(...argv);
  expect([run.code, run.stderr.includes(says)]).toEqual([says === "" ? 0 : 7, true]);
  expect(starts(world)).toHaveLength(2 + Number(/about (\d)/.exec(says)?.[1] ?? 3));
});

test("the plan doubts what cannot be right, once for all rows with it, and the question has the cost", async () => {
  const { world, batch } = await createBatch(
    ["a,a fox,ray3,8", "b,an owl,ray3,8", "c,a hare,,0"],
    "id,prompt,model,set.duration",
  );
  const doubts = [
    'Line 2 and 1 more: Unknown model "ray3"; did you mean ray-3?',
    'Line 4: The duration "0" is not a length in seconds, such as 8.',
  ];
  expect(lines((await batch("--dry-run")).stderr)).toEqual(doubts);
  const { stderr } = await batch();
  expect(lines(stderr).slice(0, 2)).toEqual(doubts);
  expect(stderr).not.toContain("Sent as typed");
  for (const prompt of ["a bear", "a cub"]) await world.vidgen("generate", prompt, "--no-wait");
  world.isTerminal = true;
  world.answers = [["Start 1 generation for about 10 credits?", "\r"]];
  writeFileSync(join(world.folder, "more.txt"), "a bear\n");
  expect(await world.vidgen("batch", join(world.folder, "more.txt"))).toMatchObject({ code: 130 });
  expect(world.answers).toEqual([]);
});

test.each([
  [true, 1],
  [false, 2],
])("stdout and stderr in one file (%s): each video is named %d times", async (isOneStream, times) => {
  const { world, clip, batch } = await createBatch();
  world.isOneStream = isOneStream;
  const { stdout, stderr } = await batch();
  expect(lines(`${stdout}${stderr}`).filter((line) => line.includes(clip("owl")))).toHaveLength(times);
  expect(stdout).toContain(clip("owl"));
});

test.each([
  [[], /^\[[123]\/3\] line 3, owl: (.*)$/m],
  [["--quiet"], /^(.*owl\.mp4)$/m],
])("where stdout and stderr are one place, a row's line has its number: %j", async (argv, line) => {
  const { world, clip, batch } = await createBatch();
  world.isOneStream = true;
  const { stdout } = await batch(...argv);
  expect(line.exec(stdout)?.[1]).toBe(clip("owl"));
});

test("columns that nothing uses are named before anything is sent, and --ignore-columns hides that", async () => {
  const { world, batch } = await createBatch(["a,a fox,1280x720,rain"], "id,prompt,size,Negative Prompt");
  const note = "Nothing uses the columns size, Negative Prompt.";
  let before = "";
  world.faults = [
    () => {
      before ||= world.printed.stderr;
      return undefined;
    },
  ];
  expect(await batch("--dry-run")).toMatchObject({ code: 0, stderr: expect.stringContaining(note) });
  const plan = await batch("--dry-run", "--json");
  expect(JSON.parse(plan.stdout)).toMatchObject({ unused_columns: ["size", "Negative Prompt"] });
  expect(await batch("-y")).toMatchObject({ code: 0 });
  expect(before).toContain(note);
  const run = await batch("-y", "--json");
  expect(JSON.parse(run.stdout)).toMatchObject({ unused_columns: ["size", "Negative Prompt"] });
  const ignored = ["--ignore-columns", "size, negative-prompt", "--dry-run", "--json"];
  expect(JSON.parse((await batch(...ignored)).stdout)).toMatchObject({ unused_columns: [] });
});

test("a table of image-to-video is never paid for as text-to-video", async () => {
  const image = "https://images.example/fox.png";
  const { world, batch } = await createBatch([`a,a fox,${image}`], "id,prompt,start picture");
  for (const flags of [[], ["-y"], ["--json"], ["--dry-run"]])
    expect(await batch(...flags)).toMatchObject({ code: 2, stderr: expect.stringContaining("column start picture") });
  expect(world.requests).toEqual([]);
  expect(await batch("--ignore-columns", "start picture")).toMatchObject({ code: 0 });
  expect(starts(world)).toHaveLength(1);
});

test("a flag that has become another one, or that is cut short, is guessed", async () => {
  const { batch, world } = await createBatch();
  expect(await batch("--format", "csv")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("Unknown option '--format'. Did you mean --input-format?"),
  });
  for (const command of ["batch", "generate"])
    expect((await world.vidgen(command, "x", "--aspect", "1:1")).stderr).toContain("Did you mean --aspect-ratio?");
  expect((await batch("--credits", "5")).stderr).toContain("Did you mean --max-credits or --keep-credits?");
});

test("at most three lines tell what to do next", async () => {
  const rows = ["a,[http: 500]", "b,[fail]", "c,[http: 401]", "d,a fox"];
  const { batch } = await createBatch(rows);
  const { code, stderr } = await batch("--jobs", "1");
  const hints = stderr.slice(stderr.indexOf("error: ")).trimEnd().split("\n").slice(1);
  expect([code, hints]).toEqual([
    6,
    [/--retry-unknown$/, /./, /^ *Once that is fixed, continue with: .*vidgen batch/].map((line) =>
      expect.stringMatching(line),
    ),
  ]);
});

test.each<[string, string[], string | undefined, number, number]>([
  ["y", [], "y\r", 0, 1],
  ["Enter", [], "\r", 130, 0],
  ["nothing, with --yes", ["--yes"], undefined, 0, 1],
  ["nothing, with --no-input", ["--no-input"], undefined, 0, 1],
])("at a terminal it asks before it pays: %s", async (_, argv, keys, code, paid) => {
  const { world, batch } = await createBatch(["fox,a fox"]);
  world.isTerminal = true;
  if (keys !== undefined) world.answers = [["Start 1 generation for about 10 credits?", keys]];
  const run = await batch(...argv);
  expect([run.code, starts(world).length]).toEqual([code, paid]);
  expect(run.stderr.includes("Start 1 generation for about 10 credits?")).toBe(keys !== undefined);
});

test("--json: one document with the counts and how each row ended, as the schema of help says", async () => {
  const { world, results, clip, batch } = await createBatch(["fox,a fox", "bad,[fail: no foxes]"]);
  const run = await batch("--json", "--jobs", "1");
  const { result } = (await schemaOf(world, "batch")) as never as { result: never };
  const document = JSON.parse(run.stdout);
  expect(z.fromJSONSchema(result).safeParse(document).error).toBeUndefined();
  expect(document).toMatchObject({ total: 2, done: 1, failed: 1, to_start: 0, remaining_credits: 980, results });
  expect(document.generations).toEqual([
    expect.objectContaining({ row: "fox", line: 2, status: "completed", file: clip("fox"), error: null }),
    expect.objectContaining({ row: "bad", line: 3, status: "failed", file: null }),
  ]);
  const { error } = JSON.parse(run.stderr);
  expect([run.code, error.code, error.message]).toEqual([
    4,
    "failed",
    "1 of 2 rows done; 1 failed. 980 credits are left.",
  ]);
});

test("--events: each event has its row, and the summary the counts of a batch", async () => {
  const { world, clip, batch } = await createBatch(["fox,a fox", "bad,[fail: no foxes]"]);
  const run = await batch("--events", "--jobs", "1");
  const { events: schema } = (await schemaOf(world, "batch")) as never as { events: never };
  const events: Fields[] = lines(run.stdout).map((line) => JSON.parse(line));
  for (const event of events)
    expect([event, z.fromJSONSchema(schema).safeParse(event).error]).toEqual([event, undefined]);
  const told = events.map(({ event, row, status }) => [event, row, status].filter(Boolean).join(" "));
  expect(told).toEqual([
    ...["started fox", "state fox processing", "state fox completed", "progress fox", "saved fox"],
    ...["ended fox completed", "started bad", "ended bad failed", "error", "summary"],
  ]);
  expect(events.find(({ event }) => event === "saved")).toMatchObject({ line: 2, file: clip("fox") });
  const counts = { total: 2, done: 1, failed: 1, to_start: 0, remaining_credits: 980 };
  expect(events.at(-1)).toMatchObject({ exit_code: 4, ...counts });
});

const unclear: World["faults"][number] = (request) => {
  if (request.method !== "GET") return undefined;
  const id = new URL(request.url).searchParams.get("id");
  return Response.json({ id, status: "failed", error: "no reply", error_code: "unclear" });
};
const summaryOf = ({ stdout }: Run) => JSON.parse(lines(stdout).at(-1) ?? "");

test("a row that its engine calls unclear is not counted as running, nor as a start", async () => {
  const { world, batch } = await createBatch(["fox,a fox", "owl,an owl"]);
  world.faults.push(unclear);
  const run = await batch("--events", "--jobs", "1", "--max-credits", "10");
  expect(summaryOf(run)).toMatchObject({ total: 2, unknown: 1, running: 0, to_start: 1 });
});

test("a row that an earlier run started, and its engine calls unclear, is not counted as running", async () => {
  const { world, batch } = await createBatch(["fox,a fox", "owl,an owl"]);
  const first = await batch("--events", "--timeout", "1s");
  expect(summaryOf(first)).toMatchObject({ total: 2, running: 2, to_start: 0 });
  world.faults.push(unclear);
  expect(summaryOf(await batch("--events"))).toMatchObject({ total: 2, unknown: 2, running: 0, to_start: 0 });
});

const noMedia: World["faults"][number] = (request) =>
  request.url.startsWith(mediaUrl) ? new Response("", { status: 418 }) : undefined;
const refuseToConnect: World["faults"][number] = (request) => {
  if (isStart(request)) throw failure("ECONNREFUSED", false);
  return undefined;
};

const forget: World["faults"][number] = (request) =>
  request.method === "GET" && !request.url.startsWith(mediaUrl)
    ? Response.json({ error: "no such generation" }, { status: 404 })
    : undefined;

type Ending = { row: string; argv?: string[]; fault?: World["faults"][number]; code: number; says: string };

test.each<[string, Ending]>([
  ["an unknown row", { row: "[http: 500]", code: 6, says: "1 may have been charged" }],
  ["a key that is refused", { row: "[http: 401]", code: 3, says: "2 not started. The service rejected the API key" }],
  ["too few credits", { row: "[credits: 0]", code: 7, says: "2 not started. Not enough credits" }],
  [
    "a budget",
    { row: "a fox", argv: ["--max-credits", "15"], code: 7, says: "1 not started. 10 of at most 15 credits are spent" },
  ],
  [
    "a reserve",
    { row: "a fox", argv: ["--keep-credits", "990"], code: 7, says: "1 not started. 990 credits are left" },
  ],
  ["a lost row", { row: "a fox", fault: forget, code: 10, says: "2 lost" }],
  ["a failed row", { row: "[fail]", code: 4, says: "1 failed" }],
  ["a video that is not saved", { row: "a fox", fault: noMedia, code: 9, says: "2 running" }],
  ["no connection", { row: "a fox", fault: refuseToConnect, code: 8, says: "2 not started" }],
  ["a refused row", { row: "[http: 422]", code: 1, says: "1 failed" }],
  ["a wait that is too short", { row: "[slow: 90s]", argv: ["--timeout", "45s"], code: 5, says: "1 running" }],
  ["Ctrl-C", { row: "a fox", fault: pressWhilePolled, code: 130, says: "running" }],
])("%s decides the exit code, and is said", async (_, { row, argv = [], fault, code, says }) => {
  const { world, batch } = await createBatch([`one,${row}`, "two,an owl"]);
  if (fault) world.faults.push(fault);
  // So it is known what a row costs.
  if (argv.includes("--max-credits"))
    for (const prompt of ["a bear", "a cub"]) await world.vidgen("generate", prompt, "--no-wait");
  const run = await batch(...argv, "--jobs", "1");
  expect([run.code, run.stderr]).toEqual([code, expect.stringMatching(/^(error: )?\d of 2 rows done; /m)]);
  expect(run.stderr).toContain(says);
});

test("a lost row is left alone, and said so in the plan and by status, until --retry-unknown", async () => {
  const { world, results, batch } = await createBatch(["fox,a fox"]);
  world.faults = [forget];
  expect(await batch()).toMatchObject({ code: 10, stderr: expect.stringContaining("--retry-unknown") });
  world.faults = [];
  const again = await batch("--retry-failed");
  expect([again.code, again.stderr]).toEqual([
    10,
    expect.stringMatching(
      /1 row: 1 lost, 0 to start.*\n {2}line 2 was charged, and the service no longer knows it: generation/,
    ),
  ]);
  expect(again.stderr).not.toContain("may have been charged");
  const status = await world.vidgen("batch", "status", results);
  expect([status.code, status.stdout]).toEqual([10, expect.stringMatching(/1 lost, 0 missing\nline 2\tfox\tlost\t/)]);
  expect(await batch("--retry-unknown")).toMatchObject({ code: 0 });
  expect(starts(world)).toHaveLength(2);
});

type OpenBatch = Awaited<ReturnType<typeof createBatch>>;

/** Starts the row at the service, kills the process there, and removes the results file: the same batch then names another path of that service. */
const killThenMove = async ({ world, file, place, results }: OpenBatch, moment: (request: Request) => boolean) => {
  await kill(world, moment, "batch", file, "-o", place);
  rmSync(results);
  world.env.VIDGEN_BASE_URL = `${baseUrl}/v2`;
};
const isPoll = (request: Request) => request.method === "GET" && request.url.includes("generation-status?id=");
/** The start gets no usable answer, and no question about its key gets one. */
const loseAnswer = async ({ world, batch }: OpenBatch) => {
  world.faults = [onStart(() => new Response("", { status: 502 })), silence];
  expect((await batch()).code).toBe(6);
  world.faults = [];
};
const silence: World["faults"][number] = (request) => (isPoll(request) ? new Response("", { status: 502 }) : undefined);

test.each<[string, (opened: OpenBatch) => Promise<unknown>, string[], number, RegExp]>([
  ["unclear at another path", (opened) => killThenMove(opened, isStart), [], 6, /1 unknown, 0 to start/],
  [
    "running at another path",
    (opened) => killThenMove(opened, isPoll),
    [],
    2,
    new RegExp(`vidgen wait \\S+ --base-url ${baseUrl}\\b(?!/v2)`),
  ],
  [
    "lost at another path",
    async (opened) => {
      opened.world.faults = [forget];
      expect((await opened.batch()).code).toBe(10);
      rmSync(opened.results);
      opened.world.faults = [];
      opened.world.env.VIDGEN_BASE_URL = `${baseUrl}/v2`;
    },
    [],
    10,
    /1 lost, 0 to start/,
  ],
  [
    "unclear, and its key is kept",
    loseAnswer,
    [],
    0,
    /Sending the same request again; this service charges it once.*1 of 1 done/s,
  ],
  [
    "unclear, and the service does not answer",
    async (opened) => {
      await loseAnswer(opened);
      opened.world.faults = [silence];
    },
    ["--retry-unknown"],
    8,
    /does not answer whether it has the request. Nothing was sent/,
  ],
  ["unclear in a dry run", loseAnswer, ["--dry-run"], 0, /Line 2 .* asks the service whether it keeps its key/],
  [
    "unclear in a dry run with --retry-unknown",
    loseAnswer,
    ["--dry-run", "--retry-unknown"],
    0,
    /1 to start.*Line 2 .* asks the service whether it keeps its key/s,
  ],
  [
    "deleted with its file",
    async ({ world, batch }) => {
      await batch();
      const [{ id }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
      expect((await world.vidgen("delete", id, "--files", "--yes")).code).toBe(0);
    },
    [],
    0,
    /1 row: 1 done \(1 deleted\), 0 to start/,
  ],
  [
    "delivered, its file removed by hand, and its video gone",
    async ({ world, clip, batch }) => {
      await batch();
      rmSync(clip("fox"));
      world.faults = [forget];
    },
    [],
    0,
    /Line 2 .* no longer has its video.*--redo fox/,
  ],
])("a row that is %s: exit code and text, and nothing is paid again", async (_, prepare, argv, code, says) => {
  const opened = await createBatch(["fox,a fox"], "id,prompt", { keepsKeys: true });
  await prepare(opened);
  const keys = () =>
    new Set(opened.world.requests.filter(isStart).map(({ headers }) => headers.get("Idempotency-Key")));
  const run = await opened.batch(...argv);
  expect([run.code, `${run.stdout}${run.stderr}`]).toEqual([code, expect.stringMatching(says)]);
  expect(keys().size).toBe(1);
});

test("a row that may have been charged shows the id that the answer named", async () => {
  const { world, batch } = await createBatch(["fox,a fox"]);
  world.faults = [onStart(() => Response.json({ success: false, data: { id: "gen-7", status: "processing" } }), 1)];
  expect((await batch()).code).toBe(6);
  expect(await batch()).toMatchObject({ code: 6, stderr: expect.stringContaining("`vidgen wait gen-7` fetches it") });
  expect(starts(world)).toHaveLength(1);
});

test.skipIf(lacks("symbolic links"))(
  "other shards, no --shard, other --results or a link: the same rows are paid once",
  async () => {
    const { world, file, place, batch } = await createBatch();
    for (const shard of ["1/2", "2/2", "1/3", "2/3", "3/3"]) await batch("--shard", shard);
    const link = join(world.folder, "link.csv");
    symlinkSync(file, link);
    for (const argv of [[file], [file, "--results", join(world.folder, "r.jsonl")], [link], [link, "--shard", "1/4"]]) {
      const run = await world.vidgen("batch", ...argv, "-o", place);
      expect([run.code, run.stderr]).toEqual([0, expect.stringContaining(" 0 to start")]);
    }
    expect(starts(world)).toHaveLength(3);
  },
);

test("a line of the results that cannot be read stops the run, with its number and what to do", async () => {
  const { world, results, batch } = await createBatch(["fox,a fox"]);
  await batch();
  const [first, ...rest] = lines(readFileSync(results, "utf8"));
  writeFileSync(results, [first, "<<<<<<< HEAD", ...rest, ""].join("\n"));
  for (const run of [await batch(), await world.vidgen("batch", "status", results)]) {
    expect([run.code, run.stderr]).toEqual([2, expect.stringContaining(`Cannot read line 2 of ${results}`)]);
    expect(run.stderr).toContain("Restore the file");
  }
  expect(starts(world)).toHaveLength(1);
});

test("when several apply, the worst of them decides", async () => {
  const rows = ["a,[fail]", "b,[http: 500]", "c,[http: 422]", "d,a fox"];
  const { batch } = await createBatch(rows);
  const run = await batch();
  expect([run.code, run.stderr]).toEqual([
    6,
    expect.stringContaining("1 of 4 rows done; 1 may have been charged, 2 failed."),
  ]);
});

/** The words of a command line as a shell reads them. */
const wordsOf = (line: string) =>
  [...line.matchAll(/'((?:[^']|'\\'')*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");

test("the printed command resumes the batch: the same flags, quoted, without those that retry", async () => {
  const { world, file, clip, batch } = await createBatch(["fox,a fox", "owl,an owl"]);
  world.faults = [pressWhilePolled];
  const run = await batch("--jobs", "1", "--set", "style=film noir", "--retry-failed", "--retry-unknown");
  expect(run).toMatchObject({ code: 130, stdout: "" });
  const printed = /Continue with: vidgen (.*)$/m.exec(run.stderr)?.[1] ?? "";
  expect(printed).toContain("--set 'style=film noir'");
  expect(printed).not.toContain("--retry");
  world.faults = [];
  world.reboot();
  expect(wordsOf(printed).slice(0, 2)).toEqual(["batch", file]);
  const resumed = await world.vidgen(...wordsOf(printed));
  expect([resumed.code, lines(resumed.stdout)]).toEqual([0, [clip("fox"), clip("owl")]]);
  expect(starts(world).map(({ prompt }) => prompt)).toEqual(["a fox", "an owl"]);
});

test("a failed and an unknown row are left alone until the printed commands start them", async () => {
  const { world, batch } = await createBatch(["a,a fox", "b,an owl"]);
  world.faults = [onStart(() => new Response("", { status: 502 }), 1)];
  const first = await batch("--jobs", "1");
  expect([first.code, first.stderr]).toEqual([6, expect.not.stringContaining("Go on with")]);
  const left = await batch();
  expect(left.stderr).toMatch(/2 rows: 1 done, 1 unknown, 0 to start.*\n {2}line 2 may have been charged: attempt/);
  expect([left.code, starts(world).length]).toEqual([6, 2]);
  expect(left.stderr).not.toContain("--retry-failed");
  const printed = /: vidgen (.* --retry-unknown)$/m.exec(left.stderr)?.[1] ?? "";
  expect(await world.vidgen(...wordsOf(printed))).toMatchObject({ code: 0 });
  expect(starts(world)).toHaveLength(3);
});

test("Ctrl-C twice leaves at once, and what runs is followed by the next run", async () => {
  const { world, batch } = await createBatch(["fox,a fox"]);
  world.faults = [
    (request) => {
      if (request.url.includes("generation-status")) for (const _ of [1, 2]) world.press("Ctrl-C");
      return undefined;
    },
  ];
  expect(await batch()).toMatchObject({ code: 130 });
  world.faults = [];
  world.reboot();
  expect(await batch()).toMatchObject({ code: 0, stderr: expect.stringContaining("1 row: 1 running, 0 to start") });
  expect(starts(world)).toHaveLength(1);
});

const badFlags: [string[], string][] = [
  ...["0", "x", "-1", "1.5"].map((value): [string[], string] => [["--jobs", value], "--jobs must be a whole number"]),
  [["--max-credits", "0"], "--max-credits must be a whole number, at least 1"],
  [["--keep-credits", "-1"], "--keep-credits must be a whole number, at least 0"],
  ...["3/2", "0/2", "2"].map((value): [string[], string] => [["--shard", value], "--shard must be i/n, such as 2/8"]),
  [["--input-format", "xml"], "--input-format must be csv, tsv, jsonl, json, yaml or txt"],
  [["--results", ""], "--results is empty"],
  [["--each", "model"], "--each must be field=value,value"],
  [["--events", "--dry-run"], "--events and --dry-run cannot be combined"],
  [["--local", "--base-url", "https://x.example"], "--local and --base-url cannot be combined"],
];
test.each(badFlags)("%j is a usage error, and nothing is sent", async (argv, says) => {
  const { world, batch } = await createBatch();
  const run = await batch(...argv);
  expect([run.code, run.stderr, world.requests]).toEqual([2, expect.stringContaining(says), []]);
});

test("every fault of the file is reported with its line, and nothing is sent", async () => {
  const { world, batch } = await createBatch(["fox,a fox", "fox,", "owl,an owl,1"]);
  const run = await batch();
  expect([run.code, world.requests]).toEqual([2, []]);
  expect(run.stderr).toMatch(/shots\.csv: 4 faults; nothing was sent\.\n(line 3.*\n){3}line 4, column 3: .*3 cells/);
});

test.each<[string, number, string, (world: World) => void]>([
  [
    "a folder that cannot be made",
    9,
    "clips: a file has this name. ",
    ({ folder }) => writeFileSync(`${folder}/clips`, ""),
  ],
  ["no API key", 3, "No API key", ({ env }) => void delete env.VIDGEN_API_KEY],
])("%s ends it before it starts, and it says that nothing was sent", async (_, code, says, prepare) => {
  const { world, batch } = await createBatch();
  prepare(world);
  const run = await batch();
  expect([run.code, run.stderr, world.requests]).toEqual([code, expect.stringContaining(says), []]);
  expect(run.stderr).toMatch(/ Nothing was sent, nothing was charged\.$/m);
});

test("stdin needs --input-format and --results", async () => {
  const { world, clip, place } = await createBatch();
  const results = join(world.folder, "r.jsonl");
  const run = (...argv: string[]): Promise<Run> => {
    world.stdin = "id,prompt\nfox,a fox\n";
    return world.vidgen("batch", "-", "-o", place, ...argv);
  };
  expect((await run("--input-format", "csv")).stderr).toContain("--results is required");
  expect((await run("--results", results)).stderr).toContain("stdin needs --input-format");
  expect(await run("--input-format", "csv", "--results", results)).toMatchObject({
    code: 0,
    stdout: `${clip("fox")}\n`,
  });
});

test("words, --each and an image: each row is its own request, with its info beside the video", async () => {
  const { world, file } = await createBatch(["fox,snow,fox.png"], "animal,where,imageUrl");
  writeFileSync(join(world.folder, "fox.png"), aPng(30, 20));
  const picture = join(world.folder, "fox.png");
  writeFileSync(file, `animal,where,imageUrl\nfox,snow,${picture}\n`);
  const place = join(world.folder, "{animal}-{n}.mp4");
  const argv = ["--prompt", "a {animal} in {where}", "--each", "model=wan-2.5,ray-3", "--write-info-json"];
  const run = await world.vidgen("batch", file, "-o", place, ...argv);
  expect([run.code, lines(run.stdout)]).toEqual([0, [1, 2].map((n) => join(world.folder, `fox-${n}.mp4`))]);
  const image = expect.stringMatching(/^data:image\/png;base64,/);
  expect(starts(world)).toEqual(
    ["wan-2.5", "ray-3"].map((model) => ({ prompt: "a fox in snow", model, imageUrl: image })),
  );
  const info = JSON.parse(readFileSync(join(world.folder, "fox-2.mp4.json"), "utf8"));
  expect(info).toMatchObject({ request: { prompt: "a fox in snow", model: "ray-3" } });
});

test("a second process ends at once, and no row is started twice", async () => {
  const { world, batch } = await createBatch(["fox,a fox"]);
  let second: Promise<Run> | undefined;
  world.faults = [
    (request) => {
      if (isStart(request)) second ??= batch();
      return undefined;
    },
  ];
  expect((await batch()).code).toBe(0);
  expect(await second).toMatchObject({ code: 2, stderr: expect.stringContaining("Nothing was sent.") });
  expect(starts(world)).toHaveLength(1);
});

test.each([
  ["a folder", ""],
  ["another file", "shots.csv"],
])("results that are %s are left alone", async (_, name) => {
  const { world, file, batch } = await createBatch();
  const before = readFileSync(file, "utf8");
  expect(await batch("--results", join(world.folder, name))).toMatchObject({ code: 2 });
  expect([readFileSync(file, "utf8"), world.requests]).toEqual([before, []]);
});

test.skipIf(lacks("named pipes in folders")).each(specialFiles)(
  "results that are %s are refused at once, by batch and by batch status",
  async (kind) => {
    const { world, results, batch } = await createBatch();
    await makeSpecial(kind, results);
    expect(await batch()).toMatchObject({ code: 2, stderr: expect.stringContaining("is not a file") });
    expect(await world.vidgen("batch", "status", results)).toMatchObject({
      code: 9,
      stderr: expect.stringContaining("it is a pipe, a socket or a device"),
    });
    expect(world.requests).toEqual([]);
  },
);

test("at a terminal one line shows the progress; failures stay above it", async () => {
  const { world, batch } = await createBatch(["a,[fail: no foxes]", "b,an owl", "c,a hare"]);
  world.isTerminal = true;
  const { stripVTControlCharacters } = await import("node:util");
  const run = await batch("--yes", "--jobs", "1");
  const text = stripVTControlCharacters(run.stderr);
  expect(text).toMatch(/\[0\/3\] line 2, a: The generation failed: no foxes\s\([0-9a-f-]{36}\)/);
  expect(text).toMatch(/1 of 3 done, 1 running, 1 failed, 970 credits left, about 1 min/);
  expect(text).not.toContain("line 3, b");
});

test.skipIf(lacks("control characters in names"))(
  "each start of a batch, of any shard, says which batch it belongs to, by a name without control characters, and how large that is",
  async () => {
    const world = await createWorld();
    const file = join(world.folder, "Füchse\n& Bären.csv");
    writeFileSync(file, "id,prompt\nfox,a fox\nbear,a bear\nhare,a hare\n");
    const run = await world.vidgen("batch", file, "-o", join(world.folder, "{id}.mp4"), "--shard", "1/2");
    expect(run.code).toBe(0);
    const labels = world.requests.filter(isStart).map(({ headers }) => {
      return [decodeURIComponent(headers.get("Vidgen-Label") ?? ""), headers.get("Vidgen-Label-Size")];
    });
    expect(labels.length).toBeGreaterThan(0);
    expect(new Set(labels.map(String))).toEqual(new Set(["Füchse & Bären.csv,3"]));
    await world.vidgen("generate", "an owl");
    expect(world.requests.filter(isStart).at(-1)?.headers.get("Vidgen-Label")).toBeNull();
  },
);

test("--style is added to each prompt, and a batch that was made without it is not paid for again unnoticed", async () => {
  const { world, file, batch } = await createBatch(["fox,a red fox", "owl,an owl"]);
  const style = ["--style", "watercolour"];
  expect(await batch(...style)).toMatchObject({ code: 0 });
  const prompts = ["a red fox, watercolour", "an owl, watercolour"];
  expect(starts(world).map(({ prompt }) => prompt)).toEqual(prompts);
  expect(await batch(...style)).toMatchObject({ code: 0, stderr: expect.stringContaining("2 done, 0 to start") });
  expect(await batch("--style", "oil")).toMatchObject({ code: 2, stderr: expect.stringContaining("another id") });
  writeFileSync(file, "prompt\na red fox\n");
  const without = ["batch", file, "-o", join(world.folder, "{n}.mp4")];
  expect(await world.vidgen(...without)).toMatchObject({ code: 0 });
  expect(await world.vidgen(...without, ...style)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("already exists; --overwrite replaces it"),
  });
  expect(starts(world).map(({ prompt }) => prompt)).toEqual([...prompts, "a red fox"]);
  expect(await batch("--style", " ")).toMatchObject({ code: 2, stderr: expect.stringContaining("--style is empty") });
});

test("--redo says what is paid for again, keeps the old video, and is up to date after that", async () => {
  const { world, clip, batch } = await createBatch();
  await batch();
  const old = readFileSync(clip("owl"));
  const plan = await batch("--redo", "owl", "--dry-run", "--json");
  expect(JSON.parse(plan.stdout)).toMatchObject({ done: 2, to_start: 1 });
  expect(readFileSync(clip("owl"))).toEqual(old);
  const run = await batch("--redo", "owl");
  expect(run).toMatchObject({ code: 0, stdout: `${clip("owl")}\n` });
  expect(run.stderr).toContain(
    `Made again, and paid for again: line 3.\n  line 3: the old video becomes ${clip("owl.take-1")}\n`,
  );
  expect(readFileSync(clip("owl.take-1"))).toEqual(old);
  const next = await batch("--redo", "owl");
  expect(next).toMatchObject({ code: 0, stdout: "" });
  expect(next.stderr).toContain(
    "Line 3 is up to date: it was made again before. For another one, which is paid for again, add --again.",
  );
  expect(starts(world)).toHaveLength(4);
  await batch("--redo", "all", "--again");
  expect(starts(world)).toHaveLength(7);
});

test("the line that continues a redo has neither --redo nor --again, which could pay once more", async () => {
  const { world, batch } = await createBatch(["fox,a red fox"]);
  await batch();
  world.faults = [pressWhilePolled];
  const run = await batch("--redo", "fox", "--again");
  expect(run.stderr).toMatch(/Continue with: vidgen batch /);
  expect(run.stderr).not.toMatch(/with: .*(--redo|--again)/);
});

test.each([
  [["--redo", "ow"], /no row has the id "ow"\. Did you mean owl\? Nothing was sent\./],
  [["--redo", ""], /--redo takes ids of rows/],
  [["--redo", "owl,,fox"], /--redo takes ids of rows/],
  [["--again"], /--again needs --redo/],
])("%j is refused before anything is sent", async (flags, text) => {
  const { world, batch } = await createBatch();
  const run = await batch(...flags);
  expect(run).toMatchObject({ code: 2, stderr: expect.stringMatching(text) });
  expect(world.requests).toEqual([]);
});

test("--redo all is refused where a row has that id", async () => {
  const { batch } = await createBatch(["all,a fox", "owl,an owl"]);
  expect(await batch("--redo", "all")).toMatchObject({ code: 2, stderr: expect.stringContaining('the id "all"') });
});

describe("a saved model that changes between two runs", () => {
  const rows = ["[http: 500] a fox", "an owl"];
  const changeModel = async (world: World, model: string) =>
    expect((await world.vidgen("config", "set", "model", model)).code).toBe(0);

  test("stops an unclear row without an id, and --retry-unknown starts it", async () => {
    const { world, file } = await createBatch(rows, "prompt");
    expect((await world.vidgen("batch", file)).code).toBe(6);
    await changeModel(world, "ray-3");
    const { length } = starts(world);
    const run = await world.vidgen("batch", file);
    expect([run.code, run.stderr]).toEqual([6, expect.stringMatching(/vidgen.json or the settings.*Nothing was sent/)]);
    expect(starts(world)).toHaveLength(length);
    await world.vidgen("batch", file, "--retry-unknown");
    expect(starts(world).length).toBeGreaterThan(length);
  });

  test("is another row where the first video was delivered, and where the row or VIDGEN_MODEL gives the model", async () => {
    const { world, file } = await createBatch(["an owl"], "prompt");
    expect((await world.vidgen("batch", file)).code).toBe(0);
    await changeModel(world, "ray-3");
    expect((await world.vidgen("batch", file)).code).toBe(0);
    expect(starts(world).map(({ model }) => model)).toEqual(["wan-2.5", "ray-3"]);
  });

  test("an older version's attempt beside VIDGEN_MODEL is found by its own hash, and its model is no difference that stops", async () => {
    const { world, file, results } = await createBatch(["[http: 500] a fox"], "prompt");
    const project = (duration: number) =>
      writeFileSync(join(world.folder, "vidgen.json"), JSON.stringify({ duration }));
    project(4);
    expect((await world.vidgen("batch", file)).code).toBe(6);
    // An older version did not record that the model is not typed.
    for (const path of [results, join(world.home, "journal.jsonl")])
      writeFileSync(path, readFileSync(path, "utf8").replaceAll(',"model"]', "]"));
    world.env.VIDGEN_MODEL = "wan-2.5";
    project(6);
    const { length } = starts(world);
    const stopped = await world.vidgen("batch", file);
    expect([stopped.code, stopped.stderr]).toEqual([6, expect.stringContaining("Nothing was sent")]);
    expect(starts(world)).toHaveLength(length);
    project(4);
    world.env.VIDGEN_MODEL = "ray-3";
    await world.vidgen("batch", file);
    expect(starts(world).at(-1)).toMatchObject({ model: "ray-3" });
  });

  test("a loop over VIDGEN_MODEL starts each row with each model, also while one of them is unclear", async () => {
    const { world, file } = await createBatch(["[http: 500] a fox"], "prompt");
    for (const model of ["wan-2.5", "ray-3"]) {
      world.env.VIDGEN_MODEL = model;
      expect((await world.vidgen("batch", file)).code).toBe(6);
    }
    expect(new Set(starts(world).map(({ model }) => model))).toEqual(new Set(["wan-2.5", "ray-3"]));
  });
});

test("a cosmetic edit of a table is never another row: a column more, another order, 05 for 5", async () => {
  for (const isOld of [false, true]) {
    const { world, file, results } = await createBatch(["a fox,5", "an owl,10"], "prompt,duration");
    const run = () => world.vidgen("batch", file, "-o", join(world.folder, "clips/{prompt}.mp4"));
    expect((await run()).code).toBe(0);
    // As an older version wrote it, which recorded no hash of the typed row.
    if (isOld) writeFileSync(results, readFileSync(results, "utf8").replaceAll(/,"typed":"[^"]*"/g, ""));
    for (const text of [
      "prompt,duration,mood\na fox,5,calm\nan owl,10,wild\n",
      "duration,prompt\n10,an owl\n5,a fox\n",
      "prompt,duration\na fox,05\nan owl,10\n",
    ]) {
      writeFileSync(file, text);
      expect((await run()).stderr).toContain("2 rows: 2 done, 0 to start");
    }
    expect(starts(world)).toHaveLength(2);
  }
});
