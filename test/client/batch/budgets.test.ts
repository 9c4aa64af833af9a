import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { keyRows, shardOf } from "../../../src/client/batch/row.ts";
import type { GenerationEvent } from "../../../src/client/generation/events.ts";
import { createMachine, createService, type Service, type ServiceOptions } from "./machine.ts";

/** Twelve rows at 10 credits each; `change` does something to the balance at each start, before it is told. */
function createBudgeted(change: (service: Service) => void) {
  const service: Service = createService({
    credits: 1000,
    fault(_, accept) {
      // What it costs is hidden by what else happens to the account.
      const answer = accept();
      const { credits } = service;
      change(service);
      if (service.credits === credits) return answer;
      const { id } = service.generations.at(-1) ?? {};
      return Response.json({ data: { id, status: "processing" }, remaining_credits: service.credits });
    },
  });
  const machine = createMachine(service);
  return { service, machine, rows: machine.rows(..."abcdefghijkl") };
}

const costsOf = (events: GenerationEvent[]) =>
  events.flatMap((event) => (event.event === "started" ? [[event.credits, event.balance_fell]] : []));

/** A run of another batch before, so that the balance, and what the model costs, are known. */
async function learn({ machine, service }: ReturnType<typeof createBudgeted>) {
  const { fault } = service;
  service.fault = undefined;
  const shots = [machine.row("x", { line: 90 }), machine.row("y", { line: 91 })];
  await machine.run(shots, {
    source: { file: "", total: 2, shard: null },
    results: join(machine.folder, "other.jsonl"),
  });
  service.fault = fault;
  return service.starts;
}

const odd: [string, (service: Service) => void][] = [
  ["does not fall", (service) => service.earn(10)],
  ["rises", (service) => service.earn(500)],
];
const budgets = [{ maxCredits: 50 }, { keepCredits: 100 }];

test.each(odd)("a run with a budget stops after a start at which the balance %s", async (_, change) => {
  for (const budget of budgets) {
    const budgeted = createBudgeted(change);
    const before = await learn(budgeted);
    const { machine, service, rows } = budgeted;
    const { end } = await machine.run(rows, budget);
    expect(end.stopError).toMatchObject({ code: "credits", message: /did not state what a start cost/ });
    expect(service.starts - before).toBe(1);
  }
});

test.each(odd)(
  "where the price is not known, and the balance %s, two rows are started, and none again",
  async (_, change) => {
    const { machine, service, rows } = createBudgeted(change);
    for (let runs = 0; runs < 3; runs++) await machine.run(rows, { maxCredits: 50 });
    // Of the first one nobody has told what was there before.
    expect(service.starts).toBe(2);
  },
);

test("without a budget, an implausible balance stops nothing, and no row gets a cost", async () => {
  const { machine, service, rows } = createBudgeted((service) => service.earn(10));
  await machine.run(rows);
  expect(service.starts).toBe(12);
  expect(machine.lines().filter(({ credits = null }) => credits !== null)).toEqual([]);
});

test("what others spend is not the cost of a row, but counts for the budget if the service states no costs", async () => {
  let starts = 0;
  const budgeted = createBudgeted((service) => {
    if (++starts === 2) service.earn(-25);
  });
  await learn(budgeted);
  const { machine, rows } = budgeted;
  const { events, end } = await machine.run(rows, { maxCredits: 70 });
  expect(end.stopError).toMatchObject({ code: "credits", message: /^Up to 45 of at most 70 credits are spent/ });
  expect(costsOf(events)).toEqual([
    [undefined, 10],
    [undefined, 35],
  ]);
  const accepted = machine.lines().filter(({ kind }) => kind === "accepted");
  expect(accepted.map(({ credits, balance_fell }) => [credits, balance_fell])).toEqual([
    [undefined, 10],
    [undefined, 35],
  ]);
});

