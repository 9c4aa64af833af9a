import { appendFileSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import stringWidth from "string-width";
import { describe, expect, test } from "vitest";
import { lacks } from "../../needs.ts";
import { makeSpecial, specialFiles } from "../../special.ts";
import { apiKey, baseUrl, createWorld, failure, isStart, mediaUrl, onStart, type World } from "../../vidgen.ts";

test("shows what was started, newest first: id, status, model, age, cost, file, prompt", async () => {
  const world = await createWorld();
  const file = join(world.folder, "fox.mp4");
  await world.vidgen("generate", "a fox", "-o", file);
  await world.io.sleep(3 * 3600_000);
  const id = (await world.vidgen("generate", "an owl", "-m", "veo-3.1", "--no-wait")).stdout.trim();
  const { code, stdout } = await world.vidgen("list");
  expect(code).toBe(0);
  const [first = "", second = ""] = stdout.split("\n");
  const host = "api.video.example";
  expect(first.split("\t")).toEqual([id, "processing!", "veo-3.1", "0 s", "10", "", host, "an owl"]);
  const saved = [expect.any(String), "completed", "wan-2.5", "3 h", "10", file, host, "a fox"];
  expect(second.split("\t")).toEqual(saved);
});

test("an attempt whose answer never came stands out, with what to do", async () => {
  const world = await createWorld();
  world.faults.push(onStart(() => Promise.reject(failure("ECONNRESET", true)) as never, 1));
  await world.vidgen("generate", "a fox");
  const attempt = world.requests[0]?.headers.get("Idempotency-Key") ?? "?";
  const run = await world.vidgen("list", "--status", "unknown");
  expect(run.stdout).toContain(`(${attempt.slice(0, 8)})`);
  expect(run.stdout).toContain("unknown!");
  expect(run.stderr).toContain("may have been charged");
});

test("--json is one array, --limit and --status choose", async () => {
  const world = await createWorld();
  for (const prompt of ["one", "two", "[fail]"]) await world.vidgen("generate", prompt);
  const prompts = async (...flags: string[]) =>
    JSON.parse((await world.vidgen("list", "--json", ...flags)).stdout).map(({ prompt }: { prompt: string }) => prompt);
  expect(await prompts()).toEqual(["[fail]", "two", "one"]);
  expect(await prompts("--limit", "1")).toEqual(["[fail]"]);
  expect(await prompts("--status", "completed")).toEqual(["two", "one"]);
});

test("--json has no partial files, which are the journal's own", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
  expect(readFileSync(join(world.home, "journal.jsonl"), "utf8")).toContain('"kind":"part"');
  const [entry] = JSON.parse((await world.vidgen("list", "--json")).stdout);
  expect(entry).not.toHaveProperty("parts");
});

test.each([20, 40, 80, 200])(
  "at a terminal of %i columns there is a header, and a line for each, cut to the width",
  async (columns) => {
    const world = await createWorld();
    const id = (await world.vidgen("generate", "a fox ".repeat(100), "--no-wait")).stdout.trim();
    await world.vidgen("generate", "an owl", "-o", join(world.folder, "owl.mp4"));
    Object.assign(world, { isTerminal: true, columns });
    const { stdout } = await world.vidgen("list");
    if (columns > 20)
      for (const state of ["\u001b[33mprocess", "\u001b[32mcompleted\u001b[39m "])
        expect(stdout).toContain(`  ${state}`);
    const lines = stripVTControlCharacters(stdout).trimEnd().split("\n");
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^ID {8}STATUS/);
    if (columns === 200) expect(lines[0]).toMatch(/AGE +COST +FILE/);
    expect(lines[2]).toMatch(new RegExp(`^${id.slice(0, 8)} {2}process.*…$`));
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns);
    if (columns === 40) expect(lines[1]).toMatch(/completed {4}an owl$/);
    if (columns === 80) expect(lines[1]).toMatch(/ {2}…\S*[/\\]owl\.mp4 {2}an owl$/);
  },
);

