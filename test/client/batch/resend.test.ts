import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Row } from "../../../src/client/batch/row.ts";
import { createMachine, createService, type Service, type ServiceOptions } from "./machine.ts";

const day = 24 * 3600;
const unclear = () => new Response("oops", { status: 502 });

/**
 * Three rows at 10 credits each, the second of which got no usable response, while the service did not answer whether it keeps keys. The service has
 * accepted it, or has not received it.
 */
async function createUnclear({ isAccepted = true, ...options }: ServiceOptions & { isAccepted?: boolean } = {}) {
  const service = createService({ credits: 1_000, keyLifetime: day, statesPrice: true, ...options });
  const machine = createMachine(service);
  const rows = machine.rows("a", "b", "c");
  service.fault = (prompt, accept) => {
    if (prompt !== "b") return undefined;
    service.isSilent = true;
    if (isAccepted) accept();
    return unclear();
  };
  await machine.run(rows.slice(0, 2));
  service.fault = undefined;
  service.isSilent = false;
  return { service, machine, rows };
}

const keysOf = ({ keys }: Service) => [keys.length, new Set(keys).size];

test.each([true, false])(
  "the same batch sends the key of an unclear row again; it was accepted: %s",
  async (isAccepted) => {
    const { service, machine, rows } = await createUnclear({ isAccepted });
    const { batch, statuses } = await machine.run(rows);
    expect(batch.plan).toMatchObject({ unknown: 0, to_start: 2 });
    expect(statuses).toMatchObject({ 2: "completed", 3: "completed" });
    expect([service.charges("b"), keysOf(service)]).toEqual([1, [4, 3]]);
    expect((await machine.run(rows)).batch.plan).toMatchObject({ done: 3, to_start: 0 });
    expect(await machine.status()).toMatchObject({ done: 3, unknown: 0, double_rows: [] });
  },
);

test("with the results file alone, the key is sent again too", async () => {
  const { service, machine, rows } = await createUnclear();
  rmSync(machine.journal);
  await machine.run(rows);
  expect((await machine.run(rows)).batch.plan).toMatchObject({ done: 3 });
  expect(service.charges("b")).toBe(1);
});

const cannot: [
  string,
  (unclear: Awaited<ReturnType<typeof createUnclear>>) => void,
  Parameters<Awaited<ReturnType<typeof createUnclear>>["machine"]["run"]>[1]?,
][] = [
  ["the service keeps no keys", ({ service }) => void Object.assign(service, { keyLifetime: undefined })],
  ["the key is too old", ({ machine }) => void Object.assign(machine, { laterMs: day * 1_000 })],
  ["it was sent with another API key", () => {}, { apiKey: "canary-key-of-another" }],
];

test.each(cannot)(
  "an unclear row stays unclear if %s, and --retry-unknown sends a new key and says why",
  async (_, change, more = {}) => {
    const found = await createUnclear();
    change(found);
    const { service, machine, rows } = found;
    expect((await machine.run(rows, more)).batch.plan).toMatchObject({ unknown: 1, to_start: 1 });
    expect(service.charges("b")).toBe(1);
    const { batch } = await machine.run(rows, { ...more, retryUnknown: true });
    expect(batch.plan).toMatchObject({ unknown: 0, to_start: 1 });
    expect(keysOf(service)).toEqual([4, 4]);
  },
);

test("--retry-unknown sends the same key if the service keeps it, and nothing if it does not answer", async () => {
  const { service, machine, rows } = await createUnclear();
  service.isSilent = true;
  await expect(machine.run(rows, { retryUnknown: true })).rejects.toMatchObject({
    code: "network",
    message: /Nothing was sent/,
  });
  expect((await machine.run(rows.slice(0, 2))).batch.plan).toMatchObject({ unknown: 1, to_start: 0 });
  expect(service.starts).toBe(2);
  service.isSilent = false;
  await machine.run(rows, { retryUnknown: true });
  expect([service.charges("b"), keysOf(service)]).toEqual([1, [4, 3]]);
});

test("a key whose resend got an answer and is still unclear is not sent a third time; --retry-unknown uses a new one", async () => {
  const { service, machine, rows } = await createUnclear({ isAccepted: false });
  service.fault = (prompt) => (prompt === "b" ? Response.json({ error: "no" }, { status: 400 }) : undefined);
  expect((await machine.run(rows)).statuses).toMatchObject({ 2: "unknown" });
  const { starts } = service;
  expect((await machine.run(rows)).batch.plan).toMatchObject({ unknown: 1, to_start: 0 });
  expect(service.starts).toBe(starts);
  service.fault = undefined;
  await machine.run(rows, { retryUnknown: true });
  expect([service.charges("b"), new Set(service.keys).size]).toEqual([1, 4]);
  expect((await machine.run(rows)).batch.plan).toMatchObject({ done: 3 });
});

test("a resend that was killed is no try, until the third", async () => {
  const { service, machine, rows } = await createUnclear();
  for (let tries = 0; tries < 3; tries++) {
    service.fault = () => new Promise(() => {});
    void machine.run(rows.slice(0, 2)).catch(() => {});
    await service.clock.sleep(5_000);
    machine.kill();
  }
  expect(keysOf(service)).toEqual([5, 2]);
  service.fault = undefined;
  expect((await machine.run(rows.slice(0, 2))).batch.plan).toMatchObject({ unknown: 1, to_start: 0 });
  expect(service.charges("b")).toBe(1);
});

