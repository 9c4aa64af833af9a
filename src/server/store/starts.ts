import { createHash } from "node:crypto";
import type { Generations } from "./generations.ts";
import type { Ledger } from "./ledger.ts";
import type { Database } from "./sqlite.ts";
import type { Idempotency, StartOutcome, StoredGeneration } from "./store.ts";

export type Start = (generation: StoredGeneration, cost: number, idempotency: Idempotency | undefined) => StartOutcome;

/** Debit, generation and idempotency key. Synchronous: it belongs into a transaction. */
export function createStart(database: Database, generations: Generations, ledger: Ledger): Start {
  const keys = createKeys(database);
  return (generation, cost, idempotency) => {
    const { account } = generation;
    const earlier = idempotency && keys.find(account, idempotency.key);
    if (earlier && earlier.body_hash !== hashBody(idempotency.body)) return { kind: "key reused" };
    if (earlier) {
      const known = generations.at(earlier.generation);
      return { kind: "started", generation: known, remaining_credits: earlier.remaining_credits, replayed: true };
    }
    const remaining_credits = ledger.balance(account) - cost;
    if (remaining_credits < 0) return { kind: "no credits" };
    const number = generations.add(generation);
    ledger.debit(account, cost, number);
    if (idempotency) {
      const body_hash = hashBody(idempotency.body);
      keys.add(account, idempotency.key, { generation: number, remaining_credits, body_hash });
    }
    return { kind: "started", generation, remaining_credits, replayed: false };
  };
}

/** What a key was used for. Of the body only its hash, since that may be 1 MB. */
type Use = { generation: number; remaining_credits: number; body_hash: string };

function createKeys(database: Database) {
  const find = database.statement(
    "SELECT generation, remaining_credits, body_hash FROM idempotency_keys WHERE account = ? AND key = ?",
  );
  const add = database.statement(
    "INSERT INTO idempotency_keys (account, key, generation, remaining_credits, body_hash) VALUES (?, ?, ?, ?, ?)",
  );
  return {
    find: (account: string, key: string) => find.get(account, key) as Use | undefined,
    add(account: string, key: string, { generation, remaining_credits, body_hash }: Use) {
      add.run(account, key, generation, remaining_credits, body_hash);
    },
  };
}

function hashBody(body: string): string {
  return createHash("sha256").update(body).digest("hex");
}