test("says why one failed, and which service it was at where there are two", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "an owl [fail: too dark]");
  expect((await world.vidgen("list")).stdout).toMatch(/\tThe generation failed: too dark\t\S+\tan owl/);
  const local = { at: "2026-01-01T00:00:00.000Z", kind: "intent", attempt: "a", base_url: "http://vidgen.localhost" };
  const lines = [
    { ...local, account: "0123456789ab", request: { prompt: "a fox", model: "wan-2.5" }, is_preview: true },
    { ...local, kind: "accepted", id: "b", credits: 0, remaining_credits: 1_000 },
  ];
  appendFileSync(join(world.home, "journal.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const cells = (await world.vidgen("list")).stdout.split("\n").map((line) => line.split("\t").slice(-4));
  expect(cells[0]).toEqual(["free", "", "local", "a fox"]);
  expect(cells[1]?.[2]).toBe("api.video.example");
});

test("at a terminal, letters that are two columns wide are counted as two", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "雪の中の狐".repeat(30), "--no-wait");
  await world.vidgen("generate", "an owl", "--no-wait");
  Object.assign(world, { isTerminal: true, columns: 80 });
  const lines = (await world.vidgen("list")).stdout.trimEnd().split("\n");
  expect(stringWidth(lines[2] ?? "")).toBeGreaterThan(77);
  for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(80);
});

