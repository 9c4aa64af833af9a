import { useContext } from "hono/jsx";
import { quote } from "../../shell.ts";
import type { GenerationState } from "../store/generations.ts";
import type { LabelTotals } from "../store/reports.ts";
import type { Store } from "../store/store.ts";
import { CopyButton, EmptyList } from "./elements.tsx";
import { countText, creditsText, durationText, stateWords, usdText } from "./formatting.ts";
import { type CardProps, Cards, readCards, Selection } from "./gallery.tsx";
import { Layout, RelativeTime, VisitorContext } from "./layout.tsx";
import { NothingHere } from "./messages.tsx";
import type { PageParts } from "./parts.ts";
import { readValue, withQuery } from "./query.ts";
import { LoginHint, TypedLine } from "./terminal.tsx";
import { accountOf, type PageContext, terminalOf } from "./visitor.ts";

const maxBatches = 100;
/** The maximum number of generations, newest first, that are shown as cells of the progress strip. */
const maxCells = 1_000;
const maxCards = 48;

/** Adds the list of batches and the page of a batch. `vidgen batch` sends the name of its batch as a label. */
export function addBatches({ app, options, send, signedIn }: PageParts): void {
  const { store, clock } = options;
  app.get("/batches", signedIn, async (c) => {
    const batches = await store.labels({ account: accountOf(c), limit: maxBatches });
    return send(c, <BatchesPage {...{ batches }} now={clock.date()} />);
  });

  app.get("/batches/:label", signedIn, async (c) => {
    const totals = await findBatch(c, store);
    if (!totals) return send(c, <NothingHere title="There is no such batch" />, 404);
    const batch = { account: totals.account, label: totals.label };
    const cells = await store.states({ ...batch, limit: maxCells });
    const ids = cells.filter(({ state }) => state !== "failed").map(({ id }) => id);
    const others = await store.list({ ...batch, ids: ids.slice(0, maxCards), limit: maxCards });
    const failed = await store.list({ ...batch, state: "failed", limit: maxCards });
    const { program, flag } = terminalOf(c, options);
    const shown = {
      totals,
      cells: cells.map(({ state }) => state),
      failed: await readCards(failed, options),
      others: await readCards(others, options),
      command: `${program} batch ${quote(totals.label, "posix")} ${flag}`,
    };
    return send(c, <BatchPage {...shown} now={clock.date()} />);
  });
}

/** The batch that the address names. Several accounts may use the same label: the visitor's own batch is preferred. */
async function findBatch(c: PageContext, store: Pick<Store, "labels">): Promise<LabelTotals | undefined> {
  const label = c.req.param("label");
  const account = accountOf(c) ?? readValue(c, "account");
  const found = await store.labels({ account, label, limit: maxBatches });
  return found.find((each) => each.account === c.var.account) ?? found[0];
}

export function batchAddress(label: string, account?: string): string {
  return withQuery(`/batches/${encodeURIComponent(label)}`, { account });
}

function BatchesPage({ batches, now }: { batches: readonly LabelTotals[]; now: Date }) {
  return (
    <Layout title="Batches" current="/batches">
      <h1>Batches</h1>
      <ol class="rows batches" data-list="generation" aria-label="Batches, newest first">
        {batches.map((totals) => (
          <li id={`batch-${totals.account}-${totals.label}`}>
            <a href={batchAddress(totals.label, totals.account)}>
              <span class="name" dir="auto">
                {totals.label}
              </span>
              <span class="about">
                <OtherAccount name={totals.account} /> {countsText(totals)}
              </span>
              <ShareBar totals={totals} />
              <RelativeTime at={totals.ended_at ?? totals.started_at} now={now} />
            </a>
          </li>
        ))}
      </ol>
      <EmptyList title="No batches yet">
        <p>Start one in a terminal.</p>
        <TypedLine command="batch shots.csv" />
      </EmptyList>
    </Layout>
  );
}

/** The name of another account; nothing for the visitor's own. */
export function OtherAccount({ name }: { name: string }) {
  const visitor = useContext(VisitorContext);
  return name === visitor.account ? null : <span>of {name}</span>;
}

type BatchProps = {
  totals: LabelTotals;
  /** The state of each row, newest first. */
  cells: readonly GenerationState[];
  failed: readonly CardProps[];
  others: readonly CardProps[];
  /** The command that continues the batch. */
  command: string;
  now: Date;
};

