import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Row } from "../../../src/client/batch/row.ts";
import { createMachine, createService, type Machine, type Service, type ServiceOptions } from "./machine.ts";

const keepFrame = async (video: string) => ({ path: readFileSync(video, "latin1"), isNearlyOneColor: false });

/** Rows `a`, `b` from `a`, `c` from `b`, and `d` alone; each prompt can be changed. */
function filmOf(machine: Machine, prompts: Partial<Record<string, string>> = {}): Row[] {
  return ["a", "b", "c", "d"].map((id, i) => {
    const outputPath = join(machine.folder, `${id}.mp4`);
    const row = machine.row(prompts[id] ?? `shot ${id}`, { id, line: i + 2, outputPath });
    if (id === "a" || id === "d") return row;
    return { ...row, from: i - 1, load: async (frame) => ({ ...row.record, imageUrl: frame }) };
  });
}

async function createFilm(options: ServiceOptions = {}) {
  const service = createService({ contentOf: ({ id }) => id, ...options });
  const machine = createMachine(service);
  await machine.run(filmOf(machine), { keepFrame });
  return { service, machine };
}

let names = 0;
const redoOf = (...rows: string[]) => ({ redo: { rows, name: `redo-${++names}` }, keepFrame });
const again = (...rows: string[]) => ({ redo: { rows, again: true, name: `redo-${++names}` }, keepFrame });
const idIn = (machine: Machine, name: string) =>
  /gen-\d+/.exec(readFileSync(join(machine.folder, name), "latin1"))?.[0];
const madeSince = (service: ReturnType<typeof createService>, count = 4) =>
  service.generations.slice(count).map(({ prompt }) => prompt);

test("a row is made again with all that begin with its frame; ids stay, the old videos keep their bytes, and a second line pays nothing", async () => {
  const { service, machine } = await createFilm();
  const before = ["a", "b", "c", "d"].map((id) => idIn(machine, `${id}.mp4`));
  const { batch } = await machine.run(filmOf(machine), redoOf("b"));
  expect(batch.plan).toMatchObject({ done: 2, to_start: 2 });
  expect(madeSince(service)).toEqual(["shot b", "shot c"]);
  expect(["b.take-1.mp4", "c.take-1.mp4"].map((name) => idIn(machine, name))).toEqual([before[1], before[2]]);
  expect(["a.mp4", "b.mp4", "c.mp4"].map((name) => idIn(machine, name))).toEqual([before[0], "gen-5", "gen-6"]);
  expect(service.generations.at(-1)?.request).toMatchObject({ imageUrl: expect.stringContaining("gen-5") });
  const second = await machine.run(filmOf(machine), redoOf("b"));
  expect(second.batch.plan).toMatchObject({ done: 4, to_start: 0 });
  expect(second.batch.upToDate.map(({ key }) => key)).toEqual(["b"]);
  expect(service.starts).toBe(6);
  expect(await machine.status()).toMatchObject({ rows: 4, done: 4, double_rows: [] });
});

test("--again makes a further one, whose name is the next free one", async () => {
  const { service, machine } = await createFilm();
  await machine.run(filmOf(machine), redoOf("c"));
  await machine.run(filmOf(machine), again("c"));
  expect(madeSince(service)).toEqual(["shot c", "shot c"]);
  expect(["c.mp4", "c.take-1.mp4", "c.take-2.mp4"].map((name) => idIn(machine, name))).toEqual([
    "gen-6",
    expect.stringMatching(/gen-[1-4]/),
    "gen-5",
  ]);
});

test("a row that was edited since then is redone again with the same id; without --redo it is refused", async () => {
  const { service, machine } = await createFilm();
  await machine.run(filmOf(machine), redoOf("d"));
  const edited = filmOf(machine, { d: "another shot d" });
  await expect(machine.run(edited, { keepFrame })).rejects.toThrow(/"d" is a different request .* with --redo/);
  await machine.run(edited, redoOf("d"));
  await machine.run(edited, redoOf("d"));
  expect(madeSince(service)).toEqual(["shot d", "another shot d"]);
});

