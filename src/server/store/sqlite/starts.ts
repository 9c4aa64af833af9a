import type { Change } from "../change.ts";
import type { Idempotency, StartOutcome, StoredGeneration } from "../generations.ts";
import { hashesOfKey, hashOfBody } from "../idempotency.ts";
import { toNewRow } from "../new-row.ts";
import { lockAccount } from "../rules/account.ts";
import { findUse } from "../rules/account-limits.ts";
import { changeCredits } from "../rules/credits.ts";
import type { Rule } from "../rules/rule.ts";
import { decideStart, findKeyUse, isBilled, type Start } from "../rules/start.ts";
import { toText } from "../values.ts";
import type { Database } from "./database.ts";
import { runRule } from "./run.ts";

/** Starts a generation: the account pays, and the generation and its idempotency key are added. The caller has begun a transaction. */
export function start(database: Database, request: Start, changes: Change[]): StartOutcome {
  const run = <T>(rule: Rule<T>) => runRule(database, rule, changes);
  const { generation, cost, idempotency } = request;
  const { id, account: name, created_at } = generation;
  const account = run(lockAccount(name));
  if (!account) throw new Error(`no account ${name}`);
  const keyUse = idempotency && run(findKeyUse(name, idempotency));
  const outcome = decideStart(request, {
    account,
    keyUse,
    use: run(findUse(account, { at: created_at, missing: request.missing })),
  });
  if (outcome.kind !== "started" || outcome.replayed) return outcome;
  const number = addGeneration(database, generation);
  changes.push({ kind: "generation", id, account: name });
  if (isBilled(request))
    run(changeCredits({ account: name, amount: -cost, reason: "start", at: created_at, generation: number }));
  if (idempotency) addKey(database, { account: name, idempotency, number, credits: outcome.remaining_credits });
  return outcome;
}

/** Adds a generation, and returns its number. */
function addGeneration(database: Database, generation: StoredGeneration): number {
  const { columns, searched, images } = toNewRow(generation);
  const names = Object.keys(columns);
  const [row] = database.all(
    `INSERT INTO generations (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")}) RETURNING number`,
    ...Object.values(columns),
  );
  const number = Number(row?.number);
  // Long texts are bound as bytes, which is faster (see `Database.run`).
  database.run("INSERT INTO search (generation, text) VALUES (?, CAST(? AS TEXT))", number, Buffer.from(searched));
  const insert = "INSERT INTO images (generation, place, source) VALUES (?, ?, CAST(? AS TEXT))";
  for (const { place, source } of images) database.run(insert, number, place, Buffer.from(toText(source)));
  return number;
}

type UsedKey = { account: string; idempotency: Idempotency; number: number; credits: number };

function addKey(database: Database, { account, idempotency, number, credits }: UsedKey): void {
  database.run(
    `INSERT INTO idempotency_keys (account, key_hash, request_hash, is_sorted, generation, remaining_credits) VALUES (?, ?, ?, TRUE, ?, ?)`,
    ...[account, hashesOfKey(idempotency.key).stored, hashOfBody(idempotency.body, true), number, credits],
  );
}
