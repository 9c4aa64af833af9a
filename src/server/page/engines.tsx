import type { Clock } from "../../io.ts";
import { checkEngines, type EngineCheck } from "../engines/check.ts";
import type { Engine } from "../engines/engine.ts";
import type { Counts } from "../outcomes.ts";
import type { Outage } from "../queue/breaker.ts";
import type { Retired } from "../queue/retired.ts";
import type { Waiting } from "../store/claims.ts";
import { Fact, TableSection } from "./elements.tsx";
import { countText } from "./formatting.ts";
import { Layout, RelativeTime } from "./layout.tsx";
import { NothingHere } from "./messages.tsx";
import type { PageParts } from "./parts.ts";
import { withQuery } from "./query.ts";
import { accountOf } from "./visitor.ts";

/** Adds the page of engines, for the owner only. */
export function addEngines({ app, options, send, signedIn }: PageParts): void {
  const { queue, clock } = options;
  const checkAll = createEngineChecks(options.engines, clock);

  app.get("/engine-status", signedIn, async (c) => {
    if (accountOf(c) !== undefined)
      return send(c, <NothingHere title="Only the service's owner can see the engines" />, 403);
    const checks = await checkAll();
    const engines = options.engines.flatMap((engine) => {
      const check = checks.get(engine);
      return check ? { engine, check, outage: queue.outageOf(engine) } : [];
    });
    const counts = await options.counts?.();
    const retired = await queue.retiredEngines();
    return send(
      c,
      <EnginesPage {...{ engines, counts, retired }} waiting={await queue.waitingGenerations()} now={clock.date()} />,
    );
  });
}

/** How long a page waits for the engines. */
const limitMs = 2_000;
/** How long a check is reused, whatever the number of open pages. */
const reuseMs = 5_000;

/** Returns a function that checks all engines. Calls within five seconds share the results, unless the engines have changed. */
export function createEngineChecks(
  engines: readonly Engine[],
  clock: Pick<Clock, "now" | "limit">,
): () => Promise<Map<Engine, EngineCheck>> {
  const check = async (used: readonly Engine[]) => {
    const limit = clock.limit(limitMs, new AbortController().signal, new Error(`no response in ${limitMs / 1_000} s`));
    const checks = await checkEngines(used, clock, limit.signal).finally(limit.clear);
    return new Map(used.flatMap((engine, index) => (checks[index] ? [[engine, checks[index]] as const] : [])));
  };
  let last: { at: number; used: readonly Engine[]; checks: Promise<Map<Engine, EngineCheck>> } | undefined;
  return () => {
    const [now, used] = [clock.now(), [...engines]];
    const isSame = last?.used.length === used.length && last.used.every((engine, index) => engine === used[index]);
    if (!last || !isSame || now - last.at >= reuseMs) last = { at: now, used, checks: check(used) };
    return last.checks;
  };
}

/** An engine of this process, whether it responds, and its outage, if any. */
type EngineState = { engine: Engine; check: EngineCheck; outage: Outage | undefined };

type EnginesProps = {
  engines: readonly EngineState[];
  retired: readonly Retired[];
  waiting: readonly Waiting[];
  counts: Counts | undefined;
  now: Date;
};

/** The engines, the queue, and the failures. */
function EnginesPage({ engines, retired, waiting, counts, now }: EnginesProps) {
  return (
    <Layout title="Engines" current="/engine-status">
      <h1>Engines</h1>
      <div>
        <ul class="engines" data-list="generation">
          {engines.map((state) => (
            <EngineItem state={state} creates={counts?.creates ?? []} now={now} />
          ))}
          {retired.map((each) => (
            <RetiredItem retired={each} />
          ))}
        </ul>
        <div class="spending">
          <QueueTable waiting={waiting} now={now} />
          <FailureTable failures={counts?.failures ?? []} />
        </div>
      </div>
    </Layout>
  );
}

const outcomeWords = { taken: "accepted", not_taken: "not accepted", unclear: "unclear" };

type EngineItemProps = { state: EngineState; creates: Counts["creates"]; now: Date };