test("a drop of the balance at starts of another batch is not a price of this batch's rows", async () => {
  const service = createService({ credits: 1_000 });
  service.fault = (_, accept) => {
    service.earn(-90);
    return accept();
  };
  const machine = createMachine(service);
  const source = { file: "", total: 2, shard: null };
  await machine.run(machine.rows("x", "y"), { source, results: join(machine.folder, "other.jsonl") });
  service.fault = undefined;
  await machine.run(machine.rows(..."abcdefgh"), { maxCredits: 50 });
  expect(service.generations).toHaveLength(2 + 5);
});

test("runs that start one row each, hours apart, count the drops of the balance between them", async () => {
  const service = createService({ credits: 1_000, renderMs: () => 1_000 * 3600_000 });
  const machine = createMachine(service);
  const rows = machine.rows(..."abcdefgh");
  for (let count = 1; count <= rows.length; count++) {
    await machine.run(rows.slice(0, count), { maxCredits: 25, jobs: rows.length, timeoutMs: 20_000 });
    await service.clock.sleep(2 * 3600_000);
  }
  expect(service.generations).toHaveLength(2);
});

test("a drop of the balance is not a cost, however often it was the same", async () => {
  const { machine, rows } = createBudgeted(() => {});
  const { events, batch } = await machine.run(rows.slice(0, 4));
  expect(costsOf(events)).toEqual([
    [undefined, undefined],
    [undefined, 10],
    [undefined, 10],
    [undefined, 10],
  ]);
  expect(batch.plan.credits).toBeNull();
  expect((await machine.open(rows, { isDryRun: true })).plan.credits).toBeNull();
});

test("the balance of another account says nothing about a cost", async () => {
  const budgeted = createBudgeted(() => {});
  await learn(budgeted);
  const { machine, rows } = budgeted;
  const { events } = await machine.run(rows.slice(0, 1), { apiKey: "canary-key-of-another" });
  expect(costsOf(events)).toEqual([[undefined, undefined]]);
});

const short = { duration: 4 };
const long = { duration: 60 };
const isLong = ({ duration = 0 }) => duration > 4;

/** Rows of these lengths at a service that states what each costs: a short one 1 credit or $0.10, a long one 50 or $5. */
function createStated(lengths: { duration: number }[], options: ServiceOptions = {}) {
  const price = (_: string, request: { duration?: number }) => (isLong(request) ? 50 : 1);
  const usd = (request: { duration?: number }) => (isLong(request) ? 5 : 0.1);
  const service = createService({ credits: 1_000, price, usd, statesPrice: true, ...options });
  const machine = createMachine(service);
  const rows = lengths.map((fields, i) => machine.row(`fox ${i}`, { line: i + 1, fields }));
  return { service, machine, rows };
}

const mixed = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? short : long));

test.each([
  ["--max-cost", { maxCost: 1 }],
  ["--max-credits", { maxCredits: 10 }],
  ["--keep-credits", { keepCredits: 990 }],
])("%s: the price of a short video is not that of a long one, and the first of each runs alone", async (_, budget) => {
  const { service, machine, rows } = createStated(mixed);
  const { end } = await machine.run(rows, { jobs: 8, ...budget });
  expect(end.stopError).toMatchObject({ code: "credits" });
  expect(service.generations.map(({ request, running }) => [request.duration, running])).toEqual([
    [4, 0],
    [60, 0],
  ]);
  await machine.run(rows, { jobs: 8, ...budget });
  expect(service.generations).toHaveLength(2);
});

test.each([
  ["--max-cost", { maxCost: 11 }],
  ["--max-credits", { maxCredits: 110 }],
])("%s: once the prices are known, rows run side by side up to the budget, over all runs", async (_, budget) => {
  const { service, machine, rows } = createStated([...mixed, ...mixed]);
  for (const count of [3, 20, 20]) await machine.run(rows.slice(0, count), { jobs: 8, ...budget });
  const started = service.generations.map(({ request }) => request);
  expect([started.filter(isLong).length, started.length]).toEqual([2, 5]);
  expect(service.generations.at(-1)?.running).toBe(1);
});

