import { openDatabase } from "../../src/server/store/sqlite/database.ts";
import { query } from "../postgres.ts";

export const accountCount = 200;
const modelCount = 8;
const queuedCount = 500;
const days = 90;
/** An account's generations come in runs of so many: one with a label, then one without. */
const runLength = 100;

export const accountNames = Array.from({ length: accountCount }, (_, index) => `account-${index}`);

/** What both databases write alike, of the row `i`, which counts from 0. `n` is how many rows there are. */
const model = `'model-' || (i / ${accountCount} % ${modelCount})`;
const account = `'account-' || (i % ${accountCount})`;
const label = `CASE WHEN i / ${accountCount * runLength} % 2 = 0 THEN 'batch-' || (i % ${accountCount}) || '-' || (i / ${accountCount * runLength}) || '.csv' END`;
const prompt = "'a red fox runs through snow, take ' || i";
const isQueued = (rows: number) => `i >= ${rows - queuedCount}`;
/** The fourth account has none that failed, and no callback that was given up. */
const isFailed = `i % 53 = 7 AND i % ${accountCount} <> 3`;
const status = (rows: number) =>
  `CASE WHEN ${isQueued(rows)} THEN 'processing' WHEN ${isFailed} THEN 'failed' ELSE 'completed' END`;
const completed = `'{"error":null,"media":{"file":"' || i || '.mp4","size":1,"etag":"\\"1\\"","thumbnail":null}'`;
const result = (rows: number) => `CASE WHEN ${isQueued(rows)} THEN '{"error":null,"media":null,"cost":null}'
  WHEN ${isFailed} THEN '{"error":"out of memory","media":null,"cost":null}'
  WHEN i % 3 = 0 THEN ${completed} || ',"cost":null}' ELSE ${completed} || ',"cost":0.25}' END`;
const asked = `'{"request":{"prompt":"' || ${prompt} || '","model":"' || ${model}
  || '","aspectRatio":"16:9","duration":5,"resolution":"480p","images":[],"extras":{},"hasDirectives":false,"isReal":false'
  || coalesce(',"label":{"name":"' || ${label} || '","size":${runLength}}', '') || '},"callback_url":null}'`;
const hasCallback = (rows: number) => `i / ${accountCount} % 2 = 0 AND i < ${rows - queuedCount}`;
const host = `'hook-' || (i % ${accountCount}) || '.example'`;
const receiver = `'https://' || ${host} || '/'`;
/** Of the last ones the callback waits, and of one in a hundred it was given up. */
const isWaiting = (rows: number) => `i >= ${rows - queuedCount - 400}`;
const isDelivered = `(i % 97 <> 4 OR i % ${accountCount} = 3)`;
const deliveryState = (rows: number) =>
  `CASE WHEN ${isWaiting(rows)} THEN 'waiting' WHEN ${isDelivered} THEN 'delivered' ELSE 'given_up' END`;

