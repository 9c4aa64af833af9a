import { hash } from "node:crypto";
import { join } from "node:path";
import { type Goal, portion } from "../faults/goal.ts";
import type { Random } from "../faults/random.ts";
import { pause } from "../faults/wire.ts";
import { inFolder } from "../faults/work.ts";
import { query, startPostgres } from "../postgres.ts";
import { type Announced, createClient, type Serving, serve } from "./serve.ts";

const processes = 3;
const apiKey = "upgraded";
const knownId = "00000000-0000-4000-8000-000000000007";
const limitMs = 480_000;

/** Goal 30: a large database gets the indexes that a new version has, however short its limits are and whoever is killed meanwhile. */
export const sharedUpgrade: Goal = {
  number: 30,
  title: "indexes for a large database with short limits, built by processes that are killed",
  run: ({ random, share }) =>
    inFolder(async (home) => {
      const count = portion(1_000_000, share);
      const postgres = await startPostgres();
      try {
        const [old, fresh] = [await postgres.createDatabase(), await postgres.createDatabase()];
        const begin = (database: string) => () =>
          serve(
            home,
            "--database",
            database,
            "--media",
            join(home, "media"),
            "--jobs",
            "0",
            "--port",
            "0",
            "--media-port",
            "0",
            "--credits",
            "1000000",
          );
        for (const database of [old, fresh]) {
          const first = begin(database)();
          await first.started;
          await first.end("SIGKILL");
        }
        await fill(old, count);
        const upgrade = createUpgrade(begin(old));
        const startedAt = performance.now();
        const [broken, killed, [listening]] = await Promise.all([
          breakIndexes(old, portion(4, share, 2), upgrade.isOver),
          killSome(upgrade, random, portion(6, share, 2)),
          upgrade.done,
        ]);
        const ms = performance.now() - startedAt;
        const faults = [...upgrade.faults, ...(await compare(old, fresh)), ...(await checkBooks(old, count))];
        if (listening) faults.push(...(await use(listening)));
        if (broken === 0) faults.push("no index was broken off");
        await upgrade.end();
        const figures = `${count} generations in ${(ms / 1_000).toFixed(1)} s, with ${killed} processes killed and ${broken} indexes broken off`;
        return {
          figures,
          target: "each process listens in the end; no index missing, no row lost or left empty",
          faults,
        };
      } finally {
        await postgres.close();
      }
    }),
};

/** Makes a database large, and takes its indexes away. Its statements end after a second, unless a session says otherwise. */
async function fill(database: string, count: number): Promise<void> {
  const name = new URL(database).pathname.slice(1);
  const request = {
    prompt: "",
    model: "sora-2",
    aspectRatio: "16:9",
    duration: 5,
    resolution: "720p",
    images: [],
    extras: {},
    hasDirectives: true,
    isReal: false,
  };
  const asked = JSON.stringify({ request, callback_url: null }).replace(
    '"prompt":""',
    `"prompt":"fox ' || n || ' at dusk, in the snow"`,
  );
  const media = { file: "fox.mp4", size: 9, etag: '"9"', thumbnail: null };
  await query(
    database,
    `DO $$ DECLARE name text; BEGIN
       FOR name IN SELECT indexrelid::regclass FROM pg_index JOIN pg_class ON oid = indexrelid
         WHERE relnamespace = 'vidgen'::regnamespace AND NOT indisunique
       LOOP EXECUTE 'DROP INDEX ' || name; END LOOP;
     END $$;
     INSERT INTO vidgen.keys (hash, account, created_at) VALUES ('${hash("sha256", apiKey)}', 'local', '2026-01-01T00:00:00.000Z');
     INSERT INTO vidgen.generations (id, account, status, created_at, completed_at, model, asked, result, state, search)
       SELECT '00000000-0000-4000-8000-' || lpad(n::text, 12, '0'), 'local', 'completed', '2026-01-01T00:00:00.000Z',
         '2026-01-01T00:01:00.000Z', 'sora-2', ('${asked}')::jsonb, '${JSON.stringify({ error: null, media, cost: null })}', 'completed',
         'fox ' || n || ' at dusk, in the snow'
       FROM generate_series(1, ${count}) AS n;
     INSERT INTO vidgen.ledger (account, amount, reason, at)
       SELECT name, 1000000 + 10 * ${count} - balance, 'set by the service''s owner', '2026-01-01T00:00:00.000Z' FROM vidgen.accounts;
     UPDATE vidgen.accounts SET balance = 1000000;
     INSERT INTO vidgen.ledger (account, amount, reason, at, generation)
       SELECT 'local', -10, 'start', '2026-01-01T00:00:00.000Z', number FROM vidgen.generations;
     INSERT INTO vidgen.idempotency_keys (account, key_hash, request_hash, generation, remaining_credits)
       SELECT 'local', 'key ' || number, 'body', number, 0 FROM vidgen.generations WHERE number % 10 = 0;
     ALTER DATABASE ${name} SET statement_timeout = '1s'`,
  );
}

