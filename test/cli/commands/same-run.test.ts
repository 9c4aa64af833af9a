import {
  appendFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, join, relative } from "node:path";
import { describe, expect, test } from "vitest";
import { findPart } from "../../folder.ts";
import { tinyMp4 } from "../../mp4.ts";
import { lacks } from "../../needs.ts";
import {
  apiKey,
  createWorld,
  failure,
  goneReply,
  isStart,
  kill,
  killAtLine,
  onStart,
  type World,
} from "../../vidgen.ts";

const paid = (world: World) => world.requests.filter(isStart).length;

const journalLines = (world: World) =>
  readFileSync(join(world.home, "journal.jsonl"), "utf8")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => JSON.parse(line));

const isPoll = (request: Request) => request.url.includes("generation-status");
const isDownload = (request: Request) => request.url.endsWith(".mp4");

describe("the same run again", () => {
  test.each([
    ["while it was waited for", isPoll],
    ["while its video was downloaded", isDownload],
  ])("resumes the generation of a run that was killed %s", async (_, moment) => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    await kill(world, moment, "generate", "a fox", "-o", file);
    const run = await world.vidgen("generate", "a fox", "-o", file);
    expect(run).toEqual({ code: 0, stdout: `${file}\n`, stderr: expect.anything() });
    expect(run.stderr).toMatch(/^Resuming [0-9a-f-]{36}, started \d+ s ago; --again starts a new one\./m);
    expect([paid(world), readFileSync(file)]).toEqual([1, Buffer.from(tinyMp4("a fox"))]);
  });

  test("resumes after Ctrl-C, and when the time to wait is over", async () => {
    const world = await createWorld();
    world.faults.push((request) => {
      if (isPoll(request)) world.press("Ctrl-C");
      return undefined;
    });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 130 });
    world.faults.length = 0;
    world.reboot();
    expect(await world.vidgen("generate", "a fox", "--timeout", "1s")).toMatchObject({ code: 5 });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(1);
  });

  test("sends nothing after a run that was killed with its request out, until the attempt is dismissed", async () => {
    const world = await createWorld();
    await kill(world, isStart, "generate", "a fox");
    const { attempt } = journalLines(world)[0];
    const blocked = await world.vidgen("generate", "a fox");
    expect(blocked).toMatchObject({ code: 6, stderr: expect.stringContaining(`vidgen list --dismiss ${attempt}`) });
    expect(blocked.stderr).toContain("Nothing was sent now");
    expect(await world.vidgen("generate", "another fox")).toMatchObject({ code: 0 });
    expect(await world.vidgen("list", "--status", "unknown")).toMatchObject({
      stdout: expect.stringContaining(`(${attempt.slice(0, 8)})\tunknown!`),
      stderr: expect.stringContaining("may have been charged"),
    });
    expect(await world.vidgen("list", "--dismiss", attempt.slice(0, 8))).toMatchObject({ code: 0 });
    expect((await world.vidgen("list", "--status", "unknown")).stdout).toBe("\n".trim());
    expect((await world.vidgen("list")).stderr).not.toContain("may have been charged");
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(3);
  });

  test("sends nothing after exit 6, and --again does, and passes the attempt over for good", async () => {
    const world = await createWorld();
    world.faults.push((request) => {
      if (!isStart(request)) return undefined;
      throw failure("ECONNRESET", true);
    });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    world.faults.length = 0;
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    expect(paid(world)).toBe(1);
    expect(await world.vidgen("generate", "a fox", "--again")).toMatchObject({ code: 0 });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(3);
  });

  test("--again starts a new one beside an interrupted one, which stays for wait --all", async () => {
    const world = await createWorld();
    await kill(world, isPoll, "generate", "a fox");
    expect(await world.vidgen("generate", "a fox", "--again")).toMatchObject({ code: 0 });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(3);
    expect((await world.vidgen("wait", "--all")).stdout.match(/\.mp4/g)).toHaveLength(1);
  });

  test("an agent whose --again was cut off puts --reuse back: it resumes the new one, not the one delivered before", async () => {
    const world = await createWorld();
    const line = ["generate", "a fox", "--json"];
    const { stdout } = await world.vidgen(...line, "--reuse");
    await kill(world, isPoll, ...line, "--again");
    const resumed = JSON.parse((await world.vidgen(...line, "--reuse")).stdout);
    const [{ id: newest }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    expect([resumed.id, newest === JSON.parse(stdout).id, paid(world)]).toEqual([newest, false, 2]);
  });

  test("is a new one when the request, the place or the service differ, and after a good end", async () => {
    const world = await createWorld();
    await kill(world, isPoll, "generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    await world.vidgen("generate", "a fox", "-o", join(world.folder, "other.mp4"));
    await world.vidgen("generate", "a fox", "-d", "6", "-o", join(world.folder, "third.mp4"));
    await world.vidgen("generate", "a fox");
    await world.vidgen("generate", "a fox");
    expect(paid(world)).toBe(5);
  });

  type Spelling = [string, (folder: string) => string];
  const link: Spelling = ["through a link to its folder", (folder) => join(folder, "link/fox.mp4")];

  test.each<Spelling>([
    ["through another folder", (folder: string) => `${folder}/clips/../clips/fox.mp4`],
    ["with dots", (folder: string) => `${folder}/./clips//fox.mp4`],
    ["from the current folder", (folder: string) => relative(process.cwd(), join(folder, "clips/fox.mp4"))],
    ...(lacks("symbolic links") ? [] : [link]),
  ])("resumes with another spelling of the same -o, %s", async (_, spell) => {
    const world = await createWorld();
    mkdirSync(join(world.folder, "clips"));
    symlinkSync("clips", join(world.folder, "link"));
    await kill(world, isPoll, "generate", "a fox", "-o", join(world.folder, "clips/fox.mp4"));
    const other = spell(world.folder);
    expect((await world.vidgen("generate", "a fox", "-o", other, "--dry-run")).stdout).toContain("Would resume");
    expect(await world.vidgen("generate", "a fox", "-o", other)).toMatchObject({ code: 0 });
    expect([paid(world), readdirSync(join(world.folder, "clips"))]).toEqual([1, ["fox.mp4"]]);
  });

  test("refuses with another spelling of the same -o after exit 6", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    await kill(world, isStart, "generate", "a fox", "-o", file);
    expect(await world.vidgen("generate", "a fox", "-o", relative(process.cwd(), file))).toMatchObject({ code: 6 });
    expect(paid(world)).toBe(1);
  });

  test("resumes in a folder whose name ends in a slash or not", async () => {
    const world = await createWorld();
    const folder = join(world.folder, "clips");
    await kill(world, isPoll, "generate", "a fox", "-o", `${folder}/`);
    expect(await world.vidgen("generate", "a fox", "-o", folder)).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(1);
  });

  test("of -n resumes with another spelling of its folder", async () => {
    const world = await createWorld();
    const folder = join(world.folder, "clips/");
    await kill(world, isPoll, "generate", "a fox", "-n", "2", "-o", folder);
    const before = paid(world);
    const run = await world.vidgen("generate", "a fox", "-n", "2", "-o", `${relative(process.cwd(), folder)}/`);
    expect(run).toMatchObject({ code: 0 });
    expect([before <= 2, paid(world), readdirSync(folder).sort()]).toEqual([true, 2, ["a-fox-1.mp4", "a-fox-2.mp4"]]);
  });

  test.each([
    ["of -n in a folder", ["-n", "2"], "clips/", ["a-fox-1.mp4", "a-fox-2.mp4"]],
    [
      "of -n behind a link",
      ["-n", "2"],
      `${lacks("symbolic links") ? "clips" : "link"}/{slug}-{n}.mp4`,
      ["a-fox-1.mp4", "a-fox-2.mp4"],
    ],
    ["with {n}", [], "clips/fox-{n}.mp4", ["fox-1.mp4"]],
    ["with {n} and {id}", [], "clips/{n}-{id}.mp4", [expect.stringMatching(/^1-/)]],
    [
      "of -n with {n} and {id}",
      ["-n", "2"],
      "clips/{n}-{id}.mp4",
      [/^1-/, /^2-/].map((name) => expect.stringMatching(name)),
    ],
  ])("%s keeps the name of a video that was saved and not written down", async (_, flags, place, names) => {
    const world = await createWorld();
    mkdirSync(join(world.folder, "clips"));
    symlinkSync("clips", join(world.folder, "link"));
    const line = ["generate", "a fox", ...flags, "-o", join(world.folder, place)];
    await world.vidgen(...line);
    const journal = join(world.home, "journal.jsonl");
    writeFileSync(journal, readFileSync(journal, "utf8").replace(/.*"kind":"delivered".*\n/g, ""));
    world.reboot();
    const started = paid(world);
    expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
    expect([paid(world), readdirSync(join(world.folder, "clips")).sort()]).toEqual([started, names]);
    expect(journalLines(world).filter(({ kind }) => kind === "delivered")).toHaveLength(names.length);
  });

  test("with {n} keeps the name that it had claimed, though a lower number is free by now", async () => {
    const world = await createWorld();
    const file = (n: number | string) => join(world.folder, `${n}.mp4`);
    writeFileSync(file(1), "another video");
    await kill(world, isPoll, "generate", "a fox", "-o", file("{n}"));
    rmSync(file(1));
    expect(await world.vidgen("generate", "a fox", "-o", file("{n}"))).toMatchObject({ stdout: `${file(2)}\n` });
  });

  test("of -n gives no name twice, though somebody moves a saved video away meanwhile", async () => {
    const world = await createWorld();
    const file = (n: number | string) => join(world.folder, `${n}.mp4`);
    for (const n of [1, 2, 3]) writeFileSync(file(n), "another video");
    let starts = 0;
    world.faults.push(async (request) => {
      if (!isStart(request) || ++starts !== 2) return undefined;
      await world.io.sleep(60_000);
      await expect.poll(() => existsSync(file(4))).toBe(true);
      renameSync(file(4), join(world.folder, "moved.mp4"));
      return undefined;
    });
    const run = await world.vidgen("generate", "a fox", "-n", "3", "-o", file("{n}"));
    expect(run).toMatchObject({ code: 0, stdout: [4, 5, 6].map((n) => `${file(n)}\n`).join("") });
  });

  test("resumes with any place what could not be saved", async () => {
    const world = await createWorld();
    world.faults.push((request) => (isDownload(request) ? new Response("", { status: 403 }) : undefined));
    expect(await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"))).toMatchObject({ code: 9 });
    world.faults.length = 0;
    const other = join(world.folder, "other.mp4");
    expect(await world.vidgen("generate", "a fox", "-o", other)).toMatchObject({ code: 0, stdout: `${other}\n` });
    expect(paid(world)).toBe(1);
  });

  test("is a new one beside a process that lives, and after --no-wait", async () => {
    const world = await createWorld();
    const runs = [world.vidgen("generate", "a fox"), world.vidgen("generate", "a fox")];
    for (const run of await Promise.all(runs)) expect(run).toMatchObject({ code: 0 });
    await world.vidgen("generate", "an owl", "--no-wait");
    await world.vidgen("generate", "an owl");
    expect(paid(world)).toBe(4);
  });

  test("several at once resume different ones", async () => {
    const world = await createWorld();
    const file = (n: number) => join(world.folder, `${n}.mp4`);
    const template = join(world.folder, "{n}.mp4");
    for (let i = 0; i < 3; i++) await kill(world, isPoll, "generate", "a fox", "--again", "-o", template);
    const text = readFileSync(join(world.home, "journal.jsonl"), "utf8");
    writeFileSync(join(world.home, "journal.jsonl"), text.replace(/.*"dismissed".*\n/g, ""));
    const runs = [1, 2, 3].map(() => world.vidgen("generate", "a fox", "-o", template));
    const ids = (await Promise.all(runs)).map(({ stderr }) => /Resuming (\S+),/.exec(stderr)?.[1]);
    expect([new Set(ids).size, ids.includes(undefined), paid(world)]).toEqual([3, false, 3]);
    expect([1, 2, 3].map(file).map(existsSync)).toEqual([true, true, true]);
  });

  test.each([
    ["HTML", () => new Response("<html>default backend - 404", { status: 404 })],
    ["an empty body", () => new Response(null, { status: 404 })],
    ["text", () => new Response("404 page not found", { status: 404 })],
  ])(
    "a gateway's 404 with %s says nothing about a generation: it is waited for, and nothing is paid",
    async (_, gone) => {
      const world = await createWorld();
      await kill(world, isPoll, "generate", "a fox");
      const from = world.io.now();
      world.faults.push((request) => (isPoll(request) && world.io.now() - from < 180_000 ? gone() : undefined));
      expect(await world.vidgen("generate", "a fox", "--timeout", "90s")).toMatchObject({ code: 8 });
      expect(await world.vidgen("generate", "a fox")).toMatchObject({
        code: 0,
        stderr: expect.stringMatching(/^Resuming/),
      });
      expect(paid(world)).toBe(1);
    },
  );

  test("an id that the service no longer knows is lost: exit 10 until --again, and nothing is sent", async () => {
    const world = await createWorld();
    await kill(world, isPoll, "generate", "a fox");
    const { id } = journalLines(world)[1];
    world.faults.push((request) => (isPoll(request) ? goneReply() : undefined));
    for (let i = 0; i < 2; i++) {
      const run = await world.vidgen("generate", "a fox");
      expect(run).toMatchObject({ code: 10, stdout: "", stderr: expect.stringContaining(id) });
      expect(run.stderr).toContain("--again");
      expect(run.stderr).toContain("charged");
    }
    expect(await world.vidgen("generate", "a fox", "--reuse")).toMatchObject({ code: 10 });
    expect(await world.vidgen("generate", "a fox", "--no-wait")).toMatchObject({ code: 10 });
    expect(await world.vidgen("wait", "--all")).toMatchObject({ code: 0 });
    expect((await world.vidgen("list", "--status", "lost")).stdout).toContain(id);
    expect(paid(world)).toBe(1);
    world.faults.length = 0;
    expect(await world.vidgen("generate", "a fox", "--again")).toMatchObject({ code: 0 });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(3);
  });

  test("a process that is suspended before it reads a 404 does not call the id lost after its pause", async () => {
    const world = await createWorld();
    const now = world.io.now;
    let pausedMs = 0;
    world.io.now = () => now() + pausedMs;
    let refusals = 0;
    world.faults.push((request) => {
      if (!isPoll(request) || refusals === 2) return undefined;
      if (++refusals === 2) pausedMs = 400_000;
      return goneReply();
    });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect([refusals, paid(world)]).toEqual([2, 1]);
  });

  test("a lost id that the service knows again is found again", async () => {
    const world = await createWorld();
    await kill(world, isPoll, "generate", "a fox");
    const { id } = journalLines(world)[1];
    world.faults.push((request) => (isPoll(request) ? goneReply() : undefined));
    expect(await world.vidgen("wait", id)).toMatchObject({ code: 10 });
    world.faults.length = 0;
    expect(await world.vidgen("wait", id)).toMatchObject({ code: 0 });
    expect((await world.vidgen("list", "--status", "completed")).stdout).toContain(id);
  });

  test("a lost attempt can be dismissed by hand, and then the same run starts a new one", async () => {
    const world = await createWorld();
    await kill(world, isPoll, "generate", "a fox");
    world.faults.push((request) => (isPoll(request) ? goneReply() : undefined));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 10 });
    world.faults.length = 0;
    const { attempt } = journalLines(world)[0];
    expect(await world.vidgen("list", "--dismiss", attempt)).toMatchObject({ code: 0 });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(2);
  });

  test("the key of another account closes nothing that the right one has started", async () => {
    const world = await createWorld();
    await kill(world, isPoll, "generate", "a fox");
    const before = journalLines(world);
    world.env.VIDGEN_API_KEY = "another-key-9876543210";
    world.faults.push((request) =>
      request.headers.get("Authorization")?.includes("another-key") ? goneReply() : undefined,
    );
    for (const argv of [
      ["wait", "--all"],
      ["wait", before[1].id],
      ["generate", "a fox"],
      ["status", before[1].id],
    ]) {
      const run = await world.vidgen(...argv);
      expect(run).toMatchObject({ code: 10, stderr: expect.stringContaining(`account ${before[0].account}`) });
      expect(run.stderr).not.toContain("another-key");
    }
    expect(journalLines(world).filter(({ kind }) => kind === "lost" || kind === "failed")).toEqual([]);
    world.env.VIDGEN_API_KEY = apiKey;
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(1);
  });

  test.each([
    ["a key", apiKey],
    ["the key of another service", "canary-engine-9876543210"],
  ])("%s in a prompt or a field is not in the journal, and the run is still recognised", async (_, key) => {
    const world = await createWorld();
    world.env.FAL_KEY = "canary-engine-9876543210";
    const argv = ["generate", `a fox with ${key}`, "--set", `note=${key}`];
    await kill(world, isPoll, ...argv);
    expect(readFileSync(join(world.home, "journal.jsonl"), "utf8")).not.toContain(key);
    expect(await world.vidgen(...argv)).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Resuming/) });
    expect(readFileSync(join(world.home, "journal.jsonl"), "utf8")).not.toContain(key);
    expect(paid(world)).toBe(1);
  });

  test("a start that is answered with an id and success: false is unknown with that id, which wait fetches", async () => {
    const world = await createWorld();
    world.faults.push(async (request) => {
      if (!isStart(request)) return undefined;
      const reply = await world.start(request);
      return Response.json({ ...reply, success: false, error: "queue is full" });
    });
    const run = await world.vidgen("generate", "a fox", "--json");
    const { error } = JSON.parse(run.stderr);
    expect([run.code, error.code, error.id]).toEqual([6, "unknown", expect.stringMatching(/^[0-9a-f-]{36}$/)]);
    const again = await world.vidgen("generate", "a fox");
    expect(again).toMatchObject({ code: 6, stderr: expect.stringContaining(`vidgen wait ${error.id}`) });
    expect(await world.vidgen("wait", error.id)).toMatchObject({ code: 0, stdout: expect.stringContaining(error.id) });
    expect((await world.vidgen("list")).stdout).toMatch(/completed/);
    expect(paid(world)).toBe(1);
  });

  test("a refusal that names an id is a refusal, and the id is reported and recorded", async () => {
    const world = await createWorld();
    const id = "0b9c6a52-1f6e-4a35-9c0e-3a6f0f2a7d11";
    world.faults.push(onStart(() => Response.json({ error: "bad prompt", data: { id } }, { status: 400 })));
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({ code: 1, stderr: expect.stringContaining(id) });
    expect(journalLines(world).at(-1)).toMatchObject({ kind: "refused", id });
    expect((await world.vidgen("list")).stdout).toContain(id);
  });

  test("a refusal whose generation the service calls unclear may have been charged: exit 6, and the same line sends nothing", async () => {
    const world = await createWorld();
    const id = "0b9c6a52-1f6e-4a35-9c0e-3a6f0f2a7d11";
    const unclear = { id, status: "failed", error: "no response of the engine", error_code: "unclear" };
    let starts = 0;
    world.faults.push(
      onStart(() => Response.json({ error: "odd", data: { id }, starts: ++starts }, { status: 400 })),
      (request) => (isPoll(request) ? Response.json(unclear) : undefined),
    );
    for (const argv of [
      ["generate", "a fox"],
      ["generate", "a fox"],
      ["generate", "a fox", "--reuse"],
    ]) {
      const run = await world.vidgen(...argv);
      expect(run).toMatchObject({ code: 6, stdout: "", stderr: expect.stringContaining("no response of the engine") });
    }
    expect(journalLines(world).at(-1)).toMatchObject({ kind: "unclear", id });
    expect(starts).toBe(1);
  });

  test("the id of another request, or account, is not taken: a gateway that replays a reply leaves the outcome unknown", async () => {
    const world = await createWorld();
    let first: object | undefined;
    world.faults.push(async (request) => {
      if (!isStart(request)) return undefined;
      first ??= await world.start(request);
      return Response.json(first);
    });
    const file = join(world.folder, "fox.mp4");
    expect(await world.vidgen("generate", "a fox", "-o", file)).toMatchObject({ code: 0 });
    const other = join(world.folder, "owl.mp4");
    const run = await world.vidgen("generate", "an owl", "-o", other);
    expect(run).toMatchObject({ code: 6, stdout: "", stderr: expect.stringContaining("another request") });
    expect(existsSync(other)).toBe(false);
    world.env.VIDGEN_API_KEY = "another-key-9876543210";
    const again = await world.vidgen("generate", "a fox", "-o", other);
    expect(again).toMatchObject({ code: 6, stdout: "", stderr: expect.stringContaining("another request") });
    expect(existsSync(other)).toBe(false);
  });

  test("a clock that was wrong when an attempt was written down hides it from nobody", async () => {
    for (const wrong of [Date.UTC(1970), Date.UTC(2025, 11, 30), Date.UTC(2031)]) {
      const world = await createWorld();
      await world.vidgen("generate", "an owl", "--no-wait");
      const right = world.io.date;
      world.io.date = () => new Date(wrong + world.io.now());
      await kill(world, isPoll, "generate", "a fox");
      await kill(world, isStart, "generate", "a hen");
      world.io.date = right;
      const resumed = await world.vidgen("generate", "a fox");
      expect(resumed).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Resuming/m) });
      expect(await world.vidgen("generate", "a hen")).toMatchObject({ code: 6 });
      expect(paid(world)).toBe(3);
    }
  });

  test.each([
    ["with its URL not printed", [], undefined],
    ["with its events not printed", ["--events"], undefined],
    ["killed between its end and its last word", [], "completed"],
  ])("resumes a run that ended %s, and is a new one once that is delivered", async (_, flags, kind) => {
    const world = await createWorld();
    const { disk } = world.io;
    if (kind === undefined) world.isStdoutFull = true;
    else await killAtLine(world, kind, "generate", "a fox");
    if (kind === undefined) expect(await world.vidgen("generate", "a fox", ...flags)).toMatchObject({ code: 9 });
    Object.assign(world.io, { disk });
    world.isStdoutFull = false;
    const run = await world.vidgen("generate", "a fox", ...flags);
    expect(run).toMatchObject({ code: 0, stdout: expect.stringContaining(".mp4") });
    expect(paid(world)).toBe(1);
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(2);
  });

  test.each([
    ["without -o is delivered", [], /^Started/m, 2],
    ["with -o is not: that wants its file", ["-o", "fox.mp4"], /^Resuming/m, 1],
  ])("a run %s by a URL that wait and status print", async (_, flags, said, starts) => {
    for (const look of ["wait", "status"]) {
      const world = await createWorld();
      const argv = ["generate", "a fox", ...flags.map((flag) => flag.replace("fox", join(world.folder, "fox")))];
      await kill(world, isPoll, ...argv);
      await world.io.sleep(60_000);
      const { id } = journalLines(world).find(({ kind }) => kind === "accepted");
      expect(await world.vidgen(look, id)).toMatchObject({ code: 0, stdout: expect.stringContaining(".mp4") });
      expect(await world.vidgen(...argv)).toMatchObject({ code: 0, stderr: expect.stringMatching(said) });
      expect(paid(world)).toBe(starts);
    }
  });

  test("a refusal that names a running generation does not count as a refusal", async () => {
    const world = await createWorld();
    world.faults.push(async (request) => {
      if (!isStart(request)) return undefined;
      const reply = await world.start(request);
      return Response.json({ ...reply, error: "duplicate" }, { status: 409 });
    });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0, stdout: expect.stringContaining(".mp4") });
    expect(journalLines(world).map(({ kind }) => kind)).toEqual([
      "intent",
      "refused",
      "found",
      "completed",
      "delivered",
    ]);
  });

  test("a refusal that names a generation about which nobody answers may have been charged", async () => {
    const world = await createWorld();
    const id = "0b9c6a52-1f6e-4a35-9c0e-3a6f0f2a7d11";
    world.faults.push(onStart(() => Response.json({ error: "no", data: { id } }, { status: 400 })));
    world.faults.push((request) => (isPoll(request) ? new Response("", { status: 503 }) : undefined));
    for (let i = 0; i < 2; i++)
      expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6, stderr: expect.stringContaining(id) });
    expect(paid(world)).toBe(1);
  });

  test("--dry-run says what the same line would do: resume, stop, or send", async () => {
    const world = await createWorld();
    const dry = (...argv: string[]) => world.vidgen("generate", ...argv, "--dry-run");
    await kill(world, isPoll, "generate", "a fox");
    await kill(world, isStart, "generate", "an owl");
    const id = journalLines(world).find(({ kind }) => kind === "accepted").id;
    expect(await dry("a fox")).toMatchObject({ code: 0, stdout: expect.stringContaining(`Would resume ${id}`) });
    expect(await dry("an owl")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("Would send nothing, and end with exit code 6"),
    });
    for (const argv of [["a fox", "--again"], ["a fox", "-o", "x.mp4"], ["a cat"]])
      expect(await dry(...argv)).toMatchObject({ code: 0, stdout: expect.stringContaining("POST") });
    expect(paid(world)).toBe(2);
  });

  test.each([[], ["--local"]])(
    "--dry-run %j knows a run again whose prompt has a key in it, as the start does",
    async (...flags) => {
      const world = await createWorld();
      const line = ["generate", `a fox at ${apiKey}`, "--no-wait", ...flags];
      await world.vidgen(...line);
      // As a run leaves it that was killed before its id was printed.
      const journal = join(world.home, "journal.jsonl");
      const lines = readFileSync(journal, "utf8").split("\n");
      writeFileSync(journal, lines.filter((text) => !text.includes('"kind":"told"')).join("\n"));
      expect((await world.vidgen(...line, "--dry-run")).stdout).toContain("Would resume");
      expect((await world.vidgen(...line)).stderr).toContain("Resuming");
    },
  );

  describe("nothing on the disk is changed by a question:", () => {
    /** Each file and folder of the world, with what is in it, and when it was changed. */
    const snapshot = (world: World) =>
      [world.home, world.folder].flatMap((folder) =>
        readdirSync(folder, { recursive: true, withFileTypes: true }).map((found) => {
          const path = join(found.parentPath, found.name);
          const { mtimeMs, size } = statSync(path);
          return [path, mtimeMs, found.isFile() ? readFileSync(path, "utf8") : size];
        }),
      );

    test.each([
      ["a dry run", ["generate", "a fox", "--dry-run"]],
      ["one with --reuse", ["generate", "a fox", "--reuse", "--dry-run"]],
      ["one with -n", ["generate", "a fox", "-n", "2", "-o", "new/", "--dry-run"]],
      ["one into a folder that is not there", ["generate", "a fox", "-o", "{slug}/{id}.mp4", "--dry-run"]],
      ["one with the local service", ["generate", "a fox", "--local", "--dry-run"]],
      ["one of a batch", ["batch", "rows.txt", "-o", "new/", "--dry-run"]],
      ["one of a batch with the local service", ["batch", "rows.txt", "--local", "-o", "new/", "--dry-run"]],
      ["a list", ["list"]],
    ])("%s", async (_, argv) => {
      const world = await createWorld();
      await kill(world, isPoll, "generate", "a fox");
      writeFileSync(join(world.folder, "rows.txt"), "one\ntwo\n");
      const before = snapshot(world);
      const typed = argv.map((word) =>
        /\.txt$|\/$|\.mp4$/.test(word) ? join(world.folder, word) + (word.endsWith("/") ? "/" : "") : word,
      );
      expect(await world.vidgen(...typed)).toMatchObject({ code: 0 });
      expect(snapshot(world)).toEqual(before);
    });

    test("a dry run of a batch finds the videos that were saved, and the run that resumes writes that", async () => {
      const world = await createWorld();
      const rows = join(world.folder, "rows.txt");
      writeFileSync(rows, "one\ntwo\n");
      const batch = ["batch", rows, "-o", join(world.folder, "{n}.mp4"), "--yes"];
      expect(await world.vidgen(...batch)).toMatchObject({ code: 0 });
      // As a process leaves it that dies between the name of the video and this line.
      for (const path of [join(world.home, "journal.jsonl"), `${rows}.results.jsonl`]) {
        const lines = readFileSync(path, "utf8").split("\n");
        writeFileSync(path, lines.filter((line) => !line.includes('"kind":"delivered"')).join("\n"));
      }
      const delivered = () => journalLines(world).filter(({ kind }) => kind === "delivered").length;
      const before = snapshot(world);
      const dry = await world.vidgen(...batch, "--dry-run");
      expect(dry.stdout).toContain("2 done");
      expect([snapshot(world), delivered()]).toEqual([before, 0]);
      expect(await world.vidgen(...batch)).toMatchObject({ code: 0 });
      expect([delivered(), paid(world)]).toEqual([2, 2]);
    });
  });

  test("waits for another process no longer than --timeout, and sends nothing", async () => {
    const world = await createWorld();
    world.faults.push((request) => (isStart(request) ? new Promise<never>(() => {}) : undefined));
    void world.vidgen("generate", "a fox");
    await world.io.sleep(1_000);
    const run = await world.vidgen("generate", "a fox", "--reuse", "--timeout", "20s");
    expect(run).toMatchObject({ code: 5, stderr: expect.stringContaining("Nothing was sent") });
    expect(paid(world)).toBe(1);
  });

  test("a start of a live process is not called unknown, however long it takes", async () => {
    const world = await createWorld();
    const from = world.io.now();
    world.faults.push(
      onStart(() => Response.json({ error: "busy" }, { status: 429, headers: { "Retry-After": "110" } }), 1),
      async (request) => {
        if (isStart(request) && world.io.now() - from < 220_000) await world.io.sleep(100_000);
        return undefined;
      },
    );
    const [first, second] = await Promise.all([
      world.vidgen("generate", "a fox"),
      world.io.sleep(1_000).then(() => world.vidgen("generate", "a fox", "--reuse")),
    ]);
    expect([first.code, second.code, paid(world)]).toEqual([0, 0, 2]);
    expect(second.stdout).toBe(first.stdout);
  });

  test.each([13 * 3600_000, 40 * 86_400_000])(
    "a run that was killed %i ms ago is resumed all the same",
    async (ageMs) => {
      const world = await createWorld();
      await kill(world, isPoll, "generate", "a fox");
      await world.io.sleep(ageMs);
      const run = await world.vidgen("generate", "a fox");
      expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming") });
      expect(paid(world)).toBe(1);
    },
  );

  test.each([13 * 3600_000, 40 * 86_400_000])(
    "sends nothing %i ms after exit 6, until the attempt is dismissed",
    async (ageMs) => {
      const world = await createWorld();
      await kill(world, isStart, "generate", "a fox");
      await world.io.sleep(ageMs);
      for (const flags of [[], ["--reuse"]])
        expect(await world.vidgen("generate", "a fox", ...flags)).toMatchObject({ code: 6 });
      expect(paid(world)).toBe(1);
      const { attempt } = journalLines(world)[0];
      expect(await world.vidgen("list", "--dismiss", attempt)).toMatchObject({ code: 0 });
      expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
      expect(paid(world)).toBe(2);
    },
  );

  test("one that can be resumed comes before one that may have been charged", async () => {
    const world = await createWorld();
    await kill(world, isStart, "generate", "a fox");
    await kill(world, isPoll, "generate", "a fox", "--again");
    const [unknown] = journalLines(world);
    const path = join(world.home, "journal.jsonl");
    writeFileSync(path, readFileSync(path, "utf8").replace(/.*"kind":"dismissed".*\n/, ""));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("Resuming"),
    });
    const blocked = await world.vidgen("generate", "a fox");
    expect(blocked).toMatchObject({ code: 6, stderr: expect.stringContaining(unknown.attempt) });
    expect(paid(world)).toBe(2);
  });

  test("--reuse takes what was started with --no-wait two days ago, and nothing that was delivered then", async () => {
    const world = await createWorld();
    const started = await world.vidgen("generate", "a fox", "--no-wait");
    expect(await world.vidgen("generate", "a bear")).toMatchObject({ code: 0 });
    await world.io.sleep(48 * 3600_000);
    const run = await world.vidgen("generate", "a fox", "--reuse");
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining(started.stdout.trim()) });
    expect(paid(world)).toBe(2);
    expect(await world.vidgen("generate", "a bear", "--reuse")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(3);
  });

  test("--reuse takes the newest first, also of those far back in a long journal", async () => {
    const world = await createWorld();
    await kill(world, isPoll, "generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    const newest = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    const request = { prompt: "x".repeat(100_000), model: "wan-2.5" };
    for (let index = 0; index < 24; index++) {
      const at = world.io.date().toISOString();
      const intent = {
        at,
        kind: "intent",
        attempt: `other-${index}`,
        base_url: "https://x.example",
        account: "x",
        request,
      };
      appendFileSync(join(world.home, "journal.jsonl"), `${JSON.stringify(intent)}\n`);
    }
    await world.io.sleep(48 * 3600_000);
    const run = await world.vidgen("generate", "a fox", "--reuse");
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining(`Resuming ${newest}`) });
  });

  test("--no-wait: a run that was killed before its id was printed is resumed, and prints it; after that it is a new one", async () => {
    const world = await createWorld();
    await kill(world, isPoll, "generate", "a fox");
    const path = join(world.home, "journal.jsonl");
    // As a run with --no-wait leaves it that was killed while stdout was a full pipe.
    writeFileSync(path, readFileSync(path, "utf8").replace('"no_wait":false', '"no_wait":true'));
    const [id] = journalLines(world).flatMap(({ id }) => id ?? []);
    const run = await world.vidgen("generate", "a fox", "--no-wait");
    expect(run).toMatchObject({ code: 0, stdout: `${id}\n`, stderr: expect.stringContaining("Resuming") });
    expect(paid(world)).toBe(1);
    expect((await world.vidgen("generate", "a fox", "--no-wait", "--events")).code).toBe(0);
    expect((await world.vidgen("generate", "a fox", "--no-wait")).code).toBe(0);
    expect(paid(world)).toBe(3);
  });

  test("what may be a secret in a request is in the journal as a hash, and still recognised", async () => {
    const world = await createWorld();
    const argv = ["generate", "a fox", "--set", "mask=https://images.example/fox.png?signature=canary-1"];
    argv.push("--callback-url", "https://hooks.example/done?token=canary-2");
    await kill(world, isPoll, ...argv);
    expect(readFileSync(join(world.home, "journal.jsonl"), "utf8")).not.toContain("canary");
    expect(await world.vidgen(...argv)).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming") });
  });

  test("nor is it in the journal when the service repeats it in a refusal", async () => {
    const world = await createWorld();
    const secrets = [
      "https://me:canary@x.example/a.png",
      "https://x.example/?t=canary",
      "data:image/png;base64,canary",
    ];
    world.faults.push(() => Response.json({ error: `cannot use ${secrets.join(" or ")}` }, { status: 400 }));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 1 });
    const [, refused] = readFileSync(join(world.home, "journal.jsonl"), "utf8").split("\n");
    expect(refused).toContain(
      "cannot use https://x.example/a.png or https://x.example/?... or data:image/png;base64,...",
    );
    expect(refused).not.toContain("canary");
  });
});

