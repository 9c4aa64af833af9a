import { addressOf } from "../callbacks/delivery.ts";
import type { SignedHeaders } from "../callbacks/signature.ts";
import type { Attempt, DeliveryRecord } from "../store/store.ts";
import { Older } from "./gallery.tsx";
import { Layout, Time } from "./layout.tsx";

/** Returns the headers that an attempt was signed with. */
export type Sign = (message: { id: string; account: string; body: string }, date: Date) => SignedHeaders;

export type CallbacksProps = {
  deliveries: readonly DeliveryRecord[];
  older: string | undefined;
  sign: Sign;
  now: Date;
};

/** Every callback with its attempts, newest first. */
export function CallbacksPage({ deliveries, older, sign, now }: CallbacksProps) {
  return (
    <Layout title="Callbacks" current="/callbacks">
      <h1>Callbacks</h1>
      <ol class="deliveries" data-list="callback">
        {deliveries.map((delivery) => (
          <DeliveryItem delivery={delivery} sign={sign} now={now} />
        ))}
      </ol>
      <section class="empty">
        <h2>No callbacks yet</h2>
        <p>
          A generation that is started with <code>callback_url</code> sends one when it ends.
        </p>
      </section>
      <Older address={older} />
    </Layout>
  );
}

type DeliveryProps = { delivery: DeliveryRecord; sign: Sign; now: Date };

export function DeliveryItem({ delivery, sign, now }: DeliveryProps) {
  const { id, generation, account, url, body, attempts } = delivery;
  const address = addressOf(url);
  return (
    <li class="delivery" data-key={generation} data-order={endOf(body)}>
      <header>
        <DeliveryState delivery={delivery} now={now} />
        <strong class="address">{address}</strong>
        <button type="button" data-send={generation} hidden>
          Send again<span class="hidden"> to {address}</span>
        </button>
      </header>
      <p class="facts">
        <span>
          Generation <a href={`/generations/${generation}`}>{generation.slice(0, 8)}</a>
        </span>
        <code>{id}</code>
      </p>
      <ol class="attempts" aria-label="Attempts">
        {attempts.map((attempt) => (
          <AttemptItem attempt={attempt} headers={sign({ id, account, body }, new Date(attempt.at))} now={now} />
        ))}
      </ol>
      <details>
        <summary>Body</summary>
        <pre>{body}</pre>
      </details>
    </li>
  );
}

function DeliveryState({ delivery, now }: Omit<DeliveryProps, "sign">) {
  const { attempts, next_at } = delivery;
  if (next_at !== null)
    return (
      <span class="state processing">
        {attempts.length === 0 ? "Sending" : "Next attempt"} <Time at={next_at} now={now} />
      </span>
    );
  const isDelivered = attempts.at(-1)?.delivered;
  return <span class={`state ${isDelivered ? "completed" : "failed"}`}>{isDelivered ? "Delivered" : "Given up"}</span>;
}

function AttemptItem({ attempt, headers, now }: { attempt: Attempt; headers: SignedHeaders; now: Date }) {
  const { at, outcome, delivered, reply } = attempt;
  return (
    <li>
      <Time at={at} now={now} />
      <span class={`outcome ${delivered ? "completed" : "failed"}`}>{outcome}</span>
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

/** When the generation ended, which is when its callback was made. */
function endOf(body: string): string {
  return String(JSON.parse(body).completed_at);
}
