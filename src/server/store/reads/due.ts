/**
 * Begins a statement on `turns`, the callbacks to attempt with their time `due`: of each host, first attempts and retries in turn, up to its room.
 * See `DueQuery`. Its first `?` is the hosts as JSON, and its last the room of all others. `heads` selects the `number` and the time `due` of those
 * that are due for `hosts.host` and `kinds.is_retry`: as many as may be attempted, so that no others are read, however many wait.
 */
export const inTurn = (heads: string) => `
  WITH RECURSIVE
    rooms AS MATERIALIZED (
      SELECT key AS host, CAST(value ->> 'room' AS integer) AS room, CAST(value ->> 'beforeRetry' AS integer) AS before_retry
      FROM json_each(?)
    ),
    hosts (host) AS (
      SELECT min(host) FROM deliveries WHERE state = 'waiting'
      UNION ALL
      SELECT (SELECT min(host) FROM deliveries WHERE state = 'waiting' AND host > hosts.host)
      FROM hosts WHERE host IS NOT NULL
    ),
    kinds (is_retry) AS (VALUES (FALSE), (TRUE)),
    heads AS (
      SELECT number, due, hosts.host, kinds.is_retry,
        row_number() OVER (PARTITION BY hosts.host, kinds.is_retry ORDER BY due, number) AS place
      FROM hosts CROSS JOIN kinds CROSS JOIN ${heads}
    ),
    places AS (
      SELECT number, due, room, row_number() OVER (
        PARTITION BY heads.host ORDER BY CASE WHEN is_retry THEN coalesce(before_retry, 0) + 3 * place - 2.5 ELSE place END
      ) AS turn
      FROM heads LEFT JOIN rooms ON rooms.host = heads.host
    ),
    turns AS (SELECT number, due FROM places WHERE turn <= coalesce(room, ?))`;
