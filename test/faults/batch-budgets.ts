import { join } from "node:path";
import { createMachine, createService, type Ran } from "../client/batch/machine.ts";
import { type Goal, portion, tally } from "./goal.ts";
import type { Random } from "./random.ts";
import { inFolder } from "./work.ts";

type Played = {
  overrun: number;
  /** What the dearest row cost. */
  dearest: number;
  /** What rows cost for which the service has told no balance before: their cost is told by nobody. */
  untold: number;
  /** Starts beyond the budget at a price that the batch knew, or after one that left open what it cost. */
  knowing: number;
  ends: string[];
};

/**
 * Goal 19: a batch stops in time, however prices change and whatever else happens to the account: others spend, somebody buys credits, or the
 * balance stays. Only a row at a new price may be too dear.
 */
export const batchBudgets: Goal = {
  number: 19,
  title: "batches with budgets, prices and balances that change",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const played: Played[] = [];
      for (let i = 0; i < portion(200, share, 8); i++)
        played.push(await play(random.fork(i), folder, i % 2 === 0 ? "maxCredits" : "keepCredits"));
      const faults = played
        .filter(({ overrun, dearest, untold, knowing }) => overrun > dearest + untold || knowing > 0)
        .map((each) => `overrun: ${JSON.stringify(each)}`);
      const ends = played.flatMap((each) => each.ends);
      if (!ends.includes("stopped")) faults.push("no batch reached its budget, nothing was proven");
      const over = played.filter(({ overrun }) => overrun > 0);
      const worst = (some: Played[]) =>
        Math.round(100 * Math.max(0, ...some.map(({ overrun, dearest }) => overrun / dearest)));
      const [told, untold] = [over.filter((each) => each.untold === 0), over.filter((each) => each.untold > 0)];
      return {
        figures:
          `${played.length} batches, ${ends.length} runs (${tally(ends)}): ${told.length} overran by ${worst(told)} % of ` +
          `the dearest row at most; of those whose first balance is unknown, ${untold.length} by ${worst(untold)} %`,
        target: "100 %; where the balance is unknown, the row before it too",
        faults,
      };
    }),
};

/** Up to four runs of one batch, some of them killed while a start is out; prices change between them, and in them. */
async function play(random: Random, folder: string, limit: "maxCredits" | "keepCredits"): Promise<Played> {
  const models = ["wan-2.5", "ray-3", "veo-3.1"].slice(0, random.between(1, 3));
  const prices = new Map<string, number>();
  const reprice = () => models.forEach((model) => void prices.set(model, random.between(5, 200)));
  /** The dearest price of each model that the balances have told in this batch. */
  const told = new Map<string, number>();
  let dearest = 0;
  let untold = 0;
  let knowing = 0;
  let onKilled = () => {};
  let killsIn = Number.POSITIVE_INFINITY;
  let isTold = random.next() < 0.7;
  const credits = random.between(20_000, 30_000);
  const budget = random.between(200, 800);
  /** What the batch has paid, or for a reserve what is gone from the account. */
  let paid = 0;
  const spent = () => (limit === "maxCredits" ? paid : credits - service.credits);
  const price = (model: string) => {
    const cost = prices.get(model) ?? 0;
    const isKnown = cost <= (told.get(model) ?? 0);
    if (isKnown && isTold && spent() + cost - untold > budget) knowing++;
    paid += cost;
    if (isTold) told.set(model, Math.max(cost, told.get(model) ?? 0));
    else untold += cost;
    isTold = true;
    dearest = Math.max(dearest, cost);
    return cost;
  };
  /** Whether the last start has left open what it cost. */
  let isOpen = false;
  const service = createService({ credits, price, renderMs: () => 1_000 });
  const machine = createMachine(service, { parent: folder });
  const rows = Array.from({ length: random.between(5, 40) }, (_, i) =>
    machine.row(`fox ${i}`, { line: i, model: random.pick(models) }),
  );
  const modelOf = new Map(rows.map(({ record }) => [record.prompt, record.model]));
  const earlier = { results: join(machine.folder, "earlier.jsonl"), source: { file: "", total: 1, shard: null } };
  if (isTold) await machine.run([machine.row("earlier")], earlier);
  paid = 0;
  service.fault = (prompt, accept) => {
    if (random.next() < 0.03) reprice();
    const model = modelOf.get(prompt) ?? "";
    if (isOpen) knowing++;
    if (random.next() < 0.05) return upset(accept);
    // A lost answer at a new price can be counted by nobody.
    const isKnown = (prices.get(model) ?? 0) <= (told.get(model) ?? 0);
    const isKilled = --killsIn <= 0;
    if (!isKnown || !(isKilled || random.next() < 0.05)) return undefined;
    const before = isTold;
    accept();
    isTold = before;
    if (isKilled) onKilled();
    return isKilled ? new Promise(() => {}) : new Response("oops", { status: 502 });
  };
  /** Something else happens to the account while a row is started: others spend, somebody buys, or what the row cost is not taken yet. */
  const upset = (accept: () => Response) => {
    const isSpent = limit === "maxCredits" && random.next() < 0.3;
    const hasBalance = isTold;
    if (!isSpent) isTold = false;
    const before = service.credits;
    accept();
    if (isSpent) service.earn(-random.between(1, 300));
    else service.earn(before - service.credits + random.pick([0, random.between(1, 3_000)]));
    isOpen = !isSpent && hasBalance;
    const { id } = service.generations.at(-1) ?? {};
    return Response.json({ data: { id, status: "processing" }, remaining_credits: service.credits });
  };
  const options = { [limit]: limit === "maxCredits" ? budget : credits - budget, jobs: random.between(1, 8) };
  const runs = random.between(1, 4);
  const ends: string[] = [];
  for (let i = 0; i < runs; i++) {
    reprice();
    if (i > 0 && random.next() < 0.2) {
      await service.clock.sleep(2 * 3600_000);
      isTold = false;
    }
    isOpen = false;
    killsIn = random.next() < 0.3 ? random.between(1, 10) : Number.POSITIVE_INFINITY;
    const killed = new Promise<void>((resolve) => (onKilled = resolve)).then(() => {
      machine.kill();
      return "killed";
    });
    const end = await Promise.race([
      machine.run(rows.slice(0, random.between(1, rows.length)), options).then(endOf),
      killed,
    ]);
    ends.push(end);
  }
  return { overrun: Math.max(0, spent() - budget), dearest, untold, knowing, ends };
}

function endOf({ end }: Ran): string {
  return end.stopError ? "stopped" : "done";
}
