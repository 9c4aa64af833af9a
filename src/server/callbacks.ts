import type { Clock, Io } from "../io.ts";
import { type StoredGeneration, statusBody } from "./store.ts";

export type Callbacks = {
  /** Sends the result callback (interface section 6) when the generation asked for one. */
  send(generation: StoredGeneration): void;
  /** Resolves when those under way are through. */
  settled(): Promise<void>;
  close(): void;
};

export type CallbackOptions = {
  fetch: Io["fetch"];
  clock: Pick<Clock, "limit">;
  mediaUrl(): string;
  /** What became of a delivery, for the service's own log. */
  onDelivery(text: string): void;
};

const answerLimitMs = 15_000;

/** One try each; only a 2xx counts as delivered, and redirects are not followed. */
export function createCallbacks(options: CallbackOptions): Callbacks {
  const stop = new AbortController();
  const underWay = new Set<Promise<void>>();
  return {
    send(generation) {
      if (generation.callback_url === null) return;
      const delivery = deliver(generation.callback_url, generation, stop.signal, options).finally(() =>
        underWay.delete(delivery),
      );
      underWay.add(delivery);
    },
    async settled() {
      await Promise.all(underWay);
    },
    close: () => stop.abort(new Error("the service is stopping")),
  };
}

async function deliver(
  url: string,
  generation: StoredGeneration,
  signal: AbortSignal,
  options: CallbackOptions,
): Promise<void> {
  const limit = options.clock.limit(answerLimitMs, signal, new Error("no answer within 15 s"));
  const body = JSON.stringify({ ...statusBody(generation, options.mediaUrl()), completed_at: generation.completed_at });
  const headers = { "Content-Type": "application/json" };
  try {
    const response = await options.fetch(url, {
      method: "POST",
      headers,
      body,
      redirect: "manual",
      signal: limit.signal,
    });
    await response.body?.cancel();
    options.onDelivery(`callback for ${generation.id}: HTTP ${response.status}${response.ok ? "" : ", not delivered"}`);
  } catch (error) {
    options.onDelivery(
      `callback for ${generation.id}: not delivered (${error instanceof Error ? error.message : error})`,
    );
  } finally {
    limit.clear();
  }
}
