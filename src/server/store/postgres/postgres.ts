import type { Clock } from "../../../io.ts";
import type { ReportProblem } from "../../observe/problem.ts";
import type { Change } from "../change.ts";
import { createDeliveryReads } from "../reads/deliveries.ts";
import { createGenerationReads } from "../reads/generations.ts";
import { createLedgerReads } from "../reads/ledger.ts";
import { createMethods } from "../rules/methods.ts";
import type { Context } from "../rules/rule.ts";
import type { Store } from "../store.ts";
import { channel, notify, readChange } from "./changes.ts";
import { createClaims } from "./claims.ts";
import { type Database, openDatabase } from "./database.ts";
import { claimDue, createSchedule } from "./due.ts";
import { type FirstValues, initialize } from "./initialize.ts";
import { keyMs, rememberKeys } from "./keys.ts";
import { migrate, requireCurrent } from "./migrations.ts";
import { createReader } from "./reader.ts";
import { runRule } from "./run.ts";
import { createStarts } from "./starts.ts";
import { createDatabaseTime, type DatabaseTime } from "./time.ts";

export type Postgres = {
  store: Store;
  /** The current date by the database's clock, for all times that processes compare. */
  date: DatabaseTime["date"];
  /** Tells `visitPostgres` the addresses of this process. They are those of the service behind a proxy, else of the process that was started last. */
  announce(addresses: SharedAddresses): Promise<void>;
  /** The secret of the page's sessions. Like keys, it is cached only briefly, because another process may replace it. Rejects before `initialize`. */
  pageSecret(): Promise<string>;
  /** See `initialize`. */
  initialize(values: FirstValues, options?: { rotate?: boolean }): ReturnType<typeof initialize>;
};

/** The URLs of the API and of the videos for clients, and whether there is a page. */
export type SharedAddresses = { base_url: string; media_url: string; has_page: boolean };

/** What processes have written about their service; `undefined` before the first one listens. */
type Settings = {
  webhookSecret?: string | undefined;
  pageSecret?: string | undefined;
  addresses?: SharedAddresses | undefined;
};

export type PostgresOptions = {
  /** Identifies this process as the holder of what it makes. */
  process: string;
  clock: Pick<Clock, "sleep" | "now" | "date">;
  reportProblem: ReportProblem;
  /** Called with a line for the owner when opening takes long. */
  onNote?(text: string): void;
  /** Ends the wait for another process that prepares the database. */
  signal?: AbortSignal;
};

const checkWritable = `INSERT INTO vidgen.settings (name, value) VALUES ('checked_at', now()::text)
  ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value`;

/**
 * Opens a PostgreSQL database that a service has used, for a command that does not run the service, and changes nothing. Rejects with `usage` when
 * no service has used the database, or only one of an earlier version; otherwise as `openPostgres` does.
 */
export async function visitPostgres(url: string, clock: PostgresOptions["clock"]) {
  const database = await openDatabase(url, { maxConnections: 1, clock, reportProblem: () => {} });
  try {
    await requireCurrent(database.query);
    const reader = createReader(database);
    return {
      ...createRuled(database, { process: "", clock }),
      ...createGenerationReads(reader),
      ...createLedgerReads(reader),
      settings: () => readSettings(database),
      close: database.close,
    };
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** The methods of the store that run a rule. */
function createRuled(
  { query, transaction }: Pick<Database, "query" | "transaction">,
  { process, clock }: Pick<PostgresOptions, "process" | "clock">,
) {
  const context: Context = {
    process,
    now: () => clock.date().toISOString(),
    schedule: createSchedule(clock),
    addToSearch: "UPDATE generations SET search = search || ? WHERE number = ?",
  };
  const methods = createMethods(
    {
      read: (rule) => runRule(query, rule),
      change: (rule) => transaction((sql) => runRule(sql, rule)),
    },
    context,
  );
  return { ...methods, ...rememberKeys(methods, clock) };
}

async function readSettings({ query }: Pick<Database, "query">): Promise<Settings> {
  const rows = await query<{ name: string; value: string }>("SELECT name, value FROM vidgen.settings");
  const settingOf = (name: string) => rows.find((row) => row.name === name)?.value;
  const addresses = JSON.parse(settingOf("addresses") ?? "null") ?? undefined;
  return { webhookSecret: settingOf("webhook_secret"), pageSecret: settingOf("page_secret"), addresses };
}

const setAddresses = `INSERT INTO vidgen.settings (name, value) VALUES ('addresses', $1)
  ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value`;

/**
 * Opens a PostgreSQL database, and brings it to this program's version. Rejects with Node's ERR_MODULE_NOT_FOUND when `pg` is not installed,
 * otherwise with an error that a person can read. Neither contains the password.
 */
export async function openPostgres(
  url: string,
  { process, clock, reportProblem, onNote = () => {}, signal }: PostgresOptions,
): Promise<Postgres> {
  const database = await openDatabase(url, { maxConnections: 10, clock, reportProblem: () => {} });
  // Connections of their own, so that many requests do not delay the renewal of claims. They are always in use, so they report an outage.
  const background = await openDatabase(url, { maxConnections: 4, clock, reportProblem });
  const close = async () => void (await Promise.all([database.close(), background.close()]));
  try {
    await database.checkSessions();
    await migrate(database, { clock, onNote, signal });
    const { date, differenceMs, measure } = createDatabaseTime(background.query, { clock, onNote });
    await measure();
    const starts = createStarts(database);
    const { stopRenewing, ...claims } = createClaims(background, { process, clock, reportProblem, onRenew: measure });
    const reader = createReader(database);
    const listeners = new Set<(change: Change) => void>();
    let isListening = false;
    const store: Store = {
      check: async () => void (await Promise.all([database.query(checkWritable), measure()])),
      clockDifferenceMs: differenceMs,
      ...createRuled(database, { process, clock: { ...clock, date } }),
      start: starts.start,
      ...createGenerationReads(reader),
      ...createDeliveryReads(reader),
      ...createLedgerReads(reader),
      ...claims,
      due: (query) => claimDue(background.query, query),
      isShared: true,
      listen(onChange) {
        listeners.add(onChange);
        const publish = (change: Change | undefined) => {
          if (change) for (const listener of listeners) listener(change);
        };
        if (!isListening)
          background.listen(
            channel,
            (text) => publish(readChange(text)),
            () => publish({ kind: "missed", account: null }),
          );
        isListening = true;
        return () => listeners.delete(onChange);
      },
      publish: (change) => void notify(background.query, change).catch(() => {}),
      async close() {
        await Promise.all([starts.close(), stopRenewing()]);
        await close();
      },
    };
    let cached: { secret: string; end: number } | undefined;
    const readPageSecret = async () => {
      if (cached && clock.now() < cached.end) return cached.secret;
      const end = clock.now() + keyMs;
      const { pageSecret: secret } = await readSettings(database);
      if (secret === undefined) throw new Error("the database has no secret for the page");
      cached = { secret, end };
      return secret;
    };
    return {
      store,
      date,
      announce: async (addresses) => void (await database.query(setAddresses, JSON.stringify(addresses))),
      pageSecret: readPageSecret,
      initialize: (first, options = {}) => initialize(database, first, { ...options, now: date() }),
    };
  } catch (error) {
    await close();
    throw error;
  }
}