test("a row of a new kind waits for those that run, and those after it for its price", async () => {
  const lengths = [short, short, short, long, short, long];
  const { service, machine, rows } = createStated(lengths);
  await machine.run(rows, { jobs: 6, maxCost: 100 });
  expect(service.generations.map(({ running }) => running)).toEqual([0, 0, 1, 0, 0, 1]);
});

test.each([{ resolution: "1080p" }, { generate_audio: true }])("%j is a kind of its own", async (more) => {
  const { service, machine } = createStated([]);
  const rows = [{}, {}, more, {}].map((fields, i) => machine.row(`fox ${i}`, { line: i, fields }));
  await machine.run(rows, { jobs: 4, maxCredits: 100 });
  expect(service.generations.map(({ running }) => running)).toEqual([0, 1, 0, 1]);
});

test("a row that may have been charged counts at the price of its kind", async () => {
  const { service, machine, rows } = createStated([short, short, short, short, short]);
  service.fault = (prompt, accept) => (prompt === "fox 1" ? accept() && new Response("", { status: 502 }) : undefined);
  const { end } = await machine.run(rows, { jobs: 4, maxCredits: 3 });
  expect(end.stopError).toMatchObject({ message: /^Up to 3 of at most 3 credits are spent/ });
  expect(service.generations).toHaveLength(3);
});

test("a provider that states 0 has not stated a cost: --max-cost stops after the first video, and --max-credits continues", async () => {
  const { service, machine, rows } = createStated([short, short, short], { usd: () => 0 });
  for (let run = 0; run < 2; run++) {
    const { end } = await machine.run(rows, { jobs: 4, maxCost: 11 });
    expect(end.stopError).toMatchObject({ code: "credits", message: /did not state what a video cost in USD/ });
    expect(service.generations).toHaveLength(1);
  }
  expect((await machine.run(rows, { jobs: 4, maxCredits: 11 })).end.stopError).toBeUndefined();
  expect(service.generations).toHaveLength(3);
});

test("--max-cost counts what the service states of a video that failed, over all runs", async () => {
  const { service, machine } = createStated([], { chargesFailed: true });
  const rows = [1, 2, 3, 4].map((line) => machine.row(`[fail] ${line}`, { line, fields: long }));
  for (let run = 0; run < 2; run++) {
    const { end } = await machine.run(rows, { jobs: 4, maxCost: 11 });
    expect(end.stopError).toMatchObject({
      message: expect.stringMatching(/^Up to \$10\.00 of at most \$11\.00 are spent, .* costs up to \$5\.00:/),
    });
    expect(service.generations).toHaveLength(2);
  }
});

test("a service that states each cost and no balance keeps a budget, and cannot keep a reserve", async () => {
  const { service, machine, rows } = createStated([short, short, short, short, short]);
  service.fault = (_, accept) => {
    accept();
    const { id } = service.generations.at(-1) ?? {};
    return Response.json({ success: true, data: { id, status: "processing" }, credits_charged: 1 });
  };
  const kept = await machine.run(rows, { keepCredits: 990 });
  expect(kept.end.stopError).toMatchObject({ message: /did not state what a start cost/ });
  expect(service.generations).toHaveLength(1);
  expect((await machine.run(rows, { maxCredits: 4 })).end.stopError).toMatchObject({
    message: /^4 of at most 4 credits/,
  });
  expect(service.generations).toHaveLength(4);
});

test("without a budget no row waits for a price", async () => {
  const { service, machine, rows } = createStated(mixed);
  await machine.run(rows, { jobs: 10 });
  expect(Math.max(...service.generations.map(({ running }) => running))).toBe(9);
});

test("where the service states no cost, rows of all kinds run side by side, and the fall stops the budget", async () => {
  const { service, machine, rows } = createStated(mixed, { statesPrice: false });
  const { end } = await machine.run(rows, { jobs: 10, maxCredits: 120 });
  expect(end.stopError).toMatchObject({ code: "credits" });
  expect(service.generations.map(({ running }) => running)).toEqual([0, 1, 2, 3, 4]);
});