/** Adds generations to a new SQLite database, as the store would have kept them. Its accounts must be there. */
export async function fillSqlite(file: string, rows: number): Promise<void> {
  const database = await openDatabase(file);
  const time = (offset: string) =>
    `strftime('%Y-%m-%dT%H:%M:%fZ', '2026-01-01', (i * ${(days * 86_400) / rows}) || ' seconds'${offset})`;
  try {
    database.exec(`PRAGMA journal_mode = WAL; PRAGMA cache_size = -200000; BEGIN;
      CREATE TEMP TABLE numbers (i INTEGER PRIMARY KEY);
      WITH RECURSIVE n (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < ${rows - 1})
      INSERT INTO numbers SELECT i FROM n;
      INSERT INTO generations (number, id, account, status, created_at, completed_at, asked, result, model, label, state)
      SELECT i + 1, printf('%08d-0000-4000-8000-000000000000', i), ${account}, status,
        ${time("")}, iif(status = 'processing', NULL, ${time(", '1 minute'")}), ${asked}, ${result(rows)}, ${model}, ${label},
        CASE status WHEN 'processing' THEN 'queued' ELSE status END
      FROM (SELECT i, ${status(rows)} AS status FROM numbers);
      INSERT INTO search (generation, text)
      SELECT number, lower(concat_ws(char(10), asked ->> '$.request.prompt', id, model, label)) FROM generations;
      INSERT INTO ledger (account, amount, reason, at, generation)
      SELECT account, -10, 'start', created_at, number FROM generations;
      INSERT INTO ledger (account, amount, reason, at, generation)
      SELECT account, 10, 'refund', completed_at, number FROM generations WHERE status = 'failed';
      INSERT INTO deliveries (id, generation, account, url, body, next_at, planned_at, host, state)
      SELECT 'msg_' || i, i + 1, ${account}, ${receiver}, '{}', iif(${isWaiting(rows)}, '2099-09-01T00:00:00.000Z', NULL),
        '2026-01-01T00:00:00.000Z', ${host}, ${deliveryState(rows)}
      FROM numbers WHERE ${hasCallback(rows)};
      INSERT INTO delivery_attempts (delivery, number, at, outcome, delivered, reply, ms)
      SELECT deliveries.number, 1, '2026-01-01T00:00:00.000Z', 'HTTP 200', ${isDelivered}, '', 5
      FROM deliveries JOIN numbers ON generation = i + 1 WHERE NOT ${isWaiting(rows)};
      COMMIT; ANALYZE`);
  } finally {
    database.close();
  }
}

/** The same for PostgreSQL. */
export async function fillPostgres(url: string, rows: number): Promise<void> {
  const time = (offset: string) =>
    `to_char(timestamp '2026-01-01' + i * interval '${(days * 86_400) / rows} seconds'${offset}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
  await query(
    url,
    `BEGIN;
     CREATE TEMP TABLE numbers AS SELECT i FROM generate_series(0, ${rows - 1}) AS i;
     INSERT INTO vidgen.generations (number, id, account, status, created_at, completed_at, asked, result, model, search, label, state)
     OVERRIDING SYSTEM VALUE
     SELECT i + 1, id, ${account}, status, ${time("")}, CASE WHEN status <> 'processing' THEN ${time(" + interval '1 minute'")} END,
       (${asked})::jsonb, (${result(rows)})::jsonb, ${model}, concat_ws(chr(10), ${prompt}, id, ${model}, ${label}), ${label},
       CASE status WHEN 'processing' THEN 'queued' ELSE status END
     FROM (SELECT i, to_char(i, 'FM00000000') || '-0000-4000-8000-000000000000' AS id, ${status(rows)} AS status FROM numbers) AS n;
     INSERT INTO vidgen.ledger (account, amount, reason, at, generation)
     SELECT account, -10, 'start', created_at, number FROM vidgen.generations ORDER BY number;
     INSERT INTO vidgen.ledger (account, amount, reason, at, generation)
     SELECT account, 10, 'refund', completed_at, number FROM vidgen.generations WHERE status = 'failed' ORDER BY number;
     INSERT INTO vidgen.deliveries (id, generation, account, url, body, next_at, host, due_at, state)
     SELECT 'msg_' || i, i + 1, ${account}, ${receiver}, '{}', CASE WHEN ${isWaiting(rows)} THEN '2026-09-01T00:00:00.000Z' END, ${host},
       CASE WHEN ${isWaiting(rows)} THEN timestamptz '2099-09-01' END, ${deliveryState(rows)}
     FROM numbers WHERE ${hasCallback(rows)} ORDER BY i;
     INSERT INTO vidgen.delivery_attempts (delivery, number, at, outcome, delivered, reply, ms)
     SELECT deliveries.number, 1, '2026-01-01T00:00:00.000Z', 'HTTP 200', ${isDelivered}, '', 5
     FROM vidgen.deliveries JOIN numbers ON generation = i + 1 WHERE NOT ${isWaiting(rows)};
     SELECT setval(pg_get_serial_sequence('vidgen.generations', 'number'), ${rows});
     COMMIT`,
  );
  await query(url, "VACUUM ANALYZE");
}