/** Keeps processes running on a database until all of them listen: whoever ends before is started again, as by a service manager. */
function createUpgrade(begin: () => Serving) {
  const faults: string[] = [];
  const lives: { serving: Serving; isListening: boolean; isWanted: boolean }[] = [];
  let isOver = false;
  const endsAt = performance.now() + limitMs;
  const keepRunning = async (index: number): Promise<Announced> => {
    for (;;) {
      const life = { serving: begin(), isListening: false, isWanted: true };
      lives[index] = life;
      const announced = await life.serving.started.catch(() => undefined);
      life.isListening = announced !== undefined;
      if (announced) return announced;
      const how = await life.serving.ended;
      // That of a process whose connection was cut.
      if (life.isWanted && !/cannot be reached: .*terminat/i.test(how)) faults.push(`a process ${how}`);
      if (performance.now() > endsAt || faults.length > 8) throw new Error(`they do not listen: ${faults.join("; ")}`);
    }
  };
  const running = Array.from({ length: processes }, (_, index) => keepRunning(index));
  const done = Promise.all(running).finally(() => {
    isOver = true;
  });
  return {
    faults,
    done,
    isOver: () => isOver,
    /** Kills one that does not listen yet. */
    async kill(random: Random): Promise<boolean> {
      const life = random.pick(lives);
      if (life.isListening) return false;
      life.isWanted = false;
      await life.serving.end("SIGKILL");
      return true;
    },
    end: async () => void (await Promise.all(lives.map(({ serving }) => serving.end("SIGKILL")))),
  };
}

/** Cuts the connections of so many that build an index; resolves with how many there were. */
async function breakIndexes(database: string, most: number, isOver: () => boolean): Promise<number> {
  let broken = 0;
  while (broken < most && !isOver()) {
    const cut = await query(
      database,
      `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
       WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND state = 'active' AND datname = current_database()`,
    );
    broken += cut.length;
    await pause(cut.length > 0 ? 300 : 5);
  }
  return broken;
}

/** Kills processes at any time; resolves with how many. */
async function killSome(upgrade: ReturnType<typeof createUpgrade>, random: Random, most: number): Promise<number> {
  let killed = 0;
  while (killed < most && !upgrade.isOver()) {
    await pause(random.between(300, 3_000));
    if (!upgrade.isOver() && (await upgrade.kill(random))) killed++;
  }
  return killed;
}

/** What an upgraded database has otherwise than a new one. */
async function compare(old: string, fresh: string): Promise<string[]> {
  const looks = {
    indexes: "SELECT indexdef FROM pg_indexes WHERE schemaname = 'vidgen' ORDER BY 1",
    columns:
      "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'vidgen' ORDER BY 1, 2",
    versions: "SELECT version FROM vidgen.versions ORDER BY 1",
    "broken indexes": "SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid",
  };
  const faults: string[] = [];
  for (const [name, sql] of Object.entries(looks)) {
    const [one, other] = [await query(old, sql), await query(fresh, sql)].map((rows) => JSON.stringify(rows));
    if (one !== other) faults.push(`${name}: ${one} where a new database has ${other}`);
  }
  return faults;
}

async function checkBooks(database: string, count: number): Promise<string[]> {
  const [books] = await query(
    `${database}?options=-c%20statement_timeout%3D0`,
    `SELECT count(*)::int AS generations, count(*) FILTER (WHERE state = 'completed')::int AS completed,
       count(*) FILTER (WHERE search LIKE 'fox % at dusk, in the snow%')::int AS searchable,
       (SELECT sum(amount)::int FROM vidgen.ledger) AS balance FROM vidgen.generations`,
  );
  const wanted = { generations: count, completed: count, searchable: count, balance: 1_000_000 };
  const isWhole = Object.entries(wanted).every(([name, value]) => books?.[name] === value);
  return isWhole ? [] : [`the books say ${JSON.stringify(books)}`];
}

/** Looks at an old generation, and starts a new one. */
async function use(announced: Announced): Promise<string[]> {
  const client = createClient({ ...announced, api_key: apiKey }, 1);
  const old = await client.status(knownId);
  const started = await client.start({ prompt: "a fox", model: "sora-2" });
  client.close();
  const faults = [];
  if (old.json.status !== "completed") faults.push(`an old generation: ${JSON.stringify(old)}`);
  if (started.json.remaining_credits !== 999_990) faults.push(`a new generation: ${JSON.stringify(started)}`);
  return faults;
}
