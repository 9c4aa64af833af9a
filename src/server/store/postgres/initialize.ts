import { changeCredits } from "../rules/credits.ts";
import { setReason } from "../rules/keys.ts";
import type { Database } from "./database.ts";
import { runRule } from "./run.ts";

/** What the first process of a database writes into it. */
export type FirstValues = {
  account: { name: string; keyHash: string; credits: number };
  webhookSecret: string;
  pageSecret: string;
};

/**
 * Writes these values, unless an earlier process has written its own. With `rotate`, the account's key and the page's secret replace those of
 * the earlier process, so that its sessions end with its keys. Resolves with the webhook secret in the database, and whether the account is new.
 */
export function initialize(
  { transaction }: Database,
  { account, webhookSecret, pageSecret }: FirstValues,
  { rotate = false, now }: { rotate?: boolean; now: Date },
): Promise<{ isFirst: boolean; webhookSecret: string }> {
  return transaction(async (query) => {
    await query(
      `INSERT INTO vidgen.settings (name, value) VALUES ('webhook_secret', $1), ('page_secret', $2)
       ON CONFLICT DO NOTHING`,
      ...[webhookSecret, pageSecret],
    );
    const { name, keyHash, credits } = account;
    const insertKey = "INSERT INTO vidgen.keys (hash, account, created_at) VALUES ($1, $2, $3)";
    const insert = "INSERT INTO vidgen.accounts (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING name";
    const isFirst = (await query(insert, name)).length > 0;
    if (isFirst) {
      await query(insertKey, keyHash, name, now.toISOString());
      const entry = { account: name, amount: credits, reason: setReason, at: now.toISOString() };
      await runRule(query, changeCredits(entry));
    }
    if (rotate && !isFirst) {
      // Of two processes that rotate at once, the second one must see the key of the first.
      await query("SELECT FROM vidgen.accounts WHERE name = $1 FOR UPDATE", name);
      await query("DELETE FROM vidgen.keys WHERE account = $1", name);
      await query(insertKey, keyHash, name, now.toISOString());
      await query("UPDATE vidgen.settings SET value = $1 WHERE name = 'page_secret'", pageSecret);
    }
    const find = "SELECT value FROM vidgen.settings WHERE name = 'webhook_secret'";
    const [kept] = await query<{ value: string }>(find);
    return { isFirst, webhookSecret: kept?.value ?? webhookSecret };
  });
}
