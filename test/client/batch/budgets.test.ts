import { join } from "node:path";
import { expect, test } from "vitest";
import type { GenerationEvent } from "../../../src/client/events.ts";
import { createMachine, createService, type Service } from "./machine.ts";

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
    expect(end.stopped).toMatchObject({ code: "credits", message: /not told what a start cost/ });
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

test("without a budget an odd balance stops nothing, and no row gets a cost", async () => {
  const { machine, service, rows } = createBudgeted((service) => service.earn(10));
  await machine.run(rows);
  expect(service.starts).toBe(12);
  expect(machine.lines().filter(({ credits = null }) => credits !== null)).toEqual([]);
});

test("what others spend is no cost of a row, and counts for the budget", async () => {
  let starts = 0;
  const budgeted = createBudgeted((service) => {
    if (++starts === 2) service.earn(-25);
  });
  await learn(budgeted);
  const { machine, rows } = budgeted;
  const { events, end } = await machine.run(rows, { maxCredits: 70 });
  expect(end.stopped).toMatchObject({ code: "credits", message: /^Up to 45 of at most 70 credits are spent/ });
  expect(costsOf(events)).toEqual([
    [10, undefined],
    [undefined, 35],
  ]);
  const accepted = machine.lines().filter(({ status }) => status === "processing");
  expect(accepted).toMatchObject([
    { credits: 10, balance_fell: null },
    { credits: null, balance_fell: 35 },
  ]);
});

test("a cost is known once the balance has fallen as much before", async () => {
  const { machine, rows } = createBudgeted(() => {});
  const { events } = await machine.run(rows.slice(0, 4));
  expect(costsOf(events)).toEqual([
    [undefined, undefined],
    [undefined, 10],
    [10, undefined],
    [10, undefined],
  ]);
});

test("the balance of another account tells nothing of a cost", async () => {
  const budgeted = createBudgeted(() => {});
  await learn(budgeted);
  const { machine, rows } = budgeted;
  const { events } = await machine.run(rows.slice(0, 1), { apiKey: "canary-key-of-another" });
  expect(costsOf(events)).toEqual([[undefined, undefined]]);
});