/** From now on processes run in another container, which has the same journal. */
function changeContainer({ io: { processes } }: World): void {
  const { self } = processes;
  processes.self = async () => ({ ...(await self()), namespace: "2" });
}

describe("in another container, where nobody sees at once whether the first one was killed, it waits for that", () => {
  test.each([
    ["resumes", isPoll, 0],
    ["sends nothing, if its request was out", isStart, 6],
  ])("and %s", async (_, moment, code) => {
    const world = await createWorld();
    await kill(world, moment, "generate", "a fox");
    changeContainer(world);
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({ code, stderr: expect.stringContaining("Another process has started the same") });
    expect(paid(world)).toBe(1);
  });

  test("and is a new one beside a process that lives", async () => {
    const world = await createWorld({ renderMs: 120_000 });
    const first = world.vidgen("generate", "a fox");
    await world.io.sleep(15_000);
    changeContainer(world);
    const begin = world.io.now();
    const second = world.vidgen("generate", "a fox");
    while (paid(world) < 2) await world.io.sleep(100);
    expect(world.io.now() - begin).toBeLessThan(11_000);
    for (const run of await Promise.all([first, second])) expect(run).toMatchObject({ code: 0 });
  });
});

test("a lock that a process elsewhere has left is waited for, with a note, and Ctrl-C ends the wait", async () => {
  const world = await createWorld();
  const lock = join(world.home, "journal.jsonl.lock");
  const file = join(lock, "boot_9_77_5_token");
  mkdirSync(lock, { recursive: true });
  writeFileSync(file, "");
  utimesSync(file, world.io.date(), world.io.date());
  void world.io.sleep(5_000).then(() => world.press("Ctrl-C"));
  const interrupted = await world.vidgen("generate", "a fox");
  expect(interrupted).toMatchObject({
    code: 130,
    stderr: expect.stringContaining(`process 77 to release the lock ${lock}`),
  });
  expect([paid(world), world.io.now() < 6_000]).toEqual([0, true]);
  world.reboot();
  expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
});