/** A batch: its progress, cost and remaining time, the failed rows, and how to continue. */
function BatchPage({ totals, cells, failed, others, command, now }: BatchProps) {
  const { label, credits, usd, counts } = totals;
  const leftMs = estimateLeftMs(totals, now);
  const unstarted = Math.max(0, (totals.size ?? 0) - countOf(totals));
  const visitor = useContext(VisitorContext);
  return (
    <Layout title={label} current="/batches">
      <h1 dir="auto">{label}</h1>
      <div class="strip" aria-hidden="true">
        {cells.toReversed().map((state) => (
          <i class={state}></i>
        ))}
        {Array.from({ length: Math.min(unstarted, maxCells - cells.length) }, () => (
          <i></i>
        ))}
      </div>
      <p class="facts">
        <OtherAccount name={totals.account} />
        <span>{countsText(totals)}</span>
        {credits === 0 ? null : <span>{creditsText(credits)} spent</span>}
        {usd === null ? null : <span>{usdText(usd)}</span>}
        {leftMs === undefined ? null : <span>about {durationText(leftMs)} left</span>}
        <span>
          started <RelativeTime at={totals.started_at} now={now} />
        </span>
        <a href={withQuery("/", { label })}>Show all in the list</a>
      </p>
      {totals.account === visitor.account ? <Continue totals={totals} unstarted={unstarted} command={command} /> : null}
      {failed.length === 0 ? null : (
        <section>
          <h2>{counts.failed === 1 ? "1 failed" : `${countText(counts.failed)} failed`}</h2>
          <Cards cards={failed} name="Failures" id="failures" query="" />
        </section>
      )}
      {others.length === 0 ? null : (
        <section>
          <h2>{others.length < countOf(totals) - counts.failed ? `The newest ${others.length}` : "Videos"}</h2>
          <Cards cards={others} name="Generations of the batch, newest first" id="list" query="" />
        </section>
      )}
      <Selection />
    </Layout>
  );
}

type ContinueProps = Pick<BatchProps, "totals" | "command"> & { unstarted: number };

/** The command that continues a batch or starts its failed rows again; nothing if every row is completed. */
function Continue({ totals, unstarted, command }: ContinueProps) {
  const { counts, unclear } = totals;
  const isUnfinished = counts.queued + counts.running + unstarted > 0;
  if (!isUnfinished && counts.failed === 0) return null;
  return (
    <section>
      <h2>{isUnfinished ? "Continue this batch" : "Start the failed rows again"}</h2>
      <LoginHint />
      <div class="copied">
        <pre id="continue-command">
          {command}
          {isUnfinished ? "" : retryFlag(totals)}
        </pre>
        <CopyButton from="continue-command" name="the command" />
      </div>
      <p class="hint">
        Run this in the folder of the file, with the same flags as before. Rows that are done or paid for are not
        started again.
      </p>
      {unclear === 0 ? null : (
        <p class="hint">
          The engine's provider may have charged for{" "}
          {unclear === 1 ? "1 failed row" : `${countText(unclear)} failed rows`}: check your account there before you
          add --retry-unknown.
        </p>
      )}
    </section>
  );
}

/** The flag that starts failed rows again. --retry-unknown, which may pay twice for a row, only if all failed rows may have been charged. */
function retryFlag({ counts, unclear }: LabelTotals): string {
  return counts.failed > unclear ? " --retry-failed" : " --retry-unknown";
}

/** A bar of the shares of completed, failed, running and queued generations. */
function ShareBar({ totals }: { totals: LabelTotals }) {
  const whole = Math.max(totals.size ?? 0, countOf(totals));
  let x = 0;
  return (
    <svg class="share" width="100%" height="6" aria-hidden="true">
      {(["completed", "failed", "running", "queued"] satisfies GenerationState[]).map((state) => {
        const width = (totals.counts[state] / whole) * 100;
        x += width;
        return <rect class={state} x={`${x - width}%`} width={`${width}%`} height="100%" />;
      })}
    </svg>
  );
}

function countOf({ counts }: LabelTotals): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/** Such as "3 of 40 completed, 2 failed, 1 running, 34 to start". */
function countsText(totals: LabelTotals): string {
  const { counts, size } = totals;
  const count = countOf(totals);
  const states = (["failed", "running", "queued"] as const).filter((state) => counts[state] > 0);
  return [
    `${countText(counts.completed)} of ${countText(Math.max(size ?? 0, count))} completed`,
    ...states.map((state) => `${countText(counts[state])} ${stateWords[state].toLowerCase()}`),
    ...(size !== null && size > count ? [`${countText(size - count)} to start`] : []),
  ].join(", ");
}

/** The remaining time in milliseconds, if the batch continues at its pace; `undefined` if nothing is queued or running, or nothing has ended. */
function estimateLeftMs(totals: LabelTotals, now: Date): number | undefined {
  const { counts, size, started_at } = totals;
  const ended = counts.completed + counts.failed;
  const left = Math.max(size ?? 0, countOf(totals)) - ended;
  if (ended === 0 || left === 0 || counts.queued + counts.running === 0) return undefined;
  return ((now.getTime() - Date.parse(started_at)) / ended) * left;
}