test("what others spend and buy does not affect a budget if the service states the cost of each start", async () => {
  const { service, machine, rows } = createStated([short, short, short, short]);
  service.fault = (_, accept) => {
    service.earn(service.starts % 2 === 0 ? -300 : 400);
    return accept();
  };
  const { end, events } = await machine.run(rows, { maxCredits: 4 });
  expect([end.stopError, service.generations.length]).toEqual([undefined, 4]);
  expect(costsOf(events)).toEqual([1, 1, 1, 1].map((credits) => [credits, undefined]));
  expect(
    (await machine.open([...rows, machine.row("owl", { line: 9, fields: short })], { isDryRun: true })).plan,
  ).toMatchObject({ to_start: 1, credits: 1, models: [{ model: "wan-2.5", credits_each: 1 }] });
});

/** Twelve rows at 10 credits each, in two shards of one folder. */
function createShards() {
  const service = createService({ credits: 1_000, statesPrice: true });
  const machine = createMachine(service, { atOnce: true });
  const rows = machine.rows(..."abcdefghijkl");
  const keyed = keyRows(rows);
  const run = (index: number, options: Parameters<typeof machine.run>[1] = {}) =>
    machine.run(
      keyed.filter((row) => shardOf(row, 2) === index),
      {
        source: { file: machine.rowsFile, total: rows.length, shard: `${index}/2` },
        keys: keyed.map(({ key }) => key),
        results: `${machine.rowsFile}.${index}-of-2.results.jsonl`,
        jobs: 1,
        maxCredits: 40,
        ...options,
      },
    );
  return { service, machine, run };
}

test("--max-credits is for all shards together, whatever their results files", async () => {
  for (const results of [undefined, "out/one.jsonl"]) {
    const { service, machine, run } = createShards();
    const { end } = await run(1, { maxCredits: 20, ...(results && { results: join(machine.folder, results) }) });
    expect(end.stopError).toMatchObject({ message: /^20 of at most 20 credits are spent/ });
    await run(2);
    expect((await run(1)).end.stopError).toMatchObject({ message: /^40 of at most 40 credits are spent/ });
    expect(service.generations).toHaveLength(4);
  }
});

test("the starts of a shard that runs beside are counted before each start: at most what runs at once is more", async () => {
  for (const results of [undefined, "out/two.jsonl"]) {
    const { service, machine, run } = createShards();
    const ends = await Promise.all([run(1), run(2, results ? { results: join(machine.folder, results) } : {})]);
    for (const { end } of ends) expect(end.stopError).toMatchObject({ code: "credits" });
    expect(service.generations.length).toBeLessThanOrEqual(5);
    expect(service.generations.length).toBeGreaterThanOrEqual(4);
  }
});

test("a run counts what another shard starts meanwhile, also where its results file is in another folder", async () => {
  for (const results of ["two.jsonl", "out/two.jsonl"]) {
    const { service, machine, run } = createShards();
    const other = run(2, { results: join(machine.folder, results), maxCredits: undefined });
    const { events } = await run(1);
    await other;
    expect(service.generations.length).toBeGreaterThan(4);
    expect(events.filter(({ event }) => event === "started").length).toBeLessThan(4);
  }
});

test.each(["journal", "results"] as const)(
  "attempts of this batch at rows that were removed from the rows file count; only the %s file is left",
  async (left) => {
    const { service, machine, run } = createShards();
    await run(1, { maxCredits: 20 });
    const results = `${machine.rowsFile}.1-of-2.results.jsonl`;
    rmSync(left === "results" ? machine.journal : results);
    const options = { results, maxCredits: 30, jobs: 1 };
    const { end } = await machine.run(machine.rows("m", "n", "o"), options);
    expect(end.stopError).toMatchObject({ message: /^30 of at most 30 credits are spent/ });
    expect(service.generations).toHaveLength(3);
  },
);

test("attempts that only the journal has count at the rows of other shards", async () => {
  const { service, machine, run } = createShards();
  await run(2, { maxCredits: 20 });
  rmSync(`${machine.rowsFile}.2-of-2.results.jsonl`);
  await run(1, { maxCredits: 30 });
  expect(service.generations).toHaveLength(3);
});