test("a process whose lease is gone stops writing: exit 9, with the command to continue", async () => {
  const world = await createWorld();
  world.faults.push((request) => {
    if (isPoll(request)) rmSync(join(world.folder, ".fox.mp4.lock"), { recursive: true, force: true });
    return undefined;
  });
  const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
  expect(run).toMatchObject({ code: 9, stderr: expect.stringContaining("Resume with: vidgen wait") });
});

describe("--reuse", () => {
  test("leaves a generation to the process that waits for it: the same run beside that is still a new one", async () => {
    const world = await createWorld({ renderMs: 60_000 });
    const first = world.vidgen("generate", "a fox");
    await world.io.sleep(12_000);
    expect(await world.vidgen("generate", "a fox", "--reuse", "--timeout", "1s")).toMatchObject({ code: 5 });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect([(await first).code, paid(world)]).toEqual([0, 2]);
  });

  test("started several times at once, pays for one generation, and each gets its id", async () => {
    const world = await createWorld();
    const runs = Array.from({ length: 4 }, () => world.vidgen("generate", "a fox", "--reuse"));
    const ended = await Promise.all(runs);
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect([new Set(ended.map(({ stdout }) => stdout)).size, paid(world)]).toEqual([1, 1]);
  });

  test("waits for the outcome of another's request: refused, it starts its own", async () => {
    const world = await createWorld();
    let starts = 0;
    world.faults.push(async (request, { io }) => {
      if (!isStart(request) || ++starts > 1) return undefined;
      await io.sleep(5_000);
      return Response.json({ error: "no" }, { status: 400 });
    });
    const [first, second] = await Promise.all([0, 1].map(() => world.vidgen("generate", "a fox", "--reuse")));
    expect([first?.code, second?.code].sort()).toEqual([0, 1]);
    expect(paid(world)).toBe(2);
  });

  test("excludes --again", async () => {
    const world = await createWorld();
    expect(await world.vidgen("generate", "a fox", "--reuse", "--again")).toMatchObject({ code: 2 });
  });
});

