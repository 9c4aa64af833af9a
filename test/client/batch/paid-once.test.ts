import { appendFileSync, existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import type { GenerationEvent } from "../../../src/client/generation/events.ts";
import { VidgenError } from "../../../src/errors.ts";
import { type Disk, systemMachine } from "../../../src/io.ts";
import { lacks } from "../../needs.ts";
import { createMachine, createService, leaveAlone } from "./machine.ts";

test.each([
  ["the clock is set back after a refusal", 402],
  ["the service was busy, and the clock is set back", 429],
])("a row is started once although %s", async (_, status) => {
  const service = createService();
  const machine = createMachine(service);
  const { date } = service.clock;
  service.fault = () => {
    service.fault = undefined;
    service.clock.date = () => new Date(date().getTime() - 3600_000);
    return Response.json({ error: status === 402 ? "no credits" : "busy" }, { status });
  };
  for (let runs = 0; runs < 3; runs++) await machine.run([machine.row("a fox", { outputPath: undefined })]);
  expect(service.charges("a fox")).toBe(1);
});

test.skipIf(lacks("symbolic links"))(
  "a results file is held and found by its real path, whatever links lead to it",
  async () => {
    const service = createService();
    const machine = createMachine(service);
    const shots = machine.rows("a fox", "a bear");
    await machine.run(shots.slice(0, 1));
    const folder = join(machine.folder, "link");
    symlinkSync(machine.folder, folder);
    const linked = join(machine.folder, "linked.jsonl");
    symlinkSync(machine.results, linked);
    const first = await machine.open(shots);
    const other = createMachine(service, { isAlive: () => true });
    for (const results of [linked, join(folder, basename(machine.results))])
      await expect(other.open(shots, { results })).rejects.toMatchObject({ code: "usage", message: /holds/ });
    await first.close();
    rmSync(machine.results);
    const { batch } = await machine.run(shots, { results: join(folder, basename(machine.results)) });
    expect(batch.plan).toMatchObject({ done: 1, to_start: 1 });
  },
);

test("an attempt that the journal has as dismissed is followed where the results file knows its id", async () => {
  const service = createService();
  const machine = createMachine(service);
  const shots = machine.rows("a fox");
  void machine.run(shots);
  await service.clock.sleep(10_000);
  machine.kill();
  const journal = readFileSync(machine.journal, "utf8").split("\n").filter(Boolean);
  const { attempt } = JSON.parse(journal.find((line) => line.includes('"accepted"')) ?? "");
  const dismissed = JSON.stringify({ at: "2026-01-01T00:00:20.000Z", kind: "dismissed", attempt });
  machine.rewriteJournal([...journal.filter((line) => !line.includes('"accepted"')), dismissed]);
  const { batch } = await machine.run(shots);
  expect(batch.plan).toMatchObject({ running: 1, to_start: 0 });
  expect(service.charges("a fox")).toBe(1);
});

test("unknown rows that --retry-unknown passes over stay in the budget of later runs", async () => {
  const service = createService();
  const machine = createMachine(service);
  const limit = { maxCredits: 50, retryUnknown: true };
  const shots = machine.rows("a", "b", "c");
  await machine.run(shots.slice(0, 2), limit);
  service.fault = (_, accept) => accept() && new Response("oops", { status: 502 });
  for (let runs = 0; runs < 5; runs++) await machine.run(shots, limit);
  expect(service.generations).toHaveLength(5);
});

test("an unknown row is dismissed when it is started again, not before", async () => {
  const service = createService({ fault: (_, accept) => accept() && new Response("oops", { status: 502 }) });
  const machine = createMachine(service);
  const shots = machine.rows("a", "b");
  await machine.run(shots);
  service.fault = () => Response.json({ error: "no credits" }, { status: 402 });
  await machine.run(shots, { retryUnknown: true });
  service.fault = undefined;
  const { batch } = await machine.run(shots);
  expect(batch.plan).toMatchObject({ unknown: 1, to_start: 1 });
  expect(service.charges("b")).toBe(1);
});

test("the results of another service are not taken for this one's", async () => {
  const service = createService();
  const machine = createMachine(service);
  const shots = machine.rows("a fox");
  await machine.run(shots, { baseUrl: "http://vidgen.localhost" });
  await expect(machine.open(shots)).rejects.toMatchObject({ code: "usage", message: /vidgen\.localhost/ });
  expect(existsSync(`${machine.results}.lock`)).toBe(false);
});

test("a row is done while its file is that video: copied or touched it is, another video of the same size is not", async () => {
  const service = createService();
  const machine = createMachine(service);
  const rows = machine.rows("a fox");
  await machine.run(rows);
  const file = rows[0]?.outputPath ?? "";
  const video = readFileSync(file);
  rmSync(file);
  writeFileSync(file, video);
  rmSync(machine.journal);
  expect((await machine.open(rows)).plan).toMatchObject({ done: 1, to_start: 0 });
  video.writeUInt8(video.readUInt8(video.length - 1) ^ 1, video.length - 1);
  writeFileSync(file, video);
  await expect(machine.open(rows)).rejects.toMatchObject({
    code: "usage",
    message: expect.stringContaining("already exists"),
  });
  expect(service.starts).toBe(1);
});

test("the outcome that another command finds after the batch counts, in whichever of the two files it is", async () => {
  const service = createService();
  const machine = createMachine(service);
  const shots = machine.rows("a fox");
  void machine.run(shots);
  await service.clock.sleep(10_000);
  machine.kill();
  const generations = service.generations.splice(0);
  expect((await machine.run(shots)).statuses).toEqual({ 1: "lost" });
  service.generations.push(...generations);
  // As `vidgen status` writes it.
  appendFileSync(machine.journal, `${JSON.stringify({ at: service.clock.date(), kind: "found", id: "gen-1" })}\n`);
  const { batch, statuses } = await machine.run(shots);
  expect(batch.plan).toMatchObject({ lost: 0, running: 1, to_start: 0 });
  expect(statuses).toEqual({ 1: "completed" });
  machine.rewriteJournal([]);
  expect((await machine.run(shots)).batch.plan).toMatchObject({ done: 1 });
  expect(service.starts).toBe(1);
});

/** A disk that is full whenever a line of this kind is to be written, or has to reach it; in a file of this name alone, or in any. */
function createFull(kind: string, name = "", call: "write" | "datasync" = "write"): Disk {
  const open: Disk["open"] = async (path, ...args) => {
    const file = await systemMachine.disk.open(path, ...args);
    let isFull = false;
    const check = (at: string) => {
      if (isFull && at === call) throw Object.assign(new Error("no space left"), { code: "ENOSPC" });
    };
    const write = (bytes: Uint8Array, ...more: number[]) => {
      isFull = path.endsWith(name) && Buffer.from(bytes).includes(`"kind":"${kind}"`);
      check("write");
      return file.write(bytes, ...more);
    };
    const datasync = async () => {
      check("datasync");
      await file.datasync();
    };
    return Object.assign(Object.create(file), { write, datasync });
  };
  return { ...systemMachine.disk, open };
}

test.each(
  ["intent", "accepted", "completed", "delivered"].flatMap((kind) =>
    (["write", "datasync"] as const).map((call) => [kind, call] as const),
  ),
)('no row is paid twice after a disk was full at "%s" (its %s), with either file alone', async (kind, call) => {
  for (const isAlone of [true, false]) {
    const service = createService();
    const machine = createMachine(service);
    const shots = machine.rows("a fox");
    const { end } = await machine.run(shots, { disk: createFull(kind, "", call) });
    expect(end.failures).toMatchObject([{ ended: { error: { code: "output" } } }]);
    if (isAlone) machine.rewriteJournal([]);
    else rmSync(machine.results);
    await machine.run(shots);
    expect((await machine.run(shots)).batch.plan).toMatchObject(kind === "intent" ? { unknown: 0 } : { done: 1 });
    expect(service.starts).toBe(1);
  }
});

test.each([
  ["write", false],
  ["datasync", false],
  ["datasync", true],
] as const)(
  "a row whose start cannot be written to the results file (%s) is not sent, and the next run starts it",
  async (call, isAlone) => {
    const service = createService();
    const machine = createMachine(service);
    const shots = machine.rows("a fox");
    const { end, statuses } = await machine.run(shots, { disk: createFull("intent", "results.jsonl", call) });
    expect(end.failures).toMatchObject([{ ended: { error: { message: /^Cannot write .*results.jsonl/ } } }]);
    expect([statuses, service.starts]).toEqual([{ 1: "unsent" }, 0]);
    if (isAlone) leaveAlone(machine);
    expect((await machine.run(shots)).statuses).toEqual({ 1: "completed" });
    expect(service.starts).toBe(1);
  },
);

test("a row that Ctrl-C stops is reported with its id where the results file could not take that", async () => {
  const service = createService();
  const machine = createMachine(service);
  const pressed = new AbortController();
  const ends: unknown[] = [];
  const onEvent = (event: GenerationEvent) => {
    if (event.event === "started") pressed.abort(new VidgenError("interrupted", "Interrupted."));
    if (event.event === "ended") ends.push(event);
  };
  const disk = createFull("accepted", "results.jsonl");
  await machine.run(machine.rows("a fox"), { disk, signal: pressed.signal, onEvent });
  const error = { code: "output", message: expect.stringMatching(/^Cannot write .*results.jsonl/) };
  expect(ends).toMatchObject([{ id: "gen-1", status: "processing", error }]);
});

test("what the journal alone knows of a row must be written to the results file before anything is sent", async () => {
  const service = createService();
  const machine = createMachine(service);
  await machine.run(machine.rows("a fox"));
  rmSync(machine.results);
  const run = machine.run(machine.rows("a fox", "an owl"), { disk: createFull("intent", "results.jsonl") });
  const message = /^Cannot write .*results.jsonl: the disk is full. Nothing was sent, nothing was charged.$/;
  await expect(run).rejects.toMatchObject({ code: "output", message: expect.stringMatching(message) });
  expect(service.starts).toBe(1);
});

test("a dry run leaves the results file alone, also where it finds a saved video that is not in there", async () => {
  const service = createService();
  const machine = createMachine(service);
  const shots = machine.rows("a fox");
  await machine.run(shots, { disk: createFull("delivered") });
  expect(await machine.status()).toMatchObject({ running: 1, done: 0, open: [{ status: "completed" }] });
  const text = readFileSync(machine.results, "utf8");
  machine.rewriteJournal([]);
  const { plan } = await machine.open(shots, { isDryRun: true });
  expect(plan).toMatchObject({ done: 1, to_start: 0 });
  expect(readFileSync(machine.results, "utf8")).toBe(text);
});

test("a completed row without a file is done once its URL was printed, or at once if it should have been saved", async () => {
  const service = createService();
  const machine = createMachine(service);
  const untold = [machine.row("a fox", { outputPath: undefined })];
  const disk = createFull("delivered");
  await machine.run(untold, { disk });
  const { batch, events } = await machine.run(untold);
  expect(batch.plan).toMatchObject({ running: 1, to_start: 0 });
  expect(events.at(-1)).toMatchObject({ status: "completed", video_url: expect.any(String) });
  expect((await machine.run(untold)).batch.plan).toMatchObject({ done: 1 });
  const unsaved = [machine.row("a bear", { line: 2 })];
  await machine.run(unsaved, { disk });
  const [bear] = unsaved.map((row) => ({ ...row, outputPath: undefined }));
  expect((await machine.run(bear ? [bear] : [])).batch.plan).toMatchObject({ done: 1, to_start: 0 });
  expect(service.starts).toBe(2);
});
