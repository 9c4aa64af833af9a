import { randomUUID } from "node:crypto";
import type { ClientBase, ClientConfig, PoolClient } from "pg";
import { systemCode } from "../../../errors.ts";
import type { Clock } from "../../../io.ts";
import type { ReportProblem } from "../../observe/problem.ts";
import { toText } from "../values.ts";

export type PgValue = string | number | boolean | object | null | undefined;
export type PgRow = Record<string, unknown>;

/** Runs one statement. Rejects with `isUnavailable: true` when the database cannot be reached now. */
export type Query = <R extends PgRow = PgRow>(text: string, ...values: PgValue[]) => Promise<R[]>;

/** Connections to PostgreSQL. */
export type Database = {
  query: Query;
  /** Runs statements in a transaction, and resolves once it is durable. When one rejects, nothing was changed. */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T>;
  /** Runs statements one after the other on a connection of their own, without a time limit, and closes it. Locks are held until then. */
  session<T>(work: (query: Query) => Promise<T>): Promise<T>;
  /** How many milliseconds have passed since the last known outage. */
  upForMs(): number;
  /**
   * Calls `onMessage` for each notification of a channel, until `close`. Notifications during an outage are missed: `onReconnect` is called after
   * each outage.
   */
  listen(channel: string, onMessage: (text: string) => void, onReconnect?: () => void): void;
  /** Rejects when statements outside a transaction do not share a connection, as behind PgBouncer in transaction mode. */
  checkSessions(): Promise<void>;
  close(): Promise<void>;
};

/**
 * A process that is suspended inside a transaction keeps its locks until these limits. Set by a statement, because PgBouncer refuses to connect with
 * settings that it does not know. The rules name tables without a schema, as SQLite does.
 */
const setLimits =
  "SET statement_timeout = 10000; SET idle_in_transaction_session_timeout = 10000; SET search_path = vidgen";

/**
 * Lets a statement take any time, whatever the database or its URL sets. Two limits stay, so that the server closes the connection of a vidgen
 * process that is suspended between two statements. Settings that this version of PostgreSQL does not have are left out.
 */
const allowLongStatements = `SELECT set_config(name, value, false) FROM pg_settings JOIN (VALUES
  ('statement_timeout', '0'), ('transaction_timeout', '0'), ('lock_timeout', '0'),
  ('idle_in_transaction_session_timeout', '10000'), ('idle_session_timeout', '60000')
) AS wanted (name, value) USING (name)`;

const connectTimeoutMs = 10_000;
/** A connection may be lost without notice. Longer than `statement_timeout`, within which the server answers. */
const replyTimeoutMs = 12_000;
const keepAliveMs = 10_000;
const reconnectMs = 1_000;
const endMs = 2_000;

const poolerText =
  "the connection pooler gives a connection for only one transaction, but vidgen needs it for longer: set PgBouncer's pool_mode to session, or connect to PostgreSQL directly";

export type DatabaseOptions = {
  maxConnections: number;
  clock: Pick<Clock, "sleep" | "now">;
  reportProblem: ReportProblem;
};

