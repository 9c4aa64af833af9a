import type { GenerationState } from "../store/generations.ts";
import type { GenerationSummary, LabelTotals } from "../store/reports.ts";
import { quote } from "./again.ts";
import { Copy } from "./copy.tsx";
import { countText, creditsText, durationText, stateWords, usdText } from "./formatting.ts";
import { type CardProps, Cards, Selection } from "./gallery.tsx";
import { Layout, Message, Time } from "./layout.tsx";
import { WayOut } from "./messages.tsx";
import type { PageParts } from "./parts.ts";
import { LoginHint, TypedLine } from "./terminal.tsx";
import { accountOf, terminalOf } from "./visitor.ts";

const maxBatches = 100;
/** Of a larger batch, only the newest generations are shown as cells. */
const maxCells = 1_000;
const maxCards = 48;

/** Adds the pages of batches. `vidgen batch` sends a label that names its batch. */
export function addBatches({ app, options, send, signedIn }: PageParts): void {
  const { store, queue, clock } = options;
  app.get("/batches", signedIn, async (c) => {
    const batches = await store.labels({ account: accountOf(c), limit: maxBatches });
    return send(c, <BatchesPage {...{ batches }} now={clock.date()} />);
  });

  app.get("/batches/:label", signedIn, async (c) => {
    const label = c.req.param("label");
    const own = { account: accountOf(c), label };
    const [totals] = await store.labels({ ...own, limit: 1 });
    if (!totals) return send(c, <NoBatch />, 404);
    const cells = await store.states({ ...own, limit: maxCells });
    const ids = cells.filter(({ state }) => state !== "failed").map(({ id }) => id);
    const others = await store.list({ ...own, ids: ids.slice(0, maxCards), limit: maxCards });
    const failed = await store.list({ ...own, state: "failed", limit: maxCards });
    const now = clock.date();
    const cardOf = (generation: GenerationSummary) => ({ generation, progress: queue.progressOf(generation.id), now });
    const { program, flag } = terminalOf(c, options);
    const shown = {
      totals,
      cells: cells.map(({ state }) => state),
      failed: failed.map(cardOf),
      others: others.map(cardOf),
      line: `${program} batch ${quote(label)} ${flag}`,
    };
    return send(c, <BatchPage {...shown} now={now} />);
  });
}

export function batchAddress(label: string): string {
  return `/batches/${encodeURIComponent(label)}`;
}

function BatchesPage({ batches, now }: { batches: readonly LabelTotals[]; now: Date }) {
  return (
    <Layout title="Batches" current="/batches">
      <h1>Batches</h1>
      <ol class="rows batches" data-list="generation" aria-label="Batches, newest first">
        {batches.map((totals) => (
          <li id={`batch-${totals.label}`}>
            <a href={batchAddress(totals.label)}>
              <span class="name" dir="auto">
                {totals.label}
              </span>
              <span class="about">{countsText(totals)}</span>
              <Share totals={totals} />
              <Time at={totals.ended_at ?? totals.started_at} now={now} />
            </a>
          </li>
        ))}
      </ol>
      <section class="empty">
        <h2>No batches yet</h2>
        <p>Start one in a terminal.</p>
        <TypedLine command="batch shots.csv" />
      </section>
    </Layout>
  );
}

type BatchProps = {
  totals: LabelTotals;
  /** The state of each row, newest first. */
  cells: readonly GenerationState[];
  failed: readonly CardProps[];
  others: readonly CardProps[];
  /** The command that continues the batch. */
  line: string;
  now: Date;
};

/** A batch: its progress, cost and remaining time, the failed rows, and how to continue. */
function BatchPage({ totals, cells, failed, others, line, now }: BatchProps) {
  const { label, credits, usd, counts, unclear } = totals;
  const leftMs = timeLeft(totals, now);
  const unstarted = Math.max(0, (totals.size ?? 0) - countOf(totals));
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
        <span>{countsText(totals)}</span>
        {credits === 0 ? null : <span>{creditsText(credits)} spent</span>}
        {usd === null ? null : <span>{usdText(usd)}</span>}
        {leftMs === undefined ? null : <span>about {durationText(leftMs)} left</span>}
        <span>
          started <Time at={totals.started_at} now={now} />
        </span>
        <a href={`/?${new URLSearchParams({ label })}`}>Show all in the list</a>
      </p>
      <section>
        <h2>
          {counts.queued + counts.running + unstarted > 0 ? "Continue this batch" : "Start the failed rows again"}
        </h2>
        <LoginHint />
        <div class="copied">
          <pre id="go-on">
            {line}
            {counts.failed > 0 && counts.queued + counts.running + unstarted === 0 ? retryFlag(totals) : ""}
          </pre>
          <Copy from="go-on" name="the command" />
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
      {failed.length === 0 ? null : (
        <section>
          <h2>{counts.failed === 1 ? "1 failed" : `${countText(counts.failed)} failed`}</h2>
          <Cards cards={failed} name="Failures" id="failures" query="" />
        </section>
      )}
      <section>
        <h2>{others.length < countOf(totals) - counts.failed ? `The newest ${others.length}` : "All videos"}</h2>
        <Cards cards={others} name="Generations of the batch, newest first" id="list" query="" />
      </section>
      <Selection />
    </Layout>
  );
}

/** The flag that starts failed rows again; rows that may have been charged only if no other row failed. */
function retryFlag({ counts, unclear }: LabelTotals): string {
  return counts.failed > unclear ? " --retry-failed" : " --retry-unknown";
}

/** A bar of the shares of completed, failed, running and queued generations. */
function Share({ totals }: { totals: LabelTotals }) {
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

/** The remaining time at the pace so far, in milliseconds; `undefined` if no generation runs, or none has ended. */
function timeLeft(totals: LabelTotals, now: Date): number | undefined {
  const { counts, size, started_at } = totals;
  const ended = counts.completed + counts.failed;
  const left = Math.max(size ?? 0, countOf(totals)) - ended;
  if (ended === 0 || left === 0 || counts.queued + counts.running === 0) return undefined;
  return ((now.getTime() - Date.parse(started_at)) / ended) * left;
}

function NoBatch() {
  return (
    <Message title="There is no such batch">
      <WayOut />
    </Message>
  );
}
