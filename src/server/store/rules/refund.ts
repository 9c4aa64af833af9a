import type { AccountRow } from "./account.ts";
import { changeCredits } from "./credits.ts";
import { type Rule, sql } from "./rule.ts";

/**
 * Returns the credits that were paid for a generation (by its number), up to the maximum balance of its account, which must be locked. The database
 * refuses a second refund.
 */
export function* refund({ name, credits }: AccountRow, generation: number, at: string): Rule<void> {
  const [paid] = yield* sql("SELECT -sum(amount) AS amount FROM ledger WHERE generation = ?", generation);
  const amount = Math.min(Number(paid?.amount), Number.MAX_SAFE_INTEGER - credits);
  if (amount > 0) yield* changeCredits({ account: name, amount, reason: "refund", at, generation });
}
