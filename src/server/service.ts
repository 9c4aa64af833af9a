import type { Clock } from "../io.ts";
import { createApp, type Handler } from "./app.ts";
import type { DeliveryEvent } from "./callbacks/delivery.ts";
import { createCallbackScheduler } from "./callbacks/scheduler.ts";
import type { Engine } from "./engines/engine.ts";
import { createQueue, type Pace } from "./jobs/queue.ts";
import { createMedia } from "./media.ts";
import type { Outbound } from "./outbound/outbound.ts";
import type { Store } from "./store/store.ts";

export type ServiceOptions = {
  store: Store;
  engine: Engine;
  /** Where the videos are kept. */
  folder: string;
  /** How many videos are rendered at once. */
  atOnce: number;
  pace: Pace;
  /** What it sends by itself: callbacks, and requests for images. */
  outbound: Outbound;
  /** Signs the callbacks. */
  webhookSecret: string;
  clock: Clock;
  mediaUrl(): string;
  onDelivery(event: DeliveryEvent): void;
};

/** The whole local service, apart from listening: one handler for {base_url}, one for {media_url}. */
export type Service = {
  api: Handler;
  media: Handler;
  /** Goes on with what the store holds: callbacks that are due, and generations that have not ended, or only those that are asked for. */
  start(goesOnWith: "all" | "asked for"): Promise<void>;
  /** Resolves when each callback had its attempt; what waits for a later one does not count. */
  settled(): Promise<void>;
  /** Parks what is being rendered and sent: whoever owns the store next goes on with it. */
  close(): Promise<void>;
};

export function createService(options: ServiceOptions): Service {
  const { store, clock, outbound, mediaUrl } = options;
  const callbacks = createCallbackScheduler({
    ...{ store, clock, post: outbound.post, random: Math.random },
    secret: options.webhookSecret,
    onDelivery: options.onDelivery,
  });
  const queue = createQueue({
    ...options,
    get: outbound.get,
    onEnd: (_id, delivery) => delivery && callbacks.add(delivery),
  });
  return {
    api: createApp({ store, queue, clock, mediaUrl }),
    media: createMedia(store),
    async start(goesOnWith) {
      if (goesOnWith === "all") for (const generation of await store.unfinished()) queue.add(generation);
      callbacks.start();
    },
    settled: callbacks.settled,
    async close() {
      await Promise.all([queue.close(), callbacks.close()]);
    },
  };
}
