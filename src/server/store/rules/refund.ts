import { lockAccount } from "./account.ts";
import { changeCredits } from "./credits.ts";
import { type Rule, sql } from "./rule.ts";

/** Gives back what was paid for a generation, by its number, as far as its account has room for it. The database refuses to do so twice. */
export function* refund(generation: number, at: string): Rule<void> {
  const find = "SELECT account AS name, -sum(amount) AS amount FROM ledger WHERE generation = ? GROUP BY account";
  const [paid] = yield* sql(find, generation);
  const account = paid && (yield* lockAccount(String(paid.name)));
  if (!account) return;
  const amount = Math.min(Number(paid.amount), Number.MAX_SAFE_INTEGER - account.credits);
  if (amount > 0) yield* changeCredits({ account: account.name, amount, reason: "refund", at, generation });
}
