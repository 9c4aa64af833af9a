import type { LedgerEntry } from "../store/store.ts";
import { Older } from "./gallery.tsx";
import { Layout, Time } from "./layout.tsx";

export type CreditsProps = {
  balances: readonly { account: string; credits: number }[];
  entries: readonly LedgerEntry[];
  older: string | undefined;
  now: Date;
};

/** The balances, and every change of them, newest first. */
export function CreditsPage({ balances, entries, older, now }: CreditsProps) {
  return (
    <Layout title="Credits" current="/credits">
      <h1>Credits</h1>
      <dl class="balances" data-part="balances">
        {balances.map(({ account, credits }) => (
          <div>
            <dt>{account}</dt>
            <dd>{credits.toLocaleString("en")}</dd>
          </div>
        ))}
      </dl>
      <table class="ledger">
        <caption class="hidden">The ledger, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Account</th>
            <th scope="col" class="number">
              Credits
            </th>
            <th scope="col">For</th>
            <th scope="col">When</th>
          </tr>
        </thead>
        <tbody data-list="credits">
          {entries.map((entry) => (
            <Entry entry={entry} now={now} />
          ))}
        </tbody>
      </table>
      <Older address={older} />
    </Layout>
  );
}

function Entry({ entry, now }: { entry: LedgerEntry; now: Date }) {
  const { number, account, amount, reason, generation, created_at } = entry;
  return (
    <tr data-key={number} data-order={String(number).padStart(12, "0")}>
      <td>{account}</td>
      <td class={`number ${amount < 0 ? "" : "plus"}`}>{amount < 0 ? `−${-amount}` : `+${amount}`}</td>
      <td>
        {generation === null ? (
          reason
        ) : (
          <>
            {reason === "refund" ? "Given back: " : ""}
            <a href={`/generations/${generation}`}>
              Generation <code>{generation.slice(0, 8)}</code>
            </a>
          </>
        )}
      </td>
      <td>{created_at === null ? null : <Time at={created_at} now={now} />}</td>
    </tr>
  );
}