test("a forgotten generation is no longer in the journal, nor is its prompt", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "a secret fox", "-o", join(world.folder, "fox.mp4"));
  const [{ id }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
  const kept = (await world.vidgen("generate", "an owl", "--no-wait")).stdout.trim();
  expect(await world.vidgen("list", "--forget", id)).toMatchObject({ code: 0, stdout: "" });
  expect(readFileSync(join(world.home, "journal.jsonl"), "utf8")).not.toMatch(new RegExp(`secret|${id}`));
  expect((await world.vidgen("list", "--json")).stdout).toContain(kept);
  expect(await world.vidgen("list", "--forget", id)).toMatchObject({ code: 10 });
  expect(await world.vidgen("list", "--dismiss", kept)).toMatchObject({ code: 2 });
});

describe("a partial file", () => {
  /** Sends a video without its end, and the end when a later request asks for it. */
  const cut = (body: Uint8Array<ArrayBuffer>, etag: string) => (request: Request) => {
    const range = request.headers.get("Range");
    const headers = { ETag: etag, "Accept-Ranges": "bytes" };
    if (range !== null && request.headers.get("If-Range") === etag) {
      const start = Number(/\d+/.exec(range)?.[0]);
      const contentRange = `bytes ${start}-${body.length - 1}/${body.length}`;
      return new Response(body.slice(start), { status: 206, headers: { ...headers, "Content-Range": contentRange } });
    }
    return new Response(body.slice(0, -3), { headers: { ...headers, "Content-Length": String(body.length) } });
  };

  test("of another generation with the same -o is never resumed", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    const ids: string[] = [];
    // Both servers of videos use one ETag, as some do for everything.
    const videos = ["the first fox, and more of it", "another fox"].map((text) => Uint8Array.from(tinyMp4(text)));
    world.faults.push((request) => {
      const index = ids.findIndex((id) => isDownload(request) && request.url.includes(id));
      const video = videos[index];
      return video ? cut(video, '"same"')(request) : undefined;
    });
    for (const prompt of ["one", "two"]) {
      const started = await world.vidgen("generate", prompt, "--no-wait");
      ids.push(started.stdout.trim());
    }
    const [first = "", second = ""] = ids;
    const fail = (request: Request) => (request.headers.has("Range") ? new Response("", { status: 500 }) : undefined);
    world.faults.unshift(fail);
    expect(await world.vidgen("wait", first, "-o", file)).toMatchObject({ code: 9 });
    expect(existsSync(findPart(world.folder))).toBe(true);
    world.faults.shift();
    expect(await world.vidgen("wait", second, "-o", file)).toMatchObject({ code: 0 });
    expect(readFileSync(file)).toEqual(Buffer.from(videos[1] ?? []));
  });

  test("that holds another generation's bytes is replaced: other names of it keep them", async () => {
    const world = await createWorld();
    const [file, kept] = [join(world.folder, "fox.mp4"), join(world.folder, "kept.mp4")];
    const video = Uint8Array.from(tinyMp4("a fox"));
    world.faults.push((request) => (isDownload(request) ? cut(video, '"one"')(request) : undefined));
    await kill(world, (request) => request.headers.has("Range"), "generate", "a fox", "-o", file);
    world.faults.pop();
    // It was killed after it had linked the whole video to its name.
    writeFileSync(findPart(world.folder), video);
    linkSync(findPart(world.folder), kept);
    expect(await world.vidgen("generate", "an owl", "-o", file)).toMatchObject({ code: 0 });
    const wanted = ["an owl", "a fox"].map((prompt) => Buffer.from(tinyMp4(prompt)));
    expect([file, kept].map((path) => readFileSync(path))).toEqual(wanted);
  });

  test("that another program has put there is neither gone on with nor deleted", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    const video = Uint8Array.from(tinyMp4("a fox"));
    world.faults.push((request) => (isDownload(request) ? cut(video, '"one"')(request) : undefined));
    await kill(world, (request) => request.headers.has("Range"), "generate", "a fox", "-o", file);
    const other = tinyMp4("x cat").slice(0, -3);
    writeFileSync(`${file}.other`, other);
    const part = findPart(world.folder);
    renameSync(`${file}.other`, part);
    const refused = await world.vidgen("generate", "a fox", "-o", file);
    expect(refused).toMatchObject({ code: 9, stderr: expect.stringContaining(`${basename(part)} already exists`) });
    expect(refused.stderr).toContain("move that .part file away");
    expect(readFileSync(part)).toEqual(Buffer.from(other));
    renameSync(part, `${file}.other`);
    expect(await world.vidgen("generate", "a fox", "-o", file)).toMatchObject({ code: 0 });
    expect([paid(world), readFileSync(file)]).toEqual([1, Buffer.from(video)]);
  });

  test("of a generation that has failed meanwhile is removed by the next process", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    await kill(world, isPoll, "generate", "a fox", "-o", file);
    expect(existsSync(findPart(world.folder))).toBe(true);
    world.faults.push((request) => {
      const id = new URL(request.url).searchParams.get("id");
      return isPoll(request) ? Response.json({ id, status: "failed", error: "no" }) : undefined;
    });
    expect(await world.vidgen("generate", "a fox", "-o", file)).toMatchObject({ code: 4 });
    expect(readdirSync(world.folder)).toEqual([]);
  });

  test("whose file has come into being meanwhile is left, and the error says how to continue", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    await kill(world, isPoll, "generate", "a fox", "-o", file);
    writeFileSync(file, "precious");
    const run = await world.vidgen("generate", "a fox", "-o", file);
    expect(run).toMatchObject({ code: 9, stderr: expect.stringContaining(`${file} already exists.`) });
    expect(run.stderr).toContain("vidgen wait ");
    expect([readFileSync(file, "utf8"), paid(world)]).toEqual(["precious", 1]);
  });

  test("that has another name too is never written to: it may be the saved video", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    const video = Uint8Array.from(tinyMp4("a fox"));
    world.faults.push((request) => (isDownload(request) ? cut(video, '"one"')(request) : undefined));
    await kill(world, (request) => request.headers.has("Range"), "generate", "a fox", "-o", file);
    linkSync(findPart(world.folder), `${file}.kept`);
    const before = readFileSync(`${file}.kept`);
    expect(await world.vidgen("generate", "a fox", "-o", file)).toMatchObject({ code: 0 });
    expect([readFileSync(`${file}.kept`), readFileSync(file)]).toEqual([before, Buffer.from(video)]);
  });
});

