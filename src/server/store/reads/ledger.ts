import type { Accounts, LedgerEntry } from "../accounts.ts";
import { readLimits } from "../limits.ts";
import { shownCharacters } from "../needs.ts";
import type { Reports } from "../reports.ts";
import { type Reader, where } from "./reader.ts";
import { readSpending, spentByEach } from "./sums.ts";

/** Reads accounts, and what changed their credits. */
export function createLedgerReads({ query, schema, prompt, cost }: Reader) {
  return {
    async ledger({ before, limit, generation, account }) {
      const { condition, values } = where([
        ["ledger.account = ?", account],
        ["ledger.number < ?", before],
        [`ledger.generation = (SELECT number FROM ${schema}.generations WHERE id = ?)`, generation],
      ]);
      const rows = await query(
        `SELECT ledger.number, ledger.account, amount, reason, generations.id AS generation, ${cost} AS cost,
           coalesce(ledger.at, CASE reason WHEN 'refund' THEN completed_at ELSE created_at END) AS at,
           substr(${prompt}, 1, ${shownCharacters}) AS prompt
         FROM ${schema}.ledger LEFT JOIN ${schema}.generations ON generations.number = ledger.generation
         ${condition} ORDER BY ledger.number DESC LIMIT ?`,
        ...[...values, limit],
      );
      return rows.map((row) => ({ ...row, number: Number(row.number), amount: Number(row.amount) }) as LedgerEntry);
    },
    async spending({ account, limit }) {
      const { condition, values } = where([
        // Each of the three, so that an account's own are found by the key of the table.
        ["by IN ('day', 'model', 'label')", true],
        ["account = ?", account],
      ]);
      return readSpending(await query(spentByEach(`${schema}.sums`, condition, limit), ...values));
    },
    async accounts() {
      const rows = await query(
        `SELECT name, balance, count(hash) AS keys, max_running, max_per_hour
         FROM ${schema}.accounts LEFT JOIN ${schema}.keys ON account = name WHERE deleted_at IS NULL GROUP BY name`,
      );
      const accounts = rows.map(({ name, balance, keys, ...limits }) => {
        return { account: String(name), credits: Number(balance), keys: Number(keys), ...readLimits(limits) };
      });
      // A database of another language has an order of its own.
      return accounts.sort((a, b) => (a.account < b.account ? -1 : 1));
    },
  } satisfies Partial<Accounts & Reports>;
}