/** A journal of these starts, the oldest first, at a service whose balance the last one tells. */
async function withJournal(...starts: { at?: string; base_url?: string; is_preview?: boolean; lines: object[] }[]) {
  const world = await createWorld();
  const request = { prompt: "a fox", model: "wan-2.5" };
  const lines = starts.flatMap(({ at = "2026-01-01T00:00:00.000Z", base_url = baseUrl, is_preview, lines }, i) => [
    { at, kind: "intent", attempt: `attempt-${i}`, base_url, account: "0123456789ab", request, is_preview },
    ...lines.map((line) => ({ at, attempt: `attempt-${i}`, id: `gen-${i}`, ...line })),
  ]);
  mkdirSync(world.home);
  appendFileSync(join(world.home, "journal.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return world;
}

test("the cost is what the service has stated, and nothing else: never the balance, nor by how much it fell", async () => {
  const local = "http://vidgen.localhost";
  const unsent = { kind: "unsent", id: undefined, reason: "nobody listens" };
  const world = await withJournal(
    { lines: [{ kind: "accepted", remaining_credits: 980 }] },
    { lines: [{ kind: "accepted", credits: 0, remaining_credits: 960 }] },
    { lines: [{ kind: "accepted", credits: 1_200, remaining_credits: 5_000 }] },
    { lines: [{ kind: "accepted" }, { kind: "completed", cost: 0.4 }] },
    {
      lines: [
        { kind: "accepted", credits: 10 },
        { kind: "failed", reason: "too dark" },
      ],
    },
    { lines: [unsent] },
    { base_url: local, is_preview: true, lines: [{ kind: "accepted", credits: 0, remaining_credits: 30 }] },
  );
  const cells = (await world.vidgen("list")).stdout
    .trimEnd()
    .split("\n")
    .map((line) => line.split("\t")[4]);
  expect(cells.reverse()).toEqual(["?", "0", "1200", "$0.40", "?", "-", "free"]);
  const credits = JSON.parse((await world.vidgen("list", "--json")).stdout).map(
    (each: { credits?: number }) => each.credits,
  );
  expect(credits.reverse()).toEqual([undefined, 0, 1_200, undefined, 10, undefined, 0]);
  Object.assign(world, { isTerminal: true, columns: 120 });
  expect(await summaryOf(world)).toBe("7 generations: 1,200 credits, $0.40, 2 of unknown cost; 5,000 credits left");
  expect(await summaryOf(world, "-L", "3")).toBe(
    "The newest 3 generations (-L shows more): 1 of unknown cost; 5,000 credits left",
  );
  expect(await summaryOf(world, "--local")).toBe("1 generation");
});

/** The line below the table. */
async function summaryOf(world: World, ...flags: string[]) {
  return (await world.vidgen("list", ...flags)).stderr.split("\n")[0];
}

test("of two services each has its balance", async () => {
  const world = await withJournal(
    { lines: [{ kind: "accepted", credits: 1, remaining_credits: 1 }] },
    { base_url: "https://other.example", lines: [{ kind: "accepted", credits: 10, remaining_credits: 90 }] },
  );
  Object.assign(world, { isTerminal: true, columns: 120 });
  expect(await summaryOf(world)).toBe(
    "2 generations: 11 credits; 90 credits left at other.example; 1 credit left at api.video.example",
  );
});

test("words search the prompts, or name an id; --model and --since choose", async () => {
  const world = await createWorld();
  const starts = [["a RED fox"], ["a fox in fog", "-m", "veo-3.1"], ["a red owl"]];
  const ids: string[] = [];
  for (const argv of starts) {
    ids.push((await world.vidgen("generate", ...argv, "--no-wait")).stdout.trim());
    await world.io.sleep(5 * 24 * 3600_000);
  }
  const prompts = async (...argv: string[]) =>
    JSON.parse((await world.vidgen("list", "--json", ...argv)).stdout).map(({ prompt }: { prompt: string }) => prompt);
  expect(await prompts("fox")).toEqual(["a fox in fog", "a RED fox"]);
  expect(await prompts("fox", "red")).toEqual(["a RED fox"]);
  expect(await prompts("--model", "veo-3.1")).toEqual(["a fox in fog"]);
  expect(await prompts("--since", "11d")).toEqual(["a red owl", "a fox in fog"]);
  expect(await prompts("red", "--since", "11d", "-L", "1")).toEqual(["a red owl"]);
  expect(await prompts(ids[1]?.slice(0, 8) ?? "")).toEqual(["a fox in fog"]);
  const none = await world.vidgen("list", "red", "hen", "-m", "ray-3", "--since", "7d");
  expect(none.stderr).toBe(
    'No generation that was started here is by ray-3 and was started in the last 7d and has "red hen" in its prompt.\n',
  );
  expect(await world.vidgen("list", "--since", "tomorrow")).toMatchObject({ code: 2 });
  expect(await world.vidgen("list", "--dismiss", ids[0] ?? "", "fox")).toMatchObject({ code: 2 });
});

test("--open takes the words and flags of list, and opens the newest saved video of those shown", async () => {
  const world = await createWorld();
  const files: string[] = [];
  for (const [prompt, ...flags] of [["a RED fox"], ["the last fox", "-m", "veo-3.1"], ["a red owl"]]) {
    files.push(join(world.folder, `${files.length}.mp4`));
    await world.vidgen("generate", prompt ?? "", ...flags, "-o", files.at(-1) ?? "");
  }
  await world.vidgen("generate", "a fox, not saved", "--no-wait");
  const opened = async (...argv: string[]) => (await world.vidgen("list", "--open", ...argv)).stdout.trim();
  expect(await opened("fox")).toBe(files[1]);
  expect(await opened("fox", "red")).toBe(files[0]);
  expect(await opened("--model", "veo-3.1")).toBe(files[1]);
  expect(await opened("2.mp4")).toBe(files[2]);
  expect(await world.vidgen("list", "--open")).toMatchObject({ code: 9, stderr: expect.stringContaining("not saved") });
  expect(await world.vidgen("list", "hen", "--open")).toMatchObject({
    code: 10,
    stderr: expect.stringContaining('has "hen" in its prompt.\n'),
  });
});

test("--open guesses last, says why there is no video, and opens a film, which is the video of no generation", async () => {
  const world = await withJournal({ lines: [{ kind: "accepted" }, { kind: "failed", reason: "out of memory" }] });
  const open = (word: string) => world.vidgen("list", "--open", word);
  for (const typed of ["lst", "Last", "latest"])
    expect(await open(typed)).toMatchObject({ code: 10, stderr: expect.stringContaining("Did you mean last?") });
  expect(await open("lake")).toMatchObject({ code: 10, stderr: expect.not.stringContaining("Did you mean") });
  expect(await open("last")).toMatchObject({
    code: 9,
    stderr: expect.stringMatching(/^error: [\w-]+ has no video: out of memory\n$/),
  });
  const film = join(world.folder, "film.mp4");
  expect(await open(film)).toMatchObject({ code: 10 });
  writeFileSync(film, "a film");
  expect(await open(film)).toMatchObject({ code: 0, stdout: `${film}\n` });
});

test("a long reason, as of an engine that repeats its whole request, is cut", async () => {
  const world = await withJournal({ lines: [{ kind: "accepted" }, { kind: "failed", reason: "no ".repeat(70_000) }] });
  for (const flags of [[], ["--json"]])
    expect((await world.vidgen("list", ...flags)).stdout.length).toBeLessThan(4_000);
});

test("at a terminal a file below the current folder is shown from there, and a script gets the whole path", async () => {
  const file = join(process.cwd(), "clips", "fox.mp4");
  const world = await withJournal({ lines: [{ kind: "accepted" }, { kind: "delivered", file }] });
  expect((await world.vidgen("list")).stdout).toContain(`\t${file}\t`);
  Object.assign(world, { isTerminal: true, columns: 160 });
  expect((await world.vidgen("list")).stdout).toContain(`  ${join("clips", "fox.mp4")}  `);
});

test("says so where none is as the flags ask for", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "a fox");
  const noteOf = async (...flags: string[]) => (await world.vidgen("list", ...flags)).stderr;
  expect(await noteOf("--status", "failed")).toBe("No generation that was started here is failed.\n");
  expect(await noteOf("--local", "-L", "5")).toBe("No generation that was started here is local.\n");
});