test("killed, any line with the row continues it, and a row edited meanwhile is refused until it has ended", async () => {
  const { service, machine } = await createFilm();
  const killed = machine.run(filmOf(machine), redoOf("a"));
  await service.clock.sleep(90_000);
  machine.kill();
  void killed;
  expect(madeSince(service)).toEqual(["shot a", "shot b"]);
  machine.laterMs = 40 * 24 * 3600_000;
  for (const id of ["b", "c"])
    await expect(machine.run(filmOf(machine, { [id]: "edited" }), redoOf(id))).rejects.toThrow(/different request/);
  const { batch } = await machine.run(filmOf(machine), again("a", "c"));
  expect(batch.plan).toMatchObject({ done: 2, running: 1, to_start: 1 });
  await machine.run(filmOf(machine), { keepFrame });
  expect(madeSince(service)).toEqual(["shot a", "shot b", "shot c"]);
  expect(
    readdirSync(machine.folder)
      .filter((name) => name.endsWith(".mp4"))
      .sort(),
  ).toEqual(["a.mp4", "a.take-1.mp4", "b.mp4", "b.take-1.mp4", "c.mp4", "c.take-1.mp4", "d.mp4"].sort());
});

test("while rows are being redone, a row that they begin with cannot be redone", async () => {
  const { service, machine } = await createFilm();
  const killed = machine.run(filmOf(machine), redoOf("b"));
  await service.clock.sleep(30_000);
  machine.kill();
  void killed;
  await expect(machine.run(filmOf(machine), redoOf("a"))).rejects.toThrow(
    "line 3: is not finished, and begins with the frame of line 2; run the same line without --redo first",
  );
  await machine.run(filmOf(machine), redoOf("b"));
  await machine.run(filmOf(machine), redoOf("a"));
  expect(madeSince(service)).toEqual(["shot b", "shot c", "shot a", "shot b", "shot c"]);
});

test("what failed or may have been charged is not made again by the same line", async () => {
  const { service, machine } = await createFilm();
  service.fault = (prompt) => (prompt === "shot d" ? new Response("oops", { status: 502 }) : undefined);
  await machine.run(filmOf(machine), redoOf("d"));
  service.fault = undefined;
  for (const options of [redoOf("d"), again("d"), { keepFrame }]) {
    const { batch } = await machine.run(filmOf(machine), options);
    expect(batch.plan).toMatchObject({ unknown: 1, to_start: 0 });
  }
  await machine.run(filmOf(machine), { ...redoOf("d"), retryUnknown: true });
  await machine.run(filmOf(machine), redoOf("d"));
  expect(madeSince(service)).toEqual(["shot d"]);
});

test.each([
  ["by its name", () => redoOf("b")],
  ["with all", () => ({ redo: { rows: "all" as const, name: "redo-all" }, keepFrame })],
])(
  "a row that failed is made by a redo %s, with the rows that begin with its frame; by no other line",
  async (_, redo) => {
    const service = createService({ contentOf: ({ id }) => id });
    const machine = createMachine(service);
    service.fault = (prompt) => (prompt === "shot b" ? Response.json({ error: "no" }, { status: 400 }) : undefined);
    await machine.run(filmOf(machine), { keepFrame });
    service.fault = undefined;
    for (const options of [{ keepFrame }, redoOf("c")])
      expect((await machine.run(filmOf(machine), options)).batch.plan).toMatchObject({ failed: 1, to_start: 0 });
    await machine.run(filmOf(machine), redo());
    expect(madeSince(service, 2).filter((prompt) => /[bc]/.test(prompt))).toEqual(["shot b", "shot c"]);
    expect(await machine.status()).toMatchObject({ rows: 4, done: 4, double_rows: [] });
    expect((await machine.run(filmOf(machine), redoOf("b"))).batch.plan).toMatchObject({ done: 2, to_start: 2 });
  },
);

test("after a redo that failed, an edited row is made once", async () => {
  const { service, machine } = await createFilm();
  const first = filmOf(machine, { d: "d [fail]" });
  await machine.run(first, redoOf("d"));
  expect((await machine.run(first, { keepFrame })).batch.plan).toMatchObject({ failed: 1, to_start: 0 });
  const edited = filmOf(machine, { d: "better d" });
  await machine.run(edited, redoOf("d"));
  await machine.run(edited, redoOf("d"));
  expect(madeSince(service)).toEqual(["d [fail]", "better d"]);
  expect(idIn(machine, "d.take-1.mp4")).toMatch(/gen-[1-4]/);
});

test("with the results file gone, a finished redo is still up to date", async () => {
  const { service, machine } = await createFilm();
  await machine.run(filmOf(machine), redoOf("d"));
  rmSync(machine.results);
  const { batch } = await machine.run(filmOf(machine), redoOf("d"));
  expect(batch.upToDate).toHaveLength(1);
  expect(service.starts).toBe(5);
});

test("with another results file, the redo is known there too", async () => {
  const { service, machine } = await createFilm();
  const killed = machine.run(filmOf(machine), redoOf("d"));
  await service.clock.sleep(1_000);
  machine.kill();
  void killed;
  const results = join(machine.folder, "other.jsonl");
  await machine.run(filmOf(machine), { ...redoOf("d"), results });
  rmSync(machine.results);
  await machine.run(filmOf(machine), { ...redoOf("d"), results });
  expect(madeSince(service)).toEqual(["shot d"]);
});

