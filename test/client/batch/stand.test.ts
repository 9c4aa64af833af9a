import { expect, test } from "vitest";
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