test("a video that was streamed to stdout is saved, and one whose reader left is still open", async () => {
  const world = await createWorld();
  expect(await world.vidgen("generate", "a fox", "-o", "-")).toMatchObject({ code: 0 });
  const [entry] = JSON.parse((await world.vidgen("list", "--json")).stdout);
  expect(entry).toMatchObject({ status: "completed", file: "-" });
  expect((await world.vidgen("wait", "--all")).stderr).toContain("Nothing to wait for");
});

describe("--dismiss of an attempt whose process is on another machine", () => {
  /** An attempt that is being sent, by the clock of another machine ten minutes ago. */
  const startElsewhere = async () => {
    const world = await createWorld();
    await kill(world, isStart, "generate", "a fox");
    const path = join(world.home, "journal.jsonl");
    const [{ attempt, at }] = journalLines(world).filter(({ kind }) => kind === "intent");
    const then = new Date(Date.parse(at) - 600_000).toISOString();
    writeFileSync(path, readFileSync(path, "utf8").replaceAll(at, then));
    const lease = join(world.home, "journal.jsonl.leases", attempt);
    const [name = ""] = readdirSync(lease);
    const other = join(lease, "elsewhere_9_77_5_token");
    renameSync(join(lease, name), other);
    return { world, attempt, other, dismiss: () => world.vidgen("list", "--dismiss", attempt) };
  };

  test("is refused once that is seen to run, whatever the two clocks say", async () => {
    const { world, other, dismiss } = await startElsewhere();
    const refreshed = world.io.sleep(5_000).then(() => utimesSync(other, world.io.date(), world.io.date()));
    expect(await dismiss()).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Waiting up to 60 s to find out"),
    });
    await refreshed;
    expect(journalLines(world).map(({ kind }) => kind)).not.toContain("dismissed");
  });

  test("is done once that was seen to do nothing for a minute", async () => {
    const { world, dismiss } = await startElsewhere();
    const begin = world.io.now();
    expect(await dismiss()).toMatchObject({ code: 0 });
    expect(world.io.now() - begin).toBeGreaterThanOrEqual(60_000);
  });
});

