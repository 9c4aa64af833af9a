import { cutRequest } from "../cut-request.ts";
import type { Idempotency, StartOutcome, StoredGeneration } from "../generations.ts";
import { hashesOfKey, hashOfBody } from "../idempotency.ts";
import { type AccountUsage, findLimit } from "../limits.ts";
import { columns, readGeneration } from "../reads/generations.ts";
import type { Row } from "../reads/reader.ts";
import type { AccountRow } from "./account.ts";
import { type Rule, sql } from "./rule.ts";

/** A start to execute; `cost` is in credits. */
export type Start = {
  generation: StoredGeneration;
  cost: number;
  idempotency: Idempotency | undefined;
  missing?: readonly string[] | undefined;
};

/** What a start with an idempotency key has stored: the hash of its body, how it was made, and the reply to a repeated start. */
export type KeyUse = { bodyHash: string; isSorted: boolean; outcome: StartOutcome & { kind: "started" } };

/** The locked account of a start, its `use` if the account has limits, and the `keyUse` if the start's key was used before. */
export type StartRows = { account: AccountRow; use: AccountUsage | undefined; keyUse: KeyUse | undefined };

/** Returns the result of a start. A repeated key is checked before the limits, and the limits before the credits. Changes nothing. */
export function decideStart(
  { generation, cost, idempotency }: Start,
  { account, use, keyUse }: StartRows,
): StartOutcome {
  if (account.isDeleted) return { kind: "no account" };
  if (account.disabled_at !== null) return { kind: "disabled" };
  if (keyUse && idempotency) return repeat(keyUse, idempotency);
  const limited = use && findLimit(account, use, generation.created_at);
  if (limited) return limited;
  const remaining_credits = account.credits - cost;
  if (remaining_credits < 0) return { kind: "no credits" };
  return { kind: "started", generation, remaining_credits, replayed: false };
}

/** Whether the ledger gets a row for a start: also for a real video that costs no credits, since its row shows what the provider charged. */
export function isBilled({ generation, cost }: Pick<Start, "generation" | "cost">): boolean {
  return cost > 0 || generation.request.isReal;
}

/** Returns the rows after a start was executed, for the next start of the same account. */
export function rowsAfter(
  { generation, idempotency }: Start,
  { rows, outcome }: { rows: StartRows; outcome: StartOutcome & { kind: "started" } },
): StartRows {
  const { account, use } = rows;
  // The images are cut because a reply to a repeated key, which is read from the database, has them cut too.
  const shown = { ...generation, request: cutRequest(generation.request).request };
  return {
    account: { ...account, credits: outcome.remaining_credits },
    use: use && { ...use, running: use.running + 1, starts: use.starts + 1 },
    keyUse: idempotency && {
      bodyHash: hashOfBody(idempotency.body, true),
      isSorted: true,
      outcome: { ...outcome, generation: shown, replayed: true },
    },
  };
}

/** Returns the reply to a start with a used key. */
function repeat(
  { bodyHash, isSorted, outcome }: KeyUse,
  { body, earlierBodies = () => [] }: Idempotency,
): StartOutcome {
  const isStored = (each: string) => bodyHash === hashOfBody(each, isSorted);
  const isSame = isStored(body) || earlierBodies().some(isStored);
  return isSame ? outcome : { kind: "key reused" };
}

/** What `readKeyUse` needs, where the tables of keys and of generations are joined. */
export const keyUseColumns = `${columns.replaceAll(/\w+/g, "generations.$&")}, key_hash, request_hash, is_sorted, remaining_credits`;

export function readKeyUse({ key_hash, request_hash, is_sorted, remaining_credits, ...row }: Row): KeyUse {
  const outcome = { generation: readGeneration(row), remaining_credits: Number(remaining_credits) };
  const stored = { bodyHash: String(request_hash), isSorted: Boolean(is_sorted) };
  return { ...stored, outcome: { kind: "started", ...outcome, replayed: true } };
}

export function* findKeyUse(account: string, idempotency: Idempotency): Rule<KeyUse | undefined> {
  const { known } = hashesOfKey(idempotency.key);
  const rows = yield* sql(
    `SELECT ${keyUseColumns} FROM idempotency_keys
     JOIN generations ON generations.number = idempotency_keys.generation
     WHERE idempotency_keys.account = ? AND key_hash IN (?, ?, ?)`,
    ...[account, ...known],
  );
  const row = known.map((hash) => rows.find(({ key_hash }) => key_hash === hash)).find((each) => each);
  return row && readKeyUse(row);
}

/** Returns the reply to a start with this key, if an earlier start has used it. */
export function* findStart(account: string, idempotency: Idempotency): Rule<StartOutcome | undefined> {
  const keyUse = yield* findKeyUse(account, idempotency);
  return keyUse && repeat(keyUse, idempotency);
}
