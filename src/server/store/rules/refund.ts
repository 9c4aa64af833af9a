import type { Account } from "./account.ts";
import { changeCredits } from "./credits.ts";
import { type Rule, sql } from "./rule.ts";

/** Gives back what was paid for a generation, by its number, as far as its account, which is locked, has room for it. The database refuses to do so twice. */
export function* refund({ name, credits }: Account, generation: number, at: string): Rule<void> {
  const [paid] = yield* sql("SELECT -sum(amount) AS amount FROM ledger WHERE generation = ?", generation);
  const amount = Math.min(Number(paid?.amount), Number.MAX_SAFE_INTEGER - credits);
  if (amount > 0) yield* changeCredits({ account: name, amount, reason: "refund", at, generation });
}