test("an attempt whose id is written while it is dismissed is not dismissed", async () => {
  const world = await createWorld();
  await kill(world, isStart, "generate", "a fox");
  const [{ attempt, at }] = journalLines(world).filter(({ kind }) => kind === "intent");
  // The process ends as soon as somebody asks for it, and has written its outcome by then.
  const { startOf } = world.io.processes;
  const accepted = { at, kind: "accepted", attempt, id: "11111111-2222-4333-8444-555555555555" };
  let isWritten = false;
  world.io.processes.startOf = async (pid) => {
    const start = await startOf(pid);
    if (start === undefined && !isWritten) {
      isWritten = true;
      appendFileSync(join(world.home, "journal.jsonl"), `${JSON.stringify(accepted)}\n`);
    }
    return start;
  };
  expect(await world.vidgen("list", "--dismiss", attempt)).toMatchObject({ code: 2 });
  expect(isWritten).toBe(true);
});

describe("an intent whose request is not sent, on a disk that fails", () => {
  type Failing = { call: "write" | "datasync"; code: string; lines: RegExp };

  /** The disk fails at this call for these lines of the journal, and for a line that is blanked where they match spaces; returns what heals it. */
  const failAt = (world: World, { call, code, lines }: Failing): (() => void) => {
    const { disk } = world.io;
    const open = (async (...how: Parameters<typeof disk.open>) => {
      const file = await disk.open(...how);
      if (!how[0].endsWith("journal.jsonl")) return file;
      const { write, datasync } = file;
      let text = "";
      const check = (at: string) => {
        if (at === call && lines.test(text)) throw Object.assign(new Error(`${code} on purpose`), { code });
      };
      return Object.assign(file, {
        write: async (bytes: Uint8Array, ...rest: never[]) => {
          text = Buffer.from(bytes).toString();
          check("write");
          return write.call(file, bytes as never, ...rest);
        },
        datasync: async () => {
          check("datasync");
          return datasync.call(file);
        },
      });
    }) as typeof disk.open;
    Object.assign(world.io, { disk: { ...disk, open } });
    return () => void Object.assign(world.io, { disk });
  };

  const line = (world: World) => ["generate", "a fox", "-o", join(world.folder, "fox.mp4")];
  const unreachable = (world: World) => {
    world.faults.push((request) => {
      if (isStart(request)) throw failure("ENOTFOUND", false);
      return undefined;
    });
  };
  /** The partial file cannot be made. */
  const unwritable = (world: World) => {
    const { disk } = world.io;
    const denied = Object.assign(new Error("denied"), { code: "EACCES" });
    const open = (async (...how: Parameters<typeof disk.open>) => {
      if (how[0].endsWith(".part")) throw denied;
      return disk.open(...how);
    }) as typeof disk.open;
    Object.assign(world.io, { disk: { ...disk, open } });
  };
  const nothing = () => {};

  const codes = ["EIO", "ENOSPC", "EDQUOT"];
  const calls = ["write", "datasync"] as const;
  const each = codes.flatMap((code) => calls.map((call) => ({ code, call })));

  const causes = [
    {
      cause: "its own line cannot be written",
      fail: nothing,
      lines: /"kind":"(intent)"/,
      says: /^error: Cannot write the journal/m,
    },
    {
      cause: "nor can `unsent`",
      fail: nothing,
      lines: /"kind":"(intent|unsent)"/,
      says: /^error: Cannot write the journal/m,
    },
    {
      cause: "the service cannot be reached",
      fail: unreachable,
      lines: /"kind":"unsent"/,
      says: /^error: Could not reach/m,
    },
    {
      cause: "the partial file cannot be made",
      fail: unwritable,
      lines: /"kind":"unsent"/,
      says: /^error: Cannot save/m,
    },
  ];

  test.each(causes.flatMap((one) => each.map((how) => ({ ...one, ...how }))))(
    "$cause: the same line starts it, once ($code at the $call)",
    async ({ fail, says, ...failing }) => {
      const world = await createWorld();
      const { disk } = world.io;
      fail(world);
      failAt(world, failing);
      const run = await world.vidgen(...line(world));
      expect(run.stderr).toMatch(says);
      expect(run.stderr).toContain("Nothing was sent, nothing was charged.");
      expect(run.stderr).not.toContain("exit 6");
      Object.assign(world.io, { disk });
      world.faults.length = 0;
      const sent = paid(world);
      world.reboot();
      expect(await world.vidgen(...line(world))).toMatchObject({ code: 0 });
      expect(paid(world) - sent).toBe(1);
      expect((await world.vidgen("list", "--status", "unknown")).stdout).toBe("");
    },
  );

  test.each(codes)(
    "an id that cannot be written down is told, with the command that continues it (%s)",
    async (code) => {
      const world = await createWorld();
      const heal = failAt(world, { code, call: "write", lines: /"kind":"accepted"/ });
      await kill(world, isPoll, "generate", "a fox", "--no-input");
      const { stderr } = world.printed;
      const [, id = ""] = /`vidgen wait ([0-9a-f-]{36})` continues/.exec(stderr) ?? [];
      expect(stderr).toContain("This start could not be recorded: the same command may stop with exit 6.");
      heal();
      expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
      expect(await world.vidgen("wait", id)).toMatchObject({ code: 0 });
      expect(paid(world)).toBe(1);
    },
  );

  test.each(codes)("a new one, beside an old one that --again cannot dismiss, is unsent (%s)", async (code) => {
    const world = await createWorld();
    await kill(world, isStart, "generate", "a fox");
    const heal = failAt(world, { code, call: "write", lines: /"kind":"dismissed"/ });
    expect(await world.vidgen("generate", "a fox", "--again")).toMatchObject({ code: 9 });
    heal();
    world.reboot();
    const listed = JSON.parse((await world.vidgen("list", "--json")).stdout);
    expect(listed.map(({ status }: { status: string }) => status)).toEqual(["unsent", "unknown"]);
    expect(await world.vidgen("generate", "a fox", "--again")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(2);
  });

  test.each([unreachable, unwritable].flatMap((fail) => each.map((how) => ({ fail, ...how }))))(
    "where neither `unsent` nor a blank can be written, it says so, and how to continue ($code at the $call)",
    async ({ fail, ...how }) => {
      const world = await createWorld();
      const { disk } = world.io;
      fail(world);
      failAt(world, { ...how, lines: /"kind":"unsent"|^ +$/ });
      const run = await world.vidgen(...line(world), "--json");
      const { error } = JSON.parse(run.stderr.slice(run.stderr.indexOf("{")));
      expect(error.message).toContain("Nothing was sent, nothing was charged.");
      expect(error.message).toContain("the same command may stop with exit 6");
      const [, ...dismiss] = /`(vidgen list --dismiss [0-9a-f-]{36})`/.exec(error.hint)?.[1]?.split(" ") ?? [];
      Object.assign(world.io, { disk });
      world.faults.length = 0;
      const sent = paid(world);
      world.reboot();
      // What the system has of the file may say it anyway.
      if (how.call === "write") {
        expect(await world.vidgen(...line(world))).toMatchObject({ code: 6 });
        expect(await world.vidgen(...dismiss)).toMatchObject({ code: 0 });
      }
      expect(await world.vidgen(...line(world))).toMatchObject({ code: 0 });
      expect(paid(world) - sent).toBe(1);
    },
  );
});