test("a resend that was not sent leaves the row unclear", async () => {
  const { service, machine, rows } = await createUnclear();
  const lines = readFileSync(machine.journal, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  const intent = lines.find(
    ({ kind, row }) => kind === "intent" && row === lines.findLast(({ kind }) => kind === "intent").row,
  );
  const at = service.clock.date().toISOString();
  const attempt = "11111111-1111-4111-8111-111111111111";
  const resend = { ...intent, at, attempt, resend_of: intent.attempt, first_sent_at: intent.at };
  machine.rewriteJournal(
    [...lines, resend, { at, kind: "unsent", attempt, reason: "the disk was full" }].map((line) =>
      JSON.stringify(line),
    ),
  );
  service.keyLifetime = undefined;
  expect((await machine.run(rows)).batch.plan).toMatchObject({ unknown: 1, to_start: 1 });
  expect(service.charges("b")).toBe(1);
});

test("a row that begins with a frame is sent again only with the same frame", async () => {
  for (const isChanged of [false, true]) {
    const service = createService({ keyLifetime: day });
    const machine = createMachine(service);
    const [a, b] = machine.rows("a", "b") as [Row, Row];
    const rows = [a, { ...b, from: 0, load: async (frame?: string) => ({ ...b.record, imageUrl: `data:,${frame}` }) }];
    let frame = "one";
    const keepFrame = async () => ({ path: frame, isNearlyOneColor: false });
    service.fault = (prompt, accept) => {
      if (prompt !== "b") return undefined;
      service.isSilent = true;
      return accept() && unclear();
    };
    await machine.run(rows, { keepFrame });
    service.fault = undefined;
    service.isSilent = false;
    if (isChanged) frame = "two";
    const { statuses } = await machine.run(rows, { keepFrame });
    expect([statuses[2], keysOf(service)]).toEqual(isChanged ? ["unknown", [2, 2]] : ["completed", [3, 2]]);
    if (!isChanged) continue;
    await machine.run(rows, { keepFrame, retryUnknown: true });
    expect(keysOf(service)).toEqual([3, 3]);
    expect((await machine.run(rows, { keepFrame })).batch.plan).toMatchObject({ done: 2 });
  }
});

test("attempts that share a key count once in the budget: a key is sent again at the limit, and the rest is still there", async () => {
  const { service, machine, rows } = await createUnclear();
  const { end } = await machine.run(rows, { maxCredits: 30, jobs: 1 });
  expect(end.stopError).toBeUndefined();
  expect(service.credits).toBe(970);
  const more = [...rows, machine.row("d", { line: 4 })];
  const stopped = await machine.run(more, { maxCredits: 30 });
  expect(stopped.end.stopError).toMatchObject({ message: /^30 of at most 30 credits are spent/ });
  expect((await machine.run(more, { maxCredits: 40 })).end.stopError).toBeUndefined();
  expect(service.generations).toHaveLength(4);
});

test("a process that is alive has the row: it is left alone, also with --retry-unknown", async () => {
  const { service, machine, rows } = await createUnclear();
  service.fault = () => new Promise(() => {});
  void machine.run(rows.slice(0, 2)).catch(() => {});
  await service.clock.sleep(5_000);
  const { starts } = service;
  service.fault = undefined;
  machine.isAlive = () => true;
  const results = join(machine.folder, "copy.jsonl");
  writeFileSync(results, readFileSync(machine.results));
  rmSync(`${machine.results}.lock`, { recursive: true });
  for (const retryUnknown of [false, true]) {
    const { batch } = await machine.run(rows.slice(0, 2), { results, retryUnknown });
    expect(batch.plan).toMatchObject({ unknown: 1, to_start: 0 });
  }
  expect(service.starts).toBe(starts);
});

test("a redo that is sent again carries the redo and the names, and not the name of the attempt whose key it has", async () => {
  const { service, machine, rows } = await createUnclear();
  await machine.run(rows);
  const before = readFileSync(machine.results, "utf8");
  const keys = service.keys.length;
  service.fault = (prompt, accept) => {
    if (prompt !== "c") return undefined;
    service.isSilent = true;
    return accept() && unclear();
  };
  const [key] = machine.lines().flatMap(({ kind, line, row }) => (kind === "intent" && line === 3 ? [row] : []));
  await machine.run(rows, { redo: { rows: [key], name: "redo-1" } });
  service.fault = undefined;
  service.isSilent = false;
  writeFileSync(machine.results, before);
  const { batch } = await machine.run(rows);
  expect(batch.plan).toMatchObject({ done: 2, to_start: 1 });
  expect(service.charges("c")).toBe(2);
  expect(new Set(service.keys.slice(keys)).size).toBe(1);
  const [first, second, third] = machine.lines().filter(({ kind, row }) => kind === "intent" && row === key);
  expect(third).toMatchObject({ resend_of: second.attempt, redo: "redo-1", replaces: [first.attempt] });
  writeFileSync(machine.results, before);
  expect((await machine.run(rows, { redo: { rows: [key], name: "redo-2" } })).batch.upToDate).toHaveLength(1);
});