test("another program's file is not taken for the old video, and is never renamed or replaced", async () => {
  const { service, machine } = await createFilm();
  writeFileSync(join(machine.folder, "d.mp4"), "mine");
  await expect(machine.run(filmOf(machine), redoOf("d"))).rejects.toThrow(/already exists/);
  expect(service.starts).toBe(4);
  expect(existsSync(join(machine.folder, "d.take-1.mp4"))).toBe(false);
});

test("--overwrite keeps the old video too", async () => {
  const { machine } = await createFilm();
  await machine.run(filmOf(machine), { ...redoOf("d"), overwrite: true });
  expect([idIn(machine, "d.mp4"), idIn(machine, "d.take-1.mp4")]).toEqual([
    "gen-5",
    expect.stringMatching(/gen-[1-4]/),
  ]);
});

test("a redo whose line cannot be read stops the batch", async () => {
  const { service, machine } = await createFilm();
  await machine.run(filmOf(machine), redoOf("d"));
  const text = readFileSync(machine.results, "utf8");
  writeFileSync(machine.results, text.replace('"replaces":[', '"replaces":["x",1,'));
  await expect(machine.run(filmOf(machine), redoOf("d"))).rejects.toThrow(/Cannot read line \d+/);
  expect(service.starts).toBe(5);
});

/** The lines of the journal as they were at some moment; and of the results file. */
const snapshot = (machine: Machine) => readFileSync(machine.results, "utf8");
const restore = (machine: Machine, text: string | undefined) =>
  text === undefined ? rmSync(machine.results) : writeFileSync(machine.results, text);

const unclear = () => new Response("oops", { status: 502 });

test.each([
  ["is restored as it was before", true],
  ["is deleted", false],
])("an unclear redo is known from the journal if the results file %s", async (_, isRestored) => {
  const { service, machine } = await createFilm();
  const before = snapshot(machine);
  service.fault = (prompt, accept) => (prompt === "shot d" ? accept() && unclear() : undefined);
  await machine.run(filmOf(machine), redoOf("d"));
  service.fault = undefined;
  for (const options of [{ keepFrame }, redoOf("d"), again("d"), redoOf("d")]) {
    restore(machine, isRestored ? before : undefined);
    const { batch } = await machine.run(filmOf(machine), options);
    expect(batch.plan).toMatchObject({ done: 3, unknown: 1, to_start: 0 });
  }
  expect(madeSince(service)).toEqual(["shot d"]);
});

test("an unclear redo that --retry-unknown made again replaces the first video, although no results file knows of a redo", async () => {
  const { service, machine } = await createFilm();
  const before = snapshot(machine);
  service.fault = (prompt) => (prompt === "shot d" ? unclear() : undefined);
  await machine.run(filmOf(machine), redoOf("d"));
  await machine.run(filmOf(machine), { keepFrame, retryUnknown: true });
  restore(machine, before);
  const { batch } = await machine.run(filmOf(machine), { keepFrame });
  expect(batch.plan).toMatchObject({ done: 3, unknown: 1, to_start: 0 });
  service.fault = undefined;
  restore(machine, before);
  await machine.run(filmOf(machine), { keepFrame, retryUnknown: true });
  restore(machine, before);
  const second = await machine.run(filmOf(machine), redoOf("d"));
  expect(second.batch.upToDate.map(({ key }) => key)).toEqual(["d"]);
  expect(madeSince(service)).toEqual(["shot d"]);
});

test.each([
  ["running", async ({ service }: { service: Service }) => void (await service.clock.sleep(30_000))],
  ["finished", async ({ service }: { service: Service }) => void (await service.clock.sleep(300_000))],
])("a %s redo is not paid again, however often the results file goes back", async (_, wait) => {
  const { service, machine } = await createFilm();
  const before = snapshot(machine);
  void machine.run(filmOf(machine), redoOf("d"));
  await wait({ service });
  machine.kill();
  for (const options of [redoOf("d"), { keepFrame }, redoOf("d")]) {
    restore(machine, before);
    await machine.run(filmOf(machine), options);
  }
  expect(madeSince(service)).toEqual(["shot d"]);
  expect(await machine.status()).toMatchObject({ done: 4, double_rows: [] });
});

