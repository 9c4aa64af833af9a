import type { SignedHeaders, Signer } from "../callbacks/signature.ts";
import { refuse } from "../http/message.ts";
import { redactUrl } from "../observe/log.ts";
import type { Attempt, DeliveryRecord, DeliveryState, DeliveryTotals } from "../store/deliveries.ts";
import { ClockTime, CopyButton, EmptyList, Fact } from "./elements.tsx";
import { countText, shortText, spanText } from "./formatting.ts";
import { OlderLink } from "./gallery.tsx";
import { Layout, RelativeTime } from "./layout.tsx";
import type { PageParts } from "./parts.ts";
import { olderAddress, readList, readValue, withQuery } from "./query.ts";
import { accountOf, findVisible, type PageContext } from "./visitor.ts";

/** Adds the page of callbacks, and the routes that send them again. */
export function addCallbacks({ app, options, send, signedIn, fromPage }: PageParts): void {
  const { store, clock, sign } = options;

  app.get("/callbacks", signedIn, async (c) => {
    const { before, limit, skip } = readList(c, /^msg_[0-9a-f]+$/);
    const filter = readCallbackFilter(c);
    const own = { ...filter, account: accountOf(c) };
    const deliveries = await store.deliveries({ ...own, before, limit });
    const totals = await store.deliveryTotals(own);
    const older = olderAddress(c, deliveries, deliveries.at(-1)?.id);
    return send(
      c,
      <CallbacksPage {...{ filter, totals, older, sign }} deliveries={deliveries.slice(skip)} now={clock.date()} />,
    );
  });

  app.post("/callbacks/send", ...fromPage, async (c) => {
    const { host } = readCallbackFilter(c);
    await store.resendGivenUp({ host, account: accountOf(c) }, clock.date().toISOString());
    return c.body(null, 204);
  });

  app.post("/callbacks/:id/send", ...fromPage, async (c) => {
    const id = c.req.param("id");
    if (!(await findVisible(c, store, id)) || !(await store.resend(id, clock.date().toISOString())))
      throw refuse(404, "not_found", "this generation has no callback");
    return c.body(null, 204);
  });
}

function readCallbackFilter(c: PageContext): CallbackFilter {
  const state = readValue(c, "state", /^(waiting|delivered|given_up)$/) as DeliveryState | undefined;
  return { state, host: readValue(c, "host") };
}

type CallbackFilter = { state?: DeliveryState | undefined; host?: string | undefined };

type CallbacksProps = {
  filter: CallbackFilter;
  deliveries: readonly DeliveryRecord[];
  totals: DeliveryTotals;
  older: string | undefined;
  sign: Signer;
  now: Date;
};

const deliveryWords: Record<DeliveryState, string> = {
  waiting: "Waiting",
  delivered: "Delivered",
  given_up: "Given up",
};

/** The length of a prompt in a row. */
const rowCharacters = 100;
/** The minimum length of the end of a URL that is always shown. */
const endCharacters = 20;

/** The callbacks as rows, newest first. An open row shows its attempts and its body in a pane. */
function CallbacksPage({ filter, deliveries, totals, older, sign, now }: CallbacksProps) {
  const isFiltered = filter.state !== undefined || filter.host !== undefined;
  return (
    <Layout title="Callbacks" current="/callbacks">
      <h1>Callbacks</h1>
      <CallbackFilterBar filter={filter} totals={totals} />
      <div class="callbacks">
        <ol class="rows" data-list="callback attempt" aria-label="Callbacks, newest first">
          {deliveries.map((delivery) => (
            <DeliveryRow delivery={delivery} sign={sign} now={now} />
          ))}
        </ol>
        <EmptyList
          title={isFiltered ? "No callback matches" : "No callbacks yet"}
          all={isFiltered ? "/callbacks" : undefined}
        >
          <p>
            A generation that is started with <code>callback_url</code> sends one when it ends.
          </p>
        </EmptyList>
        <p class="pane unselected" aria-hidden="true">
          Select a callback to see its attempts and its body.
        </p>
      </div>
      <OlderLink address={older} />
    </Layout>
  );
}

function CallbackFilterBar({ filter, totals }: Pick<CallbacksProps, "filter" | "totals">) {
  const { counts, hosts } = totals;
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const states = Object.entries(deliveryWords) as [DeliveryState, string][];
  const failed = counts.given_up ?? 0;
  return (
    <div class="filter">
      <nav class="tabs" aria-label="Outcome">
        <StateLink filter={filter} state={undefined} name="All" count={all} />
        {states.map(([state, name]) => (
          <StateLink filter={filter} state={state} name={name} count={counts[state] ?? 0} />
        ))}
      </nav>
      <form action="/callbacks" method="get" data-submit>
        {filter.state === undefined ? null : <input type="hidden" name="state" value={filter.state} />}
        <select name="host" aria-label="Endpoint">
          <option value="">All endpoints</option>
          {hosts.map((host) => (
            <option value={host} selected={host === filter.host}>
              {host}
            </option>
          ))}
        </select>
        <button type="submit" class="without-script">
          Filter
        </button>
      </form>
      {failed === 0 ? null : (
        <button type="button" class="with-script" data-post={withQuery("/callbacks/send", { host: filter.host })}>
          {failed === 1 ? "Send the failed callback again" : `Send all ${countText(failed)} failed callbacks again`}
        </button>
      )}
    </div>
  );
}

