import type { LedgerEntry } from "../store/accounts.ts";
import type { Spending, SpendingKey, Spent } from "../store/reports.ts";
import { batchAddress, OtherAccount } from "./batches.tsx";
import { TableHead, TableSection } from "./elements.tsx";
import { countText, shortText, usdText } from "./formatting.ts";
import { OlderLink } from "./gallery.tsx";
import { Layout, RelativeTime } from "./layout.tsx";
import type { PageParts } from "./parts.ts";
import { olderAddress, readList } from "./query.ts";
import { accountOf, maySee } from "./visitor.ts";

/** The number of rows in each table of spending. */
const spendingRows = 14;

/** Adds the page of balances, spending and the ledger. */
export function addCredits({ app, options, send, signedIn }: PageParts): void {
  const { store, clock } = options;

  app.get("/credits", signedIn, async (c) => {
    const { before, limit, skip } = readList(c, /^[1-9]\d{0,14}$/);
    const account = accountOf(c);
    const entries = await store.ledger({ before: before === undefined ? undefined : Number(before), account, limit });
    const older = olderAddress(c, entries, entries.at(-1)?.number);
    const balances = (await store.accounts()).filter((each) => maySee(c, each.account));
    const spending = await store.spending({ account, limit: spendingRows });
    return send(c, <CreditsPage {...{ balances, spending, entries, skip, older }} now={clock.date()} />);
  });
}

type CreditsProps = {
  balances: readonly { account: string; credits: number }[];
  spending: Spending;
  entries: readonly LedgerEntry[];
  /** The number of entries that the browser already shows. */
  skip: number;
  older: string | undefined;
  now: Date;
};

const promptCharacters = 120;

/** The columns of both tables that have numbers. */
const numbers = ["Videos", "Credits", "USD", "Unknown cost"];

const spendingWords: Record<SpendingKey, { heading: string; key: string }> = {
  day: { heading: "By day (UTC)", key: "Day" },
  model: { heading: "By model", key: "Model" },
  label: { heading: "By batch", key: "Batch" },
  account: { heading: "By account", key: "Account" },
};

/** The balances, the spending by day, model, batch and account, and the ledger, newest first. */
function CreditsPage({ balances, spending, entries, skip, older, now }: CreditsProps) {
  const hasAccounts = balances.length > 1;
  const hasUsd = entries.some(({ cost }) => cost !== null);
  const columns = ["When", "For", ...(hasAccounts ? ["Account"] : []), "Credits", ...(hasUsd ? ["USD"] : [])];
  return (
    <Layout title="Credits" current="/credits">
      <h1>Credits</h1>
      <dl class="balances">
        {balances.map(({ account, credits }) => (
          <div>
            <dt>{account}</dt>
            <dd>{countText(credits)}</dd>
          </div>
        ))}
      </dl>
      <div class="credits">
        <div class="spending">
          <SpendingTable by="day" rows={spending.day} />
          <SpendingTable by="model" rows={spending.model} />
          <SpendingTable by="label" rows={spending.label} />
          {spending.account.length > 1 ? <SpendingTable by="account" rows={spending.account} /> : null}
        </div>
        <section class="changes">
          <h2>History</h2>
          <table class="ledger">
            <caption class="hidden">The ledger, newest first</caption>
            <TableHead columns={columns} numbers={numbers} />
            <tbody data-list="credits">
              {entries.slice(skip).map((entry) => (
                <Entry entry={entry} hasAccounts={hasAccounts} hasUsd={hasUsd} now={now} />
              ))}
            </tbody>
          </table>
        </section>
      </div>
      <OlderLink address={older} />
    </Layout>
  );
}

function SpendingTable({ by, rows }: { by: SpendingKey; rows: readonly Spent[] }) {
  const { heading, key } = spendingWords[by];
  const maxCredits = Math.max(1, ...rows.map(({ credits }) => credits));
  const hasUsd = rows.some(({ usd }) => usd !== null);
  const hasUnclear = rows.some(({ unclear }) => unclear > 0);
  if (rows.length === 0) return null;
  const columns = [key, "Videos", "Credits", ...(hasUsd ? ["USD"] : []), ...(hasUnclear ? ["Unknown cost"] : [])];
  return (
    <TableSection {...{ heading, columns, numbers }}>
      {rows.map(({ key, account, generations, credits, usd, unclear }) => (
        <tr>
          <th scope="row" dir="auto">
            {account === undefined ? (
              key
            ) : (
              <>
                <a href={batchAddress(key, account)}>{shortText(key, 60)}</a> <OtherAccount name={account} />
              </>
            )}
            <svg width="100%" height="4" aria-hidden="true">
              <rect width={`${(Math.max(0, credits) / maxCredits) * 100}%`} height="100%" rx="2" />
            </svg>
          </th>
          <td class="number">{countText(generations)}</td>
          <td class="number">{countText(credits)}</td>
          {hasUsd ? <td class="number">{usd === null ? "" : usdText(usd)}</td> : null}
          {hasUnclear ? <td class="number">{countText(unclear)}</td> : null}
        </tr>
      ))}
    </TableSection>
  );
}

type EntryProps = { entry: LedgerEntry; hasAccounts: boolean; hasUsd: boolean; now: Date };

function Entry({ entry, hasAccounts, hasUsd, now }: EntryProps) {
  const { number, account, amount, reason, at, generation, prompt, cost } = entry;
  const isRefund = reason === "refund";
  return (
    <tr id={`entry-${number}`}>
      <td class="when">
        <RelativeTime at={at} now={now} />
      </td>
      <td class="about" dir="auto">
        {generation === null ? (
          reason
        ) : (
          <>
            {isRefund ? <span class="refund">Returned: </span> : null}
            <a href={`/generations/${generation}`}>{shortText(prompt ?? generation, promptCharacters)}</a>
          </>
        )}
      </td>
      {hasAccounts ? <td>{account}</td> : null}
      <td class={`number ${amount < 0 ? "" : "plus"}`}>{amountText(amount)}</td>
      {hasUsd ? <td class="number">{cost === null || isRefund ? "" : usdText(cost)}</td> : null}
    </tr>
  );
}

function amountText(amount: number): string {
  return `${amount < 0 ? "−" : "+"}${countText(Math.abs(amount))}`;
}
