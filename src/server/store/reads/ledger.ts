import type { Accounts, LedgerEntry } from "../accounts.ts";
import { readLimits } from "../limits.ts";
import type { Reports } from "../reports.ts";
import { type Reader, shownPrompt, where } from "./reader.ts";
import { readSpending, spentByEach } from "./sums.ts";

/** Reads accounts, and what changed their credits. */
export function createLedgerReads({ query }: Reader) {
  return {
    async ledger({ before, limit, generation, account }) {
      const { condition, values } = where([
        ["ledger.account = ?", account],
        ["ledger.number < ?", before],
        ["ledger.generation = (SELECT number FROM generations WHERE id = ?)", generation],
      ]);
      const rows = await query(
        `SELECT ledger.number, ledger.account, amount, reason, ledger.at, generations.id AS generation,
           CAST(result ->> 'cost' AS float8) AS cost, ${shownPrompt} AS prompt
         FROM ledger LEFT JOIN generations ON generations.number = ledger.generation
         ${condition} ORDER BY ledger.number DESC LIMIT ?`,
        ...[...values, limit],
      );
      return rows.map((row) => ({ ...row, number: Number(row.number), amount: Number(row.amount) }) as LedgerEntry);
    },
    async spending({ account, limit }) {
      const { condition, values } = where([
        // Lists all values of `by`, so that the primary key finds the rows of an account.
        ["by IN ('day', 'model', 'label')", true],
        ["account = ?", account],
      ]);
      return readSpending(await query(spentByEach("sums", condition, limit), ...values));
    },
    async accounts() {
      const rows = await query(
        `SELECT name, balance, count(hash) AS keys, max_running, max_per_hour, disabled_at
         FROM accounts LEFT JOIN keys ON account = name WHERE deleted_at IS NULL GROUP BY name`,
      );
      const accounts = rows.map(({ name, balance, keys, disabled_at, ...limits }) => {
        const since = disabled_at === null ? null : String(disabled_at);
        const record = { account: String(name), credits: Number(balance), keys: Number(keys), disabled_at: since };
        return { ...record, ...readLimits(limits) };
      });
      // The order of the database depends on its locale.
      return accounts.sort((a, b) => (a.account < b.account ? -1 : 1));
    },
  } satisfies Partial<Accounts & Reports>;
}
