import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { systemClock } from "../../src/io.ts";
import { openPostgres } from "../../src/server/store/postgres/postgres.ts";
import { openStore } from "../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/server/store/store.ts";
import { postgresPrograms } from "../needs.ts";
import { startPostgres } from "../postgres.ts";
import { newGeneration } from "../server/store/records.ts";
import { accountNames, fillPostgres, fillSqlite } from "./fill.ts";

type Print = (name: string, ...figures: string[]) => void;
type Measured = { figures: Record<string, string>; start: string };

const account = accountNames[7] ?? "";
const rounds = 3;
/** What takes longer than this is measured once. */
const longMs = 1_000;
const starts = 4_000;
const startsAtOnce = 64;

/** What the page, the API and /metrics ask a store for. */
const reports: Record<string, (store: Store) => Promise<unknown>> = {
  "list, the newest": (store) => store.list({ limit: 48 }),
  "list of an account and state, none": (store) => store.list({ account: accountNames[3], state: "failed", limit: 48 }),
  "totals, all": (store) => store.totals({}),
  "totals, an account": (store) => store.totals({ account }),
  "search, a rare word": (store) => store.list({ text: "54321", limit: 48 }),
  "search, a rare and a common word": (store) => store.list({ text: "fox 54321", limit: 48 }),
  "search, none found": (store) => store.list({ text: "zebra", limit: 48 }),
  "totals of a search, a rare word": (store) => store.totals({ text: "54321" }),
  "totals of a search, in each": (store) => store.totals({ text: "red fox" }),
  "search, two letters, none found": (store) => store.list({ text: "zq", limit: 48 }),
  "labels, all": (store) => store.labels({ limit: 100 }),
  "labels, an account": (store) => store.labels({ account, limit: 100 }),
  "labels, one": (store) => store.labels({ account, label: "batch-7-0.csv", limit: 1 }),
  "spending, all": (store) => store.spending({ limit: 14 }),
  "spending, an account": (store) => store.spending({ account, limit: 14 }),
  "deliveryTotals, all": (store) => store.deliveryTotals({}),
  "deliveryTotals, an account": (store) => store.deliveryTotals({ account }),
  "callbacks of an account": (store) => store.deliveries({ account, limit: 48 }),
  "callbacks of an account and state, none": (store) =>
    store.deliveries({ account: accountNames[3], state: "given_up", limit: 48 }),
  "list and callbacks of the newest": async (store) => {
    const newest = await store.list({ limit: 48 });
    await store.deliveries({ generations: newest.map(({ id }) => id), limit: 48 });
  },
  "ledger, the newest": (store) => store.ledger({ limit: 48 }),
};

/** What the reports cost with many generations, in both databases, and a start beside them. SQLite's figures are CPU time, which all others wait for. */
export async function measureReports({ print, rows, only }: { print: Print; rows: number; only?: string | undefined }) {
  const [sqlite, postgres] = [
    only === "postgres" ? undefined : await measureSqlite(rows),
    only === "sqlite" || !postgresPrograms ? undefined : await measurePostgres(rows),
  ];
  print(`with ${rows} generations`, "SQLite, CPU ms".padStart(16), "PostgreSQL, ms".padStart(16));
  for (const name of Object.keys(reports)) print(name, ...[sqlite, postgres].map((each) => cell(each?.figures[name])));
  print("a start, µs", ...[sqlite, postgres].map((each) => cell(each?.start)));
}

const cell = (figure = "-") => figure.padStart(16);

async function measureSqlite(rows: number): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), "vidgen-reports-"));
  try {
    const file = join(folder, "service.db");
    const empty = await openStore(file);
    await addAccounts(empty);
    await empty.close();
    await fillSqlite(file, rows);
    const store = await openStore(file);
    const cpuMs = () => process.cpuUsage().user / 1_000 + process.cpuUsage().system / 1_000;
    const measured = await measureStore(store, cpuMs);
    await store.close();
    return measured;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function measurePostgres(rows: number): Promise<Measured> {
  const server = await startPostgres();
  try {
    const url = await server.createDatabase();
    const options = { process: randomUUID(), clock: systemClock, reportProblem: () => {} };
    const { store } = await openPostgres(url, options);
    await addAccounts(store);
    await fillPostgres(url, rows);
    const measured = await measureStore(store, () => performance.now());
    await store.close();
    return measured;
  } finally {
    await server.close();
  }
}

async function addAccounts(store: Store): Promise<void> {
  for (const name of accountNames) await store.addAccount({ name, keyHash: name, creditsOf: () => 1_000_000_000 });
}

async function measureStore(store: Store, nowMs: () => number): Promise<Measured> {
  const figures: Measured["figures"] = {};
  for (const [name, report] of Object.entries(reports)) {
    const taken: number[] = [];
    try {
      while (taken.length < rounds) {
        const begun = nowMs();
        await report(store);
        taken.push(nowMs() - begun);
        if ((taken[0] ?? 0) > longMs) break;
      }
      figures[name] = Math.min(...taken).toFixed(1);
    } catch (error) {
      figures[name] = error instanceof Error && /timeout/.test(error.message) ? "timeout" : String(error);
    }
  }
  return { figures, start: await measureStarts(store, nowMs) };
}

/** Starts of eight accounts, a quarter of them with a label. */
async function measureStarts(store: Store, nowMs: () => number): Promise<string> {
  const { request } = newGeneration();
  let left = starts;
  const startSome = async () => {
    for (; left > 0; left--) {
      const label = left % 4 === 0 ? { label: { name: `new-${left % 3}.csv`, size: null } } : {};
      const generation = newGeneration({ account: accountNames[left % 8] ?? "", request: { ...request, ...label } });
      await store.start(generation, 10, { key: generation.id, body: "{}" });
    }
  };
  const begun = nowMs();
  await Promise.all(Array.from({ length: startsAtOnce }, startSome));
  return (((nowMs() - begun) / starts) * 1_000).toFixed(0);
}
