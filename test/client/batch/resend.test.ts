import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
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

/** Adds lines about the row that got no usable response to the journal: `lines` gets its intent. */
function addLines({ machine, service }: Awaited<ReturnType<typeof createUnclear>>, lines: (intent: Line) => Line[]) {
  const journal = readFileSync(machine.journal, "utf8").trimEnd().split("\n");
  const intent = journal.map((line): Line => JSON.parse(line)).findLast(({ kind }) => kind === "intent") ?? {};
  const at = service.clock.date().toISOString();
  machine.rewriteJournal([...journal, ...lines(intent).map((line) => JSON.stringify({ ...line, at }))]);
}
type Line = Record<string, unknown>;

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

const otherAttempt = "11111111-1111-4111-8111-111111111111";

const cannot: [
  string,
  (unclear: Awaited<ReturnType<typeof createUnclear>>) => void,
  Parameters<Awaited<ReturnType<typeof createUnclear>>["machine"]["run"]>[1]?,
][] = [
  ["the service keeps no keys", ({ service }) => void Object.assign(service, { keyLifetime: undefined })],
  ["the key is too old", ({ machine }) => void Object.assign(machine, { laterMs: day * 1_000 })],
  ["it was sent with another API key", () => {}, { apiKey: "canary-key-of-another" }],
  [
    "it was sent with several keys",
    (found) =>
      addLines(found, (intent) => [
        { ...intent, attempt: otherAttempt },
        { kind: "unknown", attempt: otherAttempt, reason: "a page" },
      ]),
  ],
  [
    "the service named a generation",
    (found) =>
      addLines(found, ({ attempt }) => [{ kind: "unknown", attempt, id: "gen-99", reason: "a contradiction" }]),
  ],
  [
    "the service has lost its generation",
    (found) =>
      addLines(found, ({ attempt }) => [
        { kind: "accepted", attempt, id: "gen-99" },
        { kind: "lost", id: "gen-99" },
      ]),
  ],
];

test.each(cannot)(
  "an unclear row is left alone if %s, and --retry-unknown sends a new key",
  async (_, change, more = {}) => {
    const found = await createUnclear();
    change(found);
    const { service, machine, rows } = found;
    const { plan } = (await machine.run(rows, more)).batch;
    expect([plan.unknown + plan.lost, plan.to_start]).toEqual([1, 1]);
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

test.each([400, 409, 422])(
  "a key whose resend got a %i and is still unclear is not sent a third time; --retry-unknown uses a new one",
  async (status) => {
    const { service, machine, rows } = await createUnclear({ isAccepted: false });
    service.fault = (prompt) => (prompt === "b" ? Response.json({ error: "no" }, { status }) : undefined);
    expect((await machine.run(rows)).statuses).toMatchObject({ 2: "unknown" });
    const { starts } = service;
    expect((await machine.run(rows)).batch.plan).toMatchObject({ unknown: 1, to_start: 0 });
    expect(service.starts).toBe(starts);
    service.fault = undefined;
    await machine.run(rows, { retryUnknown: true });
    expect([service.charges("b"), new Set(service.keys).size]).toEqual([1, 4]);
    expect((await machine.run(rows)).batch.plan).toMatchObject({ done: 3 });
  },
);

test("an unclear row with an id whose request was edited is refused, whatever the service keeps", async () => {
  const { service, machine } = await createUnclear();
  service.fault = (_, accept) => accept() && unclear();
  service.isSilent = true;
  await machine.run([machine.row("d", { id: "d", line: 4 })]);
  Object.assign(service, { fault: undefined, isSilent: false });
  const { starts } = service;
  const edited = machine.row("e", { id: "d", line: 4 });
  await expect(machine.run([edited])).rejects.toThrow(/different request/);
  expect(service.starts).toBe(starts);
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

test("of attempts that share a key, one that failed decides, and two with its generation are one charge", async () => {
  const resend = (intent: Line) => ({ ...intent, attempt: otherAttempt, resend_of: intent.attempt });
  const failed = await createUnclear();
  addLines(failed, (intent) => [
    resend(intent),
    { kind: "accepted", attempt: otherAttempt, id: "gen-9" },
    { kind: "failed", id: "gen-9", reason: "too dark" },
  ]);
  expect(await failed.machine.status()).toMatchObject({ failed: 1, unknown: 0 });
  // A process that was suspended over the answer writes it down later.
  const suspended = await createUnclear();
  addLines(suspended, (intent) => [
    resend(intent),
    { kind: "accepted", attempt: otherAttempt, id: "gen-9" },
    { kind: "accepted", attempt: intent.attempt, id: "gen-9" },
  ]);
  expect(await suspended.machine.status()).toMatchObject({ running: 2, double_rows: [] });
});

test("a resend that was not sent leaves the row unclear", async () => {
  const found = await createUnclear();
  const { service, machine, rows } = found;
  addLines(found, (intent) => [
    { ...intent, attempt: otherAttempt, resend_of: intent.attempt, first_sent_at: intent.at },
    { kind: "unsent", attempt: otherAttempt, reason: "the disk was full" },
  ]);
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
  // The unclear row counts as charged, and its key does not count a second time.
  expect((await machine.run(rows.slice(0, 2), { maxCredits: 20 })).end.stopError).toBeUndefined();
  expect((await machine.run(rows, { maxCredits: 30 })).end.stopError).toBeUndefined();
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

test("a process on another machine is watched until it is known to be dead; then the key is sent again", async () => {
  const { service, machine, rows } = await createUnclear();
  service.fault = () => new Promise(() => {});
  void machine.run(rows.slice(0, 2)).catch(() => {});
  await service.clock.sleep(5_000);
  machine.kill();
  service.fault = undefined;
  rmSync(`${machine.results}.lock`, { recursive: true });
  // As if it had run on another machine.
  const leases = `${machine.journal}.leases`;
  for (const attempt of readdirSync(leases))
    for (const name of readdirSync(join(leases, attempt)))
      renameSync(join(leases, attempt, name), join(leases, attempt, name.replace(/^a_/, "another_")));
  const before = service.clock.now();
  expect((await machine.run(rows.slice(0, 2))).statuses).toMatchObject({ 2: "completed" });
  expect(service.clock.now() - before).toBeGreaterThan(60_000);
  expect(service.charges("b")).toBe(1);
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