/** Prepares connections to a database; the first one is made when it is needed. Rejects when the package `pg` is missing. */
export async function openDatabase(
  url: string,
  { maxConnections, clock, reportProblem }: DatabaseOptions,
): Promise<Database> {
  const { default: pg } = await import("pg");
  const config: ClientConfig = {
    connectionString: url,
    application_name: "vidgen",
    // By default the system checks a connection after two hours. A NAT forgets a connection much earlier, and neither side is notified.
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveMs,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: replyTimeoutMs,
  };
  const pool = new pg.Pool({ ...config, max: maxConnections });
  // The pool replaces a connection that breaks while nobody uses it.
  pool.on("error", () => {});
  // Without a listener, a connection that breaks between two statements of a transaction would end this process; with it, the next statement fails.
  pool.on("connect", (client) => {
    client.on("error", () => {});
    // Not awaited, because the client sends its statements one after the other.
    client.query(setLimits).catch(() => {});
  });
  const stop = new AbortController();
  let isDown = false;
  let lastDownAt = clock.now();
  /** Reports an outage once. */
  const describe = (error: unknown) => {
    const described = describeError(error);
    const what = systemCode(error) === cancelled ? "The database is too slow" : "The database cannot be reached";
    if (described.isUnavailable && !isDown && !stop.signal.aborted) reportProblem(what, described.message);
    isDown = described.isUnavailable;
    if (isDown) lastDownAt = clock.now();
    return described;
  };
  const connect = () => pool.connect().catch((error) => Promise.reject(describe(error)));
  const runOn = async (client: ClientBase, text: string, values: readonly PgValue[]) => {
    try {
      // Several statements in one text give a list without rows.
      const { rows = [] } = await client.query(text, values.map(bind));
      isDown = false;
      return rows;
    } catch (error) {
      throw describe(error);
    }
  };
  /** Closes a connection on which something failed, because it may still be inside a transaction. */
  const useClient = async <T>(work: (client: PoolClient) => Promise<T>): Promise<T> => {
    stop.signal.throwIfAborted();
    const client = await connect();
    try {
      const result = await work(client);
      client.release();
      return result;
    } catch (error) {
      client.release(true);
      throw error;
    }
  };

  const running = new Set<Promise<unknown>>();
  /** `close` waits for this work. */
  const withClient: typeof useClient = (work) => {
    const result = useClient(work).finally(() => running.delete(result));
    running.add(result);
    return result;
  };

  const listen = async (channel: string, onMessage: (text: string) => void, onReconnect: () => void) => {
    for (let isFirst = true; !stop.signal.aborted; ) {
      const client = new pg.Client(config);
      const ended = new Promise<void>((resolve) => client.on("error", () => resolve()).on("end", () => resolve()));
      const end = () => void client.end().catch(() => {});
      stop.signal.addEventListener("abort", end);
      client.on("notification", ({ payload = "" }) => onMessage(payload));
      await client
        .connect()
        .then(() => client.query(`LISTEN ${channel}`))
        .then(() => {
          if (!isFirst) onReconnect();
          isFirst = false;
          return ended;
        })
        .catch(describe);
      stop.signal.removeEventListener("abort", end);
      end();
      await clock.sleep(reconnectMs, stop.signal).catch(() => {});
    }
  };
  const session: Database["session"] = async (work) => {
    // A statement may take long, so there is no limit for replies; `keepAlive` notices a database that became unreachable.
    const client = new pg.Client({ ...config, query_timeout: 0 });
    // After a break between two statements, the error of the next one does not contain the reason.
    let broken: Error | undefined;
    client.on("error", (error) => {
      broken ??= error;
    });
    try {
      await client.connect().catch((error) => Promise.reject(describe(error)));
      await runOn(client, allowLongStatements, []);
      return await work((text, ...values) =>
        runOn(client, text, values).catch((error) => {
          throw broken === undefined ? error : describeError(broken);
        }),
      );
    } finally {
      await client.end().catch(() => {});
    }
  };
  let listening = Promise.resolve();
  return {
    query: (text, ...values) => withClient((client) => runOn(client, text, values)),
    transaction: (work) =>
      withClient(async (client) => {
        await runOn(client, "BEGIN", []);
        const result = await work((text, ...values) => runOn(client, text, values));
        await runOn(client, "COMMIT", []);
        return result;
      }),
    checkSessions: () =>
      withClient(async (client) => {
        const mark = randomUUID();
        const readMark = "SELECT current_setting('vidgen.session', true) AS mark";
        await runOn(client, `SET vidgen.session = '${mark}'`, []);
        // A pooler hands the connection that was used last to the transaction of another client.
        const isShared = await useClient(async (other) => {
          await runOn(other, "BEGIN", []);
          const [row] = await runOn(other, readMark, []);
          const [own] = await runOn(client, readMark, []);
          await runOn(other, "ROLLBACK", []);
          // Through a pooler, `other` sees the mark of `client`, or `client` no longer sees its own.
          return row?.mark === mark || own?.mark !== mark;
        });
        if (isShared) throw new Error(poolerText);
      }),
    session,
    upForMs: () => clock.now() - lastDownAt,
    listen(channel, onMessage, onReconnect = () => {}) {
      listening = listen(channel, onMessage, onReconnect);
    },
    async close() {
      stop.abort(new Error("the database is closed"));
      // After `pool.end`, a call that waits for a connection would never settle.
      await Promise.allSettled(running);
      // An unreachable server does not end its connections.
      const timer = new AbortController();
      await Promise.race([Promise.all([pool.end(), listening]), clock.sleep(endMs, timer.signal)]);
      timer.abort();
    },
  };
}

function bind(value: PgValue): PgValue {
  if (Array.isArray(value)) return value.map(bind);
  return typeof value === "string" ? toText(value) : value;
}

type DescribedError = Error & { isUnavailable: boolean };

/** The SQLSTATE of a statement that took longer than its limit. */
const cancelled = "57014";

/**
 * Classes of SQLSTATE that are temporary: no connection, a conflict with another transaction, too few resources, a server that stops, a query that
 * took too long, a standby.
 */
const temporary = /^(08|40|53|57P|57014|25006|25P03)/;

/** An error without a severity comes from the driver's connection, not from the server. */
export function describeError(error: unknown): DescribedError {
  const fields = Object(error) as { severity?: unknown; code?: unknown };
  const isUnavailable = fields.severity === undefined || temporary.test(String(fields.code));
  // Node's message is empty when a host has several addresses and none answers. Its "ENOENT" is about a socket, not about the database.
  const message = (error instanceof Error ? error.message : String(error)) || (systemCode(error) ?? "");
  return Object.assign(new Error(message, { cause: error }), { isUnavailable });
}