test("is empty where nothing was started, and asks no service", async () => {
  const world = await createWorld();
  expect(await world.vidgen("list")).toMatchObject({ code: 0, stdout: "" });
  expect(await world.vidgen("list", "--json")).toMatchObject({ code: 0, stdout: "[]\n" });
  expect(await world.vidgen("list", "--status", "odd")).toMatchObject({ code: 2 });
  expect(world.requests).toEqual([]);
});

test("the journal has the whole story, and holds no key and no address of a video", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
  const path = join(world.home, "journal.jsonl");
  const text = readFileSync(path, "utf8");
  const kinds = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).kind);
  expect(kinds).toEqual(["intent", "part", "accepted", "completed", "part", "downloaded", "delivered"]);
  expect(text).not.toContain(apiKey);
  expect(text).not.toContain(mediaUrl);
});

test.skipIf(lacks("file modes"))("the journal is for the owner's eyes", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "a fox", "--no-wait");
  expect(statSync(join(world.home, "journal.jsonl")).mode & 0o777).toBe(0o600);
});

test("the intent is on the disk before the request, and without it nothing is sent", async () => {
  const world = await createWorld();
  const seen: string[] = [];
  world.faults.push(
    (request) => void (isStart(request) && seen.push(readFileSync(join(world.home, "journal.jsonl"), "utf8"))),
  );
  await world.vidgen("generate", "a fox", "--no-wait");
  expect(JSON.parse(seen[0] ?? "null")).toMatchObject({ kind: "intent", request: { prompt: "a fox" } });
  const file = join(world.folder, "a file");
  writeFileSync(file, "");
  world.env.VIDGEN_HOME = join(file, "nowhere");
  expect(await world.vidgen("generate", "a fox", "-m", "seedance")).toMatchObject({
    code: 9,
    stderr: expect.stringContaining("journal"),
  });
  expect(world.requests.filter(isStart)).toHaveLength(1);
});

test.skipIf(lacks("named pipes in folders")).each(specialFiles)(
  "a journal that is %s is refused before anything is sent",
  async (kind) => {
    const world = await createWorld();
    const path = join(world.home, "journal.jsonl");
    mkdirSync(world.home);
    await makeSpecial(kind, path);
    const { mode } = statSync(path);
    for (const argv of [
      ["generate", "a fox"],
      ["generate", "a fox", "--reuse", "--dry-run"],
      ["list"],
      ["wait", "--all"],
    ])
      expect(await world.vidgen(...argv)).toMatchObject({
        code: 9,
        stdout: "",
        stderr: expect.stringContaining(`journal ${path}: it is a pipe, a socket or a device.`),
      });
    expect((await world.vidgen("doctor")).stdout).toMatch(/^fail {2}journal .*it is not a file/m);
    expect(statSync(path).mode).toBe(mode);
    expect(world.requests.filter(isStart)).toEqual([]);
  },
);

