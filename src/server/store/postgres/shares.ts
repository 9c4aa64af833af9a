import type { Clock } from "../../../io.ts";
import type { EngineShare } from "../claims.ts";
import type { Database, Query } from "./database.ts";

/** Any number, the same in each process and each version. */
const lock = 8_788;
const key = `${lock}, hashtext(name)`;

/** The connection may have gone without a word, and has no time limit of its own. */
const replyTimeoutMs = 12_000;

/**
 * The processes divide once a second: one that has not done so for this long is suspended, or its machine has gone without a word. Its work is taken over
 * by then, and so is its part of each engine. PostgreSQL has this limit since version 14.
 */
const limitIdle = "SELECT set_config(name, '15000', false) FROM pg_settings WHERE name = 'idle_session_timeout'";

/** `locked` are the engines whose locks it holds. */
type Connection = { query: Query; locked: readonly string[]; close(): void };

/**
 * What an engine makes at once is divided among the processes that use it. Each of them holds the engine's advisory lock, shared, on a connection
 * of its own, so that a process is counted until it ends, and no longer.
 */
export function createShares({ session }: Pick<Database, "session">, { sleep }: Pick<Clock, "sleep">) {
  let connection: Promise<Connection> | undefined;
  const connect = () =>
    new Promise<Connection>((resolve, reject) => {
      session(async (query) => {
        await query(limitIdle);
        await new Promise<void>((close) => resolve({ query, locked: [], close }));
      }).catch(reject);
    });
  const close = () => {
    connection?.then((opened) => opened.close()).catch(() => {});
    connection = undefined;
  };
  const read = async (engines: readonly string[]) => {
    connection ??= connect();
    const opened = await connection;
    const { query, locked } = opened;
    const left = locked.filter((name) => !engines.includes(name));
    const added = engines.filter((name) => !locked.includes(name));
    if (left.length > 0) await query(`SELECT pg_advisory_unlock_shared(${key}) FROM unnest($1::text[]) AS name`, left);
    if (added.length > 0) await query(`SELECT pg_advisory_lock_shared(${key}) FROM unnest($1::text[]) AS name`, added);
    opened.locked = engines;
    const rows = await query(
      `SELECT name, count(*) AS processes, count(*) FILTER (WHERE pid < pg_backend_pid()) AS index
       FROM unnest($1::text[]) AS name JOIN pg_locks ON classid = ${lock} AND objid = hashtext(name)::oid
       WHERE locktype = 'advisory' AND objsubid = 2
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
       GROUP BY name`,
      engines,
    );
    return new Map(
      rows.map(({ name, processes, index }): [string, EngineShare] => [
        String(name),
        { processes: Number(processes), index: Number(index) },
      ]),
    );
  };
  return {
    async divide(engines: readonly string[]): Promise<Map<string, EngineShare>> {
      if (engines.length === 0 && !connection) return new Map();
      const answered = new AbortController();
      const late = async () => {
        await sleep(replyTimeoutMs, answered.signal);
        throw Object.assign(new Error("no reply"), { isUnavailable: true });
      };
      try {
        return await Promise.race([read([...new Set(engines)]), late()]);
      } catch (error) {
        close();
        throw error;
      } finally {
        answered.abort();
      }
    },
    close,
  };
}
