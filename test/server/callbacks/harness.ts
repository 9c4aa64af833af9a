import { onTestFinished } from "vitest";
import type { Clock } from "../../../src/io.ts";
import { deliveryLine } from "../../../src/server/callbacks/delivery.ts";
import {
  type CallbackOptions,
  type CallbackSender,
  createCallbackSender,
} from "../../../src/server/callbacks/sender.ts";
import { createSecret, createSigner } from "../../../src/server/callbacks/signature.ts";
import type { Post } from "../../../src/server/outbound/outbound.ts";
import type { Delivery } from "../../../src/server/store/deliveries.ts";
import type { Store } from "../../../src/server/store/store.ts";
import { createVirtualClock } from "../../clock.ts";

export type DeliveryStore = Pick<Store, "due" | "recordAttempt" | "isShared">;

/** Deliveries in memory, where a test can look. */
export type FakeStore = DeliveryStore & {
  rows: Map<string, Delivery>;
  add(...deliveries: Delivery[]): void;
};

export function createFakeStore(): FakeStore {
  const rows = new Map<string, Delivery>();
  return {
    rows,
    add(...deliveries) {
      for (const delivery of deliveries) rows.set(delivery.id, delivery);
    },
    isShared: false,
    async due({ now, limit, perHost, except, hosts }) {
      const left = new Map(Object.entries(hosts).map(([host, { room }]) => [host, room]));
      const sorted = [...rows.values()].sort((a, b) => a.next_at.localeCompare(b.next_at));
      const isFree = ({ id, url }: Delivery) => {
        const { host } = new URL(url);
        if (except.includes(id)) return false;
        left.set(host, (left.get(host) ?? perHost) - 1);
        return (left.get(host) ?? 0) >= 0;
      };
      const deliveries = sorted.filter((each) => each.next_at <= now && isFree(each)).slice(0, limit);
      const later = sorted.find(({ next_at }) => next_at > now)?.next_at;
      return { deliveries, nextMs: later ? Date.parse(later) - Date.parse(now) : Number.POSITIVE_INFINITY };
    },
    async recordAttempt(id, _attempt, next_at) {
      const row = rows.get(id);
      if (row && next_at !== null) rows.set(id, { ...row, next_at, attempts: row.attempts + 1 });
      else rows.delete(id);
    },
  };
}

/** A delivery that is due `dueMs` after the clock's beginning. */
export function delivery(id: string, { host = "receiver.example", dueMs = 0, attempts = 0 } = {}): Delivery {
  const next_at = new Date(Date.UTC(2026, 0, 1) + dueMs).toISOString();
  return {
    id,
    url: `https://${host}/hook`,
    body: `{"id":"${id}"}`,
    generation: `generation of ${id}`,
    account: "local",
    attempts,
    next_at,
  };
}

export type Sender = {
  clock: Clock;
  callbacks: CallbackSender;
  /** What was posted: the webhook-id, and when. */
  sent: { id: string; host: string; at: number }[];
  lines: string[];
  troubles: string[];
};

export type SenderOptions = Partial<Pick<CallbackOptions, "random">> & {
  store: DeliveryStore;
  clock?: ReturnType<typeof createVirtualClock>;
  answer?: Post;
};

/** Callbacks over a store of deliveries, started; what the receivers answer is 204 unless told otherwise. */
export function createSender(options: SenderOptions): Sender {
  const { store, clock = createVirtualClock(), answer = accept, random = () => 0.5 } = options;
  const sent: Sender["sent"] = [];
  const lines: string[] = [];
  const troubles: string[] = [];
  const callbacks = createCallbackSender({
    store,
    random,
    sign: createSigner(createSecret()),
    clock: { ...clock, sleep: clock.doze },
    reportProblem: (what, error) => void troubles.push(`${what}: ${error}`),
    post(url, request) {
      sent.push({ id: request.headers["webhook-id"] ?? "", host: new URL(url).host, at: clock.now() });
      return answer(url, request);
    },
    onDelivery: (event) => lines.push(deliveryLine(event)),
  });
  void callbacks.wake();
  onTestFinished(() => callbacks.close());
  return { clock, callbacks, sent, lines, troubles };
}

const accept: Post = async () => ({ status: 204 });

/** Answers never, until the request is given up. */
export const hang: Post = (_url, { signal }) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