type StateLinkProps = { filter: CallbackFilter; state: DeliveryState | undefined; name: string; count: number };

function StateLink({ filter, state, name, count }: StateLinkProps) {
  return (
    <a href={withQuery("/callbacks", { ...filter, state })} aria-current={state === filter.state ? "true" : undefined}>
      {name}
      <span class="count">{countText(count)}</span>
    </a>
  );
}

type DeliveryProps = { delivery: DeliveryRecord; sign: Signer; now: Date };

function DeliveryRow(props: DeliveryProps) {
  const { delivery, now } = props;
  const { generation, url, body, prompt, attempts } = delivery;
  const last = attempts.at(-1);
  const failures = attempts.filter(({ delivered }) => !delivered).length;
  return (
    <li id={`callback-${generation}`}>
      <details name="callback">
        <summary>
          <DeliveryBadge delivery={delivery} />
          <ShortenedUrl url={url} />
          <span class="about">
            {failures === 0 ? null : (
              <span class="failures">{failures === 1 ? "1 attempt failed" : `${failures} attempts failed`}</span>
            )}{" "}
            <span dir="auto">{shortText(prompt, rowCharacters)}</span>
          </span>
          <span class="latency">{last ? spanText(last.ms) : ""}</span>
          <RelativeTime at={last?.at ?? readEnd(body)} now={now} />
        </summary>
        <div class="pane">
          <p class="about" dir="auto">
            <a href={`/generations/${generation}`}>{prompt}</a>
          </p>
          <DeliveryPane {...props} isOpen />
        </div>
      </details>
    </li>
  );
}

/** A URL that is cut in the middle if it is too long: its end tells the URLs of one host apart. */
function ShortenedUrl({ url }: { url: string }) {
  const text = redactUrl(url).replace(/^https?:\/\//, "");
  const slash = text.indexOf("/", text.length - endCharacters);
  const end = slash === -1 || slash === text.length - 1 ? Math.max(0, text.length - endCharacters) : slash;
  return (
    <span class="address">
      <span class="start">{text.slice(0, end)}</span>
      <span>{text.slice(end)}</span>
    </span>
  );
}

function deliveryStateOf({ attempts, next_at }: DeliveryRecord): DeliveryState {
  if (next_at !== null) return "waiting";
  return attempts.at(-1)?.delivered ? "delivered" : "given_up";
}

function DeliveryBadge({ delivery }: Pick<DeliveryProps, "delivery">) {
  const state = deliveryStateOf(delivery);
  const kinds: Record<DeliveryState, string> = { waiting: "processing", delivered: "completed", given_up: "failed" };
  return <span class={`state ${kinds[state]}`}>{deliveryWords[state]}</span>;
}

/** A callback with its attempts and its body, which are expanded if `isOpen`. */
export function DeliveryPane({ delivery, sign, now, isOpen = false }: DeliveryProps & { isOpen?: boolean }) {
  const { id, generation, account, url, body, attempts, next_at } = delivery;
  return (
    <div class="delivery">
      <header>
        <DeliveryBadge delivery={delivery} />
        {next_at === null ? null : (
          <span>
            {attempts.length === 0 ? "Sending" : "Next attempt"} <RelativeTime at={next_at} now={now} />
          </span>
        )}
        <button type="button" class="with-script" data-post={`/callbacks/${generation}/send`}>
          Send again
        </button>
      </header>
      <dl class="facts-table">
        <Fact name="Endpoint">{redactUrl(url)}</Fact>
        <Fact name="webhook-id">
          <code id={`webhook-${generation}`}>{id}</code>{" "}
          <CopyButton from={`webhook-${generation}`} name="the webhook-id" />
        </Fact>
      </dl>
      {attempts.length === 0 ? null : (
        <details open={isOpen}>
          <summary>{attempts.length === 1 ? "One attempt" : `${attempts.length} attempts`}</summary>
          <ol class="attempts">
            {attempts.map((attempt) => (
              <AttemptItem attempt={attempt} headers={sign({ id, account, body }, new Date(attempt.at))} />
            ))}
          </ol>
        </details>
      )}
      <details open={isOpen}>
        <summary>Body</summary>
        <div class="copied">
          <CopyButton from={`body-${generation}`} name="the body" />
          <pre id={`body-${generation}`}>{JSON.stringify(JSON.parse(body), null, 2)}</pre>
        </div>
      </details>
    </div>
  );
}

function AttemptItem({ attempt, headers }: { attempt: Attempt; headers: SignedHeaders }) {
  const { at, outcome, delivered, reply, ms } = attempt;
  return (
    <li>
      <ClockTime at={at} kind="date" />
      <span class={`outcome ${delivered ? "completed" : "failed"}`}>
        {outcome}
        <span class="latency"> after {spanText(ms)}</span>
      </span>
      {reply === "" ? null : (
        <code class="reply" dir="auto">
          {reply}
        </code>
      )}
      <details>
        <summary>Signed headers</summary>
        <pre>
          {Object.entries(headers)
            .map(([name, value]) => `${name}: ${value}`)
            .join("\n")}
        </pre>
      </details>
    </li>
  );
}

/** When the generation ended (ISO 8601), by the body of its callback. */
function readEnd(body: string): string {
  return String(JSON.parse(body).completed_at);
}