test("--reuse resumes the same request of the last 24 hours instead of paying again", async () => {
  const world = await createWorld();
  const first = await world.vidgen("generate", "a fox", "--no-wait");
  const again = await world.vidgen("generate", "a fox", "--reuse");
  expect(again).toMatchObject({
    code: 0,
    stdout: `${mediaUrl}/${first.stdout.trim()}.mp4\n`,
    stderr: expect.stringContaining("nothing is charged"),
  });
  expect(world.requests.filter(isStart)).toHaveLength(1);
  const file = join(world.folder, "fox.mp4");
  expect(await world.vidgen("generate", "a fox", "--reuse", "-o", file)).toMatchObject({
    code: 0,
    stdout: `${file}\n`,
  });
  expect(await world.vidgen("generate", "a fox", "--reuse", "--no-wait")).toMatchObject({
    code: 0,
    stdout: first.stdout,
  });
  const { stderr } = await world.vidgen("generate", "a fox", "--reuse", "-o", "/nowhere/fox.mp4", "--json");
  expect(JSON.parse(stderr).error).toMatchObject({
    code: "output",
    id: first.stdout.trim(),
    message: expect.stringMatching(/ Nothing was sent, nothing was charged\.$/),
  });
  expect(world.requests.filter(isStart)).toHaveLength(1);
});

test("--reuse pays for another request, after a failure, a day after its result, and without the flag", async () => {
  const world = await createWorld();
  const starts = () => world.requests.filter(isStart).length;
  await world.vidgen("generate", "[fail]");
  await world.vidgen("generate", "[fail]", "--reuse");
  expect(starts()).toBe(2);
  await world.vidgen("generate", "a fox", "--no-wait");
  await world.vidgen("generate", "a fox", "--reuse", "--no-wait", "-d", "6");
  await world.vidgen("generate", "a fox", "--no-wait");
  expect(starts()).toBe(5);
  await world.io.sleep(25 * 3600_000);
  await world.vidgen("generate", "a fox", "--reuse");
  expect(starts()).toBe(5);
  await world.vidgen("wait", "--all");
  await world.vidgen("generate", "a fox", "--reuse", "--no-wait");
  expect(starts()).toBe(6);
});

test("--reuse does not pay again for what may have been charged: exit 6, and nothing is sent", async () => {
  const world = await createWorld();
  world.faults.push(onStart(() => new Response(null, { status: 502 }), 1));
  expect(await world.vidgen("generate", "a fox", "--reuse")).toMatchObject({ code: 6 });
  expect(await world.vidgen("generate", "a fox", "--reuse")).toMatchObject({
    code: 6,
    stderr: expect.stringContaining("Nothing was sent now"),
  });
  expect(world.requests.filter(isStart)).toHaveLength(1);
});

