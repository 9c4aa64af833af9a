import type { Database } from "./database.ts";
import { isoNow } from "./ledger.ts";

/** What the first process of a database writes into it. */
export type FirstValues = {
  account: { name: string; keyHash: string; credits: number };
  webhookSecret: string;
  pageSecret: string;
};

/** Writes these values, unless an earlier process has written its own. Resolves with the secrets that count, and whether the account is new. */
export function initialize(
  { transaction }: Database,
  { account, webhookSecret, pageSecret }: FirstValues,
): Promise<Omit<FirstValues, "account"> & { isFirst: boolean }> {
  return transaction(async (query) => {
    await query(
      `INSERT INTO vidgen.settings (name, value) VALUES ('webhook_secret', $1), ('page_secret', $2)
       ON CONFLICT DO NOTHING`,
      ...[webhookSecret, pageSecret],
    );
    const { name, keyHash, credits } = account;
    const insert = "INSERT INTO vidgen.accounts (name, balance) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING name";
    const isFirst = (await query(insert, name, credits)).length > 0;
    if (isFirst) {
      await query("INSERT INTO vidgen.keys (hash, account) VALUES ($1, $2)", keyHash, name);
      await query(
        `INSERT INTO vidgen.ledger (account, amount, reason, at) VALUES ($1, $2, 'set by the service''s owner', ${isoNow})`,
        ...[name, credits],
      );
    }
    const rows = await query<{ name: string; value: string }>("SELECT name, value FROM vidgen.settings");
    const settingOf = (setting: string) => rows.find((row) => row.name === setting)?.value ?? "";
    return { isFirst, webhookSecret: settingOf("webhook_secret"), pageSecret: settingOf("page_secret") };
  });
}