test("a failed redo whose line is lost leaves the first video, and the next redo is one start", async () => {
  const { service, machine } = await createFilm();
  const before = snapshot(machine);
  service.fault = (prompt) => (prompt === "shot d" ? Response.json({ error: "no" }, { status: 400 }) : undefined);
  await machine.run(filmOf(machine), redoOf("d"));
  restore(machine, before);
  service.fault = undefined;
  expect((await machine.run(filmOf(machine), { keepFrame })).batch.plan).toMatchObject({ done: 4, to_start: 0 });
  for (let runs = 0; runs < 2; runs++) await machine.run(filmOf(machine), redoOf("d"));
  expect(madeSince(service)).toEqual(["shot d"]);
});

test("a failed redo that is made again carries the redo and its names", async () => {
  const { service, machine } = await createFilm();
  const before = snapshot(machine);
  service.fault = (prompt) => (prompt === "shot d" ? Response.json({ error: "no" }, { status: 400 }) : undefined);
  await machine.run(filmOf(machine), redoOf("d"));
  service.fault = undefined;
  await machine.run(filmOf(machine), { keepFrame, retryFailed: true });
  const intents = machine.lines().filter(({ kind, row }) => kind === "intent" && row === "d");
  const [first, failed, last] = intents;
  expect(failed).toMatchObject({ replaces: [first.attempt] });
  expect(last).toMatchObject({ redo: failed.redo, replaces: [first.attempt, failed.attempt] });
  restore(machine, before);
  expect((await machine.run(filmOf(machine), redoOf("d"))).batch.upToDate).toHaveLength(1);
  expect(madeSince(service)).toEqual(["shot d"]);
});

/** Changes the intents of the journal as an older version wrote them: with the redo, and without the names. */
function withoutNames(machine: Machine) {
  const lines = readFileSync(machine.journal, "utf8").split("\n").filter(Boolean);
  machine.rewriteJournal(lines.map((line) => JSON.stringify({ ...JSON.parse(line), replaces: undefined })));
}

test.each([
  ["the line of its redo is lost", true],
  ["the results file is gone", false],
])("an older version's intent replaces what stands before it in the journal if %s", async (_, isRestored) => {
  const { service, machine } = await createFilm();
  const before = snapshot(machine);
  service.fault = (prompt, accept) => (prompt === "shot d" ? accept() && unclear() : undefined);
  await machine.run(filmOf(machine), redoOf("d"));
  service.fault = undefined;
  withoutNames(machine);
  restore(machine, isRestored ? before : undefined);
  for (const options of [{ keepFrame }, redoOf("d")])
    expect((await machine.run(filmOf(machine), options)).batch.plan).toMatchObject({ unknown: 1, to_start: 0 });
  // Made again by this version: its names win over the older intent.
  await machine.run(filmOf(machine), { keepFrame, retryUnknown: true });
  restore(machine, isRestored ? before : undefined);
  expect((await machine.run(filmOf(machine), redoOf("d"))).batch.upToDate).toHaveLength(1);
  expect(madeSince(service)).toEqual(["shot d", "shot d"]);
});

test("after two redos, with the results file of before both or between them, the row is decided by the second", async () => {
  const { service, machine } = await createFilm();
  const first = snapshot(machine);
  await machine.run(filmOf(machine), redoOf("d"));
  const between = snapshot(machine);
  service.fault = (prompt, accept) => (prompt === "shot d" ? accept() && unclear() : undefined);
  await machine.run(filmOf(machine), again("d"));
  service.fault = undefined;
  for (const text of [first, between]) {
    restore(machine, text);
    for (const options of [{ keepFrame }, redoOf("d"), again("d")])
      expect((await machine.run(filmOf(machine), options)).batch.plan).toMatchObject({ unknown: 1, to_start: 0 });
  }
  expect(madeSince(service)).toEqual(["shot d", "shot d"]);
});

test("the first attempt of a redo that was killed after its line carries the names of that line", async () => {
  const { service, machine } = await createFilm();
  const before = snapshot(machine);
  const journal = readFileSync(machine.journal, "utf8").split("\n").filter(Boolean);
  await machine.run(filmOf(machine), redoOf("d"));
  const line = machine.lines().find(({ kind }) => kind === "redo");
  restore(machine, `${before}${JSON.stringify(line)}\n`);
  machine.rewriteJournal(journal);
  rmSync(join(machine.folder, "d.mp4"));
  service.fault = (prompt, accept) => (prompt === "shot d" ? accept() && unclear() : undefined);
  expect((await machine.run(filmOf(machine), { keepFrame })).batch.plan).toMatchObject({ done: 3, to_start: 1 });
  restore(machine, before);
  for (const options of [{ keepFrame }, redoOf("d")])
    expect((await machine.run(filmOf(machine), options)).batch.plan).toMatchObject({ unknown: 1, to_start: 0 });
});