describe("--forget", () => {
  const journal = (world: World) => readFileSync(join(world.home, "journal.jsonl"), "utf8");

  test.each([
    ["a running generation", "a fox", ["--no-wait"], "processing"],
    ["one whose video is only an address", "a fox", [], "completed"],
  ])("does not remove the id of %s without --yes", async (_, prompt, flags, status) => {
    const world = await createWorld();
    await world.vidgen("generate", prompt, ...flags);
    const [{ id }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    const before = journal(world);
    expect(await world.vidgen("list", "--forget", id)).toEqual({
      code: 2,
      stdout: "",
      stderr:
        `error: ${id} is ${status}, and its video is not saved: without its id, a video that was paid for is lost. Nothing was removed.\n` +
        `  \`vidgen wait ${id} -o <file>\` saves it. To remove the id anyway: vidgen list --forget ${id} --yes\n`,
    });
    expect(journal(world)).toBe(before);
    expect(await world.vidgen("list", "--forget", id.slice(0, 8), "--yes")).toMatchObject({ code: 0 });
    expect(journal(world)).not.toContain(id);
  });

  test("does not remove an attempt that may have been charged without --yes: the same command would pay again", async () => {
    const world = await createWorld();
    world.faults.push(onStart(() => new Response(null, { status: 502 }), 1));
    await world.vidgen("generate", "a fox");
    const [{ attempt }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    expect(await world.vidgen("list", "--forget", attempt)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        new RegExp(
          `Attempt ${attempt} may have been charged.*starts another generation.*\n.*list --dismiss ${attempt}`,
        ),
      ),
    });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    expect(await world.vidgen("list", "--forget", attempt, "-y")).toMatchObject({ code: 0 });
    expect((await world.vidgen("list")).stdout).toBe("");
  });

  test("and --dismiss take eight characters at least: one letter may be a slip", async () => {
    const world = await createWorld();
    await world.vidgen("generate", "a fox [fail]");
    const [{ id, attempt }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    for (const flag of ["--forget", "--dismiss"])
      for (const short of [id.slice(0, 1), id.slice(0, 7), attempt.slice(0, 7)])
        expect(await world.vidgen("list", flag, short)).toMatchObject({
          code: 2,
          stderr: expect.stringContaining(`"${short}" is too short: give at least 8 characters`),
        });
    expect(await world.vidgen("list", "--forget", id.slice(0, 8))).toMatchObject({ code: 0 });
  });

  test("takes the whole of an id that is shorter", async () => {
    const world = await createWorld();
    const at = "2026-01-01T00:00:00.000Z";
    const request = { prompt: "a fox", model: "wan-2.5" };
    const lines = [
      { at, kind: "intent", attempt: "an-attempt", base_url: baseUrl, account: "0123456789ab", request },
      { at, kind: "accepted", attempt: "an-attempt", id: "7" },
      { at, kind: "failed", id: "7", reason: "too dark" },
    ];
    mkdirSync(world.home);
    appendFileSync(join(world.home, "journal.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    expect(await world.vidgen("list", "--forget", "7")).toMatchObject({ code: 0 });
  });

  test("alone takes --yes", async () => {
    const world = await createWorld();
    expect(await world.vidgen("list", "--yes")).toMatchObject({ code: 2 });
  });
});

test("a prompt that begins with an address or with Data: is listed, and named after, as it was typed", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "Data: a fox in numbers", "-o", `${world.folder}/`);
  const [{ prompt, file }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
  expect([prompt, file]).toEqual([
    "Data: a fox in numbers",
    expect.stringMatching(/[/\\]data-a-fox-in-numbers-wan-2\.5-/),
  ]);
});

test("--local lists what the local service made, and not what another service on this machine did", async () => {
  const world = await createWorld();
  world.faults.push(() => Response.json({ error: "no" }, { status: 400 }));
  await world.vidgen("generate", "a fox", "--base-url", "http://127.0.0.1:8787");
  expect(JSON.parse((await world.vidgen("list", "--json")).stdout)).toMatchObject([{ status: "refused" }]);
  expect(JSON.parse((await world.vidgen("list", "--local", "--json")).stdout)).toEqual([]);
});

describe("--sum", () => {
  /** Two models on two days, a row of a batch, one whose cost nobody has stated, and one that was not sent. */
  async function createSpent() {
    const world = await createWorld();
    await world.vidgen("generate", "a fox");
    await world.io.sleep(24 * 3600_000);
    await world.vidgen("generate", "an owl", "-m", "veo-3.1");
    writeFileSync(join(world.folder, "shots.txt"), "a hare\n");
    await world.vidgen("batch", join(world.folder, "shots.txt"), "-o", join(world.folder, "{slug}.mp4"));
    await world.vidgen("generate", "[fail] a bear");
    world.faults.push(onStart(() => Promise.reject(failure("ECONNREFUSED", false)) as never));
    await world.vidgen("generate", "not sent");
    const sumsBy = async (...argv: string[]) =>
      JSON.parse((await world.vidgen("list", "--json", "--sum", ...argv)).stdout);
    return { world, sumsBy };
  }

  test("adds up what was stated, and counts apart what was not", async () => {
    const { sumsBy } = await createSpent();
    const total = { generations: 4, credits: 30, cost: null, unknown: 1 };
    expect(await sumsBy("model")).toEqual({
      by: "model",
      rows: [
        { key: "wan-2.5", generations: 3, credits: 20, cost: null, unknown: 1 },
        { key: "veo-3.1", generations: 1, credits: 10, cost: null, unknown: 0 },
      ],
      total,
    });
    expect((await sumsBy("label")).rows).toEqual([
      { key: null, generations: 3, credits: 20, cost: null, unknown: 1 },
      { key: "shots.txt", generations: 1, credits: 10, cost: null, unknown: 0 },
    ]);
    const days = await sumsBy("day");
    expect(days.rows.map(({ generations }: { generations: number }) => generations)).toEqual([3, 1]);
    expect(days.rows[0].key > days.rows[1].key).toBe(true);
    expect((await sumsBy("service")).rows).toEqual([{ key: baseUrl, ...total }]);
    expect((await sumsBy("model", "--since", "12h")).total).toMatchObject({ generations: 3, credits: 20 });
  });

  test("prints tabs for a script, a table at a terminal, and --csv with a header", async () => {
    const { world } = await createSpent();
    const run = await world.vidgen("list", "--sum", "model");
    expect(run.stdout).toBe("wan-2.5\t3\t20\t\t1\nveo-3.1\t1\t10\t\t0\n");
    expect(run.stderr).toContain("4 generations: 30 credits, 1 of unknown cost");
    expect((await world.vidgen("list", "--sum", "model", "--csv")).stdout).toBe(
      "model,generations,credits,cost,unknown\nwan-2.5,3,20,,1\nveo-3.1,1,10,,0\n",
    );
    Object.assign(world, { isTerminal: true, columns: 80 });
    expect((await world.vidgen("list", "--sum", "model")).stdout).toMatch(/^MODEL +GENERATIONS +CREDITS +UNKNOWN/);
  });

  test("sums all generations, however many there are, and one with two attempts of one key once", async () => {
    const world = await createWorld();
    await world.vidgen("generate", "a fox");
    const journal = join(world.home, "journal.jsonl");
    const lines = readFileSync(journal, "utf8").split("\n").slice(0, 2);
    const [intent, accepted] = lines.map((line) => JSON.parse(line));
    const copies = Array.from({ length: 50 }, (_, i) => [
      { ...intent, attempt: `a-${i}`, part: undefined },
      { ...accepted, attempt: `a-${i}`, id: `copy-${i}` },
      { ...intent, attempt: `b-${i}`, part: undefined, resend_of: `a-${i}` },
      { ...accepted, attempt: `b-${i}`, id: `copy-${i}` },
    ]);
    appendFileSync(
      journal,
      copies
        .flat()
        .map((line) => `${JSON.stringify(line)}\n`)
        .join(""),
    );
    const { stdout } = await world.vidgen("list", "--sum", "model", "--json");
    const sum = { generations: 51, credits: 510 };
    expect(JSON.parse(stdout)).toMatchObject({ rows: [sum], total: sum });
  });

  test.each([
    ["--csv"],
    ["--sum", "model", "--limit", "3"],
    ["--sum", "model", "--csv", "--json"],
    ["--sum", "model", "--open"],
    ["--sum", "prompt"],
  ])("%j is a usage error", async (...argv) => {
    const world = await createWorld();
    expect(await world.vidgen("list", ...argv)).toMatchObject({ code: 2, stdout: "" });
  });
});

test("rows that no process follows are saved where their batch says, by the same line", async () => {
  const world = await createWorld();
  writeFileSync(join(world.folder, "shots.txt"), "a fox\n");
  const line = ["batch", join(world.folder, "shots.txt"), "-o", join(world.folder, "{slug}.mp4")];
  expect(await world.vidgen(...line, "--timeout", "5s")).toMatchObject({ code: 5 });
  expect((await world.vidgen("list")).stderr).toContain("run the same batch command again. `vidgen wait --all -o ./`");
  expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
  expect((await world.vidgen("list")).stderr).toBe("");
});

test("what runs and is followed by no process is marked, with the command that saves it", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "a fox", "--no-wait");
  const run = await world.vidgen("list");
  expect(run.stdout).toContain("\tprocessing!\t");
  expect(run.stderr).toContain("`vidgen wait --all -o ./` waits for them and saves them");
  expect(JSON.parse((await world.vidgen("list", "--json")).stdout)).toMatchObject([{ followed: false }]);
  await world.vidgen("wait", "--all", "-o", `${world.folder}/`);
  expect((await world.vidgen("list")).stderr).not.toContain("processing!");
});