function EngineItem({ state, creates, now }: EngineItemProps) {
  const { engine, check, outage } = state;
  const { name, upstreamModel, models, concurrency } = engine;
  const own = creates.filter((create) => create.engine === name && create.count > 0);
  const reason = outage?.reason ?? check.error;
  return (
    <li class="engine">
      <header>
        <h2>{name}</h2>
        <EngineBadge state={state} />
      </header>
      {reason === null ? null : (
        <p class="reason" dir="auto">
          {outage === undefined ? null : (
            <>
              Unavailable since <RelativeTime at={outage.since.toISOString()} now={now} />:{" "}
            </>
          )}
          {reason}
        </p>
      )}
      <dl class="facts-table">
        {check.kind === null ? null : <Fact name="Kind">{check.kind}</Fact>}
        {upstreamModel === undefined ? null : <Fact name="Model at the engine">{upstreamModel}</Fact>}
        <Fact name="Models">{models.join(", ")}</Fact>
        <Fact name="Parallel">{concurrency === 0 ? "none, by this process" : concurrency}</Fact>
        {own.length === 0 ? null : (
          <Fact name="Requests">
            {own.map(({ outcome, count }) => `${countText(count)} ${outcomeWords[outcome]}`).join(", ")}
          </Fact>
        )}
      </dl>
    </li>
  );
}

/** An engine that is no longer configured but has unfinished generations. */
function RetiredItem({ retired: { engine, count, reason } }: { retired: Retired }) {
  return (
    <li class="engine">
      <header>
        <h2>{engine}</h2>
        {reason === null ? <span class="state">Draining</span> : <span class="state failed">Missing</span>}
      </header>
      {reason === null ? null : (
        <p class="reason" dir="auto">
          {reason}
        </p>
      )}
      <dl class="facts-table">
        <Fact name={reason === null ? "Running" : "Waiting"}>{countText(count)}</Fact>
      </dl>
    </li>
  );
}

function EngineBadge({ state: { engine, check, outage } }: Pick<EngineItemProps, "state">) {
  if (engine.concurrency === 0) return <span class="state">Unused</span>;
  if (outage) return <span class="state failed">Unavailable</span>;
  if (check.error !== null) return <span class="state failed">Does not respond</span>;
  return <span class="state completed">Up</span>;
}

type WaitingTotals = { count: number; oldest_at: string };

/** The waiting generations by model. The queue counts them by model and by what an engine must support, which does not matter here. */
function sumByModel(waiting: readonly Waiting[]): Map<string, WaitingTotals> {
  const lines = new Map<string, WaitingTotals>();
  for (const { model, count, oldest_at } of waiting) {
    const known = lines.get(model);
    const oldest = known && known.oldest_at < oldest_at ? known.oldest_at : oldest_at;
    lines.set(model, { count: count + (known?.count ?? 0), oldest_at: oldest });
  }
  return lines;
}

function QueueTable({ waiting, now }: Pick<EnginesProps, "waiting" | "now">) {
  const lines = [...sumByModel(waiting)];
  const columns = ["Model", "Waiting", "Oldest"];
  const empty = lines.length === 0 && "No generation is waiting.";
  return (
    <TableSection heading="Queue" columns={columns} numbers={["Waiting"]} empty={empty}>
      {lines.map(([model, { count, oldest_at }]) => (
        <tr>
          <ModelCell model={model} state="queued" />
          <td class="number">{countText(count)}</td>
          <td>
            <RelativeTime at={oldest_at} now={now} />
          </td>
        </tr>
      ))}
    </TableSection>
  );
}

/** A model, with a link to its generations in a state. */
function ModelCell({ model, state }: { model: string; state: "queued" | "failed" }) {
  return (
    <th scope="row">
      <a href={withQuery("/", { state, model })}>{model}</a>
    </th>
  );
}

const reasonWords: Record<Counts["failures"][number]["reason"], string> = {
  refused: "Refused by the model",
  credits: "No credits at the provider",
  failed: "Failed",
  unclear: "Unclear whether it was generated",
  not_submitted: "Not submitted to any engine",
  auth: "The engine refuses its key",
  not_fetched: "Generated, but its file cannot be used",
  cancelled: "Cancelled",
};

function FailureTable({ failures }: { failures: Counts["failures"] }) {
  const found = failures.filter(({ count }) => count > 0).sort((a, b) => b.count - a.count);
  const heading = "Failures since this process started";
  const columns = ["Model", "Reason", "Count"];
  return (
    <TableSection {...{ heading, columns }} numbers={["Count"]} empty={found.length === 0 && "None."}>
      {found.map(({ model, reason, count }) => (
        <tr>
          <ModelCell model={model} state="failed" />
          <td>{reasonWords[reason]}</td>
          <td class="number">{countText(count)}</td>
        </tr>
      ))}
    </TableSection>
  );
}
