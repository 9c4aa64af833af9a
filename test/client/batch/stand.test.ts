import { appendFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { expect, test } from "vitest";
import type { Row } from "../../../src/client/batch/row.ts";
import { createMachine, createService, type Fault, leaveAlone } from "./machine.ts";

// How a row stands that is neither done, nor running, nor new.

/** One row whose answer is this, run twice; the second plan, and what was started in all. */
async function runTwice(fault: Fault, { isAlone = false, ...options } = {}) {
  const service = createService({ fault });
  const machine = createMachine(service);
  const shots = machine.rows("a fox");
  const first = await machine.run(shots);
  if (isAlone) leaveAlone(machine);
  const second = await machine.run(shots, options);
  return { service, machine, first, second, status: await machine.status() };
}

const named = (status: number, body: object) => () =>
  Response.json({ ...body, data: { id: "gen-7", status: "processing" } }, { status });
const journals = [
  ["with the journal", false],
  ["with the results file alone", true],
] as const;

test.each(journals)("unknown with an id: the id is kept, nothing is followed or started; %s", async (_, isAlone) => {
  const { service, machine, first, second, status } = await runTwice(named(200, { success: false }), { isAlone });
  expect(first.statuses).toEqual({ 1: "unknown" });
  expect(second.batch.plan).toMatchObject({ unknown: 1, running: 0, to_start: 0 });
  expect(status).toMatchObject({ unknown: 1, open: [{ id: "gen-7", status: "unknown" }] });
  expect(machine.lines().at(-2)).toMatchObject({ kind: "unknown", id: "gen-7" });
  expect([service.starts, service.polls]).toEqual([1, 0]);
});

test.each(journals)("refused with an id: the id is kept, and it stays refused; %s", async (_, isAlone) => {
  for (const code of [400, 402]) {
    const { service, second, status } = await runTwice(named(code, { error: "no credits" }), { isAlone });
    expect(second.batch.plan).toMatchObject({ failed: 1, refused: 1, to_start: 0 });
    expect(status).toMatchObject({ failed: 1, open: [{ id: "gen-7", status: "refused" }] });
    expect(service.starts).toBe(1);
  }
});

/** A row that was accepted, and that the service has forgotten. */
const forget = (service: ReturnType<typeof createService>) => service.generations.splice(0);

async function lose({ isAlone = false } = {}) {
  const service = createService();
  const machine = createMachine(service);
  const shots = machine.rows("a fox");
  void machine.run(shots);
  await service.clock.sleep(10_000);
  machine.kill();
  forget(service);
  if (isAlone) leaveAlone(machine);
  const ran = await machine.run(shots);
  return { service, machine, shots, ran };
}

test.each(journals)("lost: said so, left alone, and started again by --retry-unknown alone; %s", async (_, isAlone) => {
  const { service, machine, shots, ran } = await lose({ isAlone });
  expect(ran.statuses).toEqual({ 1: "lost" });
  expect(await machine.status()).toMatchObject({ lost: 1, unknown: 0, open: [{ id: "gen-1", status: "lost" }] });
  if (isAlone) leaveAlone(machine);
  const left = await machine.run(shots, { retryFailed: true });
  expect(left.batch.plan).toMatchObject({ lost: 1, unknown: 0, running: 0, to_start: 0 });
  expect(service.starts).toBe(1);
  const again = await machine.run(shots, { retryUnknown: true });
  expect(again.statuses).toEqual({ 1: "completed" });
  expect((await machine.run(shots)).batch.plan).toMatchObject({ done: 1, lost: 0 });
  expect(service.starts).toBe(2);
});

test.each(journals)(
  "a 404 for another key changes nothing, and the plan says which key it was; %s",
  async (_, isAlone) => {
    const service = createService();
    const machine = createMachine(service);
    const shots = machine.rows("a fox");
    void machine.run(shots);
    await service.clock.sleep(10_000);
    machine.kill();
    if (isAlone) leaveAlone(machine);
    const generations = forget(service);
    const other = await machine.open(shots, { apiKey: "canary-key-of-another" });
    expect(other.notes.join()).toMatch(
      /1 running row was started with another key \(account [0-9a-f]{12}, not [0-9a-f]{12}\)/,
    );
    await other.close();
    const { end } = await machine.run(shots, { apiKey: "canary-key-of-another" });
    expect(end.failures).toMatchObject([{ ended: { status: "processing", error: { code: "not_found" } } }]);
    service.generations.push(...generations);
    expect((await machine.run(shots)).statuses).toEqual({ 1: "completed" });
    expect(service.starts).toBe(1);
  },
);

test.each(journals)("an id that another row has is not taken for this one's; %s", async (_, isAlone) => {
  const service = createService();
  const machine = createMachine(service);
  const shots = machine.rows("a fox", "a bear");
  await machine.run(shots.slice(0, 1));
  if (isAlone) machine.rewriteJournal([]);
  service.fault = () => Response.json({ data: { id: "gen-1", status: "processing" } });
  expect((await machine.run(shots)).statuses).toEqual({ 2: "unknown" });
});

/** Three rows, `b` with the frame of `a`; then `vidgen delete --files` of `a`, as it is recorded in the journal alone. */
async function deleteFirst({ withFiles = true } = {}) {
  const service = createService();
  const machine = createMachine(service);
  const keepFrame = async () => ({ path: "frame", isNearlyOneColor: false });
  const shots = (count: number): Row[] => {
    const [a, b, c] = machine.rows("a", "b", "c") as [Row, Row, Row];
    return [a, { ...b, from: 0, load: async (frame?: string) => ({ ...b.record, imageUrl: frame }) }, c].slice(
      0,
      count,
    );
  };
  await machine.run([shots(1)[0] as Row], { keepFrame });
  appendFileSync(machine.journal, `${JSON.stringify({ at: service.clock.date(), kind: "removed", id: "gen-1" })}\n`);
  const file = shots(1)[0]?.outputPath ?? "";
  if (withFiles) rmSync(file);
  return { service, machine, shots, keepFrame, file };
}

test("a row whose video and file were deleted is deleted in the plan and in the status, and counts as done", async () => {
  const { service, machine, shots } = await deleteFirst();
  expect(await machine.status()).toMatchObject({ rows: 1, done: 1, deleted: 1, running: 0, missing: 0 });
  const { batch, end } = await machine.run(shots(1));
  expect(batch.plan).toMatchObject({ done: 1, deleted: 1, running: 0, to_start: 0 });
  expect(end).toMatchObject({ failures: [], stopError: undefined });
  expect(await machine.status()).toMatchObject({ done: 1, deleted: 1, open: [{ id: "gen-1", status: "deleted" }] });
  expect(service.starts).toBe(1);
});

test("a row whose file is still there is done, although its video was deleted at the service", async () => {
  const { machine, shots } = await deleteFirst({ withFiles: false });
  expect((await machine.run(shots(1))).batch.plan).toMatchObject({ done: 1, deleted: 0, running: 0 });
  expect(await machine.status()).toMatchObject({ done: 1, deleted: 0, open: [] });
});

test("a row that begins with the frame of a deleted row is blocked until --redo makes that row again, by the key of the status", async () => {
  const { service, machine, shots, keepFrame, file } = await deleteFirst();
  const { batch } = await machine.run(shots(3), { keepFrame });
  expect(batch.plan).toMatchObject({ done: 1, deleted: 1, blocked: 1, to_start: 1 });
  const { open } = await machine.status();
  const rows = open.flatMap(({ row, status }) => (status === "deleted" ? row : []));
  expect(rows).toHaveLength(1);
  const redone = await machine.run(shots(3), { keepFrame, redo: { rows, name: "redo-1" } });
  expect(redone.batch.plan).toMatchObject({ done: 1, deleted: 0, blocked: 0, to_start: 2 });
  expect(service.generations.map(({ prompt }) => prompt)).toEqual(["a", "c", "a", "b"]);
  expect(existsSync(file)).toBe(true);
  expect((await machine.run(shots(3), { keepFrame })).batch.plan).toMatchObject({ done: 3, deleted: 0, to_start: 0 });
});

const otherPath = "https://api.video.example/v2";

/** A row that was started at another path of the same origin, and then these files are gone or kept. */
async function startElsewhere({ fault, killAfterMs, keepsResults = false }: ElsewhereOptions = {}) {
  const service = createService(fault && { fault });
  const machine = createMachine(service);
  const shots = machine.rows("a fox", "a bear");
  const run = machine.run(shots.slice(0, 1), { baseUrl: otherPath });
  if (killAfterMs === undefined) await run;
  else {
    await service.clock.sleep(killAfterMs);
    machine.kill();
  }
  service.fault = undefined;
  if (!keepsResults) rmSync(machine.results);
  return { service, machine, shots };
}

type ElsewhereOptions = { fault?: Fault; killAfterMs?: number; keepsResults?: boolean };

const places = [
  ["with the journal alone", false],
  ["with the results file", true],
] as const;

test.each(places)("an unclear row at another path of the same origin is left alone; %s", async (_, keepsResults) => {
  const fault: Fault = (_, accept) => accept() && new Response("oops", { status: 502 });
  const { service, machine, shots } = await startElsewhere({ fault, keepsResults });
  for (let runs = 0; runs < 2; runs++)
    expect((await machine.run(shots)).batch.plan).toMatchObject({ unknown: 1, done: runs, to_start: 1 - runs });
  expect([service.charges("a fox"), service.charges("a bear")]).toEqual([1, 1]);
  // --retry-unknown starts it here, and dismisses nothing at the other path.
  expect((await machine.run(shots, { retryUnknown: true })).statuses).toEqual({ 1: "completed" });
  expect((await machine.run(shots)).batch.plan).toMatchObject({ done: 2, unknown: 0 });
  expect(readFileSync(machine.journal, "utf8")).not.toContain('"dismissed"');
});

test.each(places)(
  "a row that runs at another path of the same origin stops the batch, and names its service; %s",
  async (_, keepsResults) => {
    const { service, machine, shots } = await startElsewhere({ killAfterMs: 10_000, keepsResults });
    const error = { code: "usage", id: "gen-1", hint: expect.stringContaining(`vidgen wait gen-1`) };
    await expect(machine.run(shots)).rejects.toMatchObject(error);
    await expect(machine.run(shots)).rejects.toThrow(/Nothing was sent/);
    expect(service.starts).toBe(1);
    const { notes, ...opened } = await machine.open(shots, { retryUnknown: true });
    expect(opened.plan).toMatchObject({ to_start: 2 });
    expect(notes.join()).toMatch(/may be charged twice/);
  },
);

test("a row that is lost at another path of the same origin is lost here", async () => {
  const { service, machine, shots } = await startElsewhere({ killAfterMs: 10_000, keepsResults: true });
  service.generations.splice(0);
  await machine.run(shots.slice(0, 1), { baseUrl: otherPath });
  rmSync(machine.results);
  const { batch } = await machine.run(shots);
  expect(batch.plan).toMatchObject({ lost: 1, to_start: 1 });
  expect(service.charges("a fox")).toBe(0);
});

test("a row that is finished at another path of the same origin is started", async () => {
  const { machine, shots } = await startElsewhere();
  expect((await machine.open(shots, { overwrite: true, isDryRun: true })).plan).toMatchObject({ to_start: 2 });
});
