import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock, Io } from "../io.ts";
import { createApp, type Handler, hashKey } from "./app.ts";
import { createCallbacks } from "./callbacks.ts";
import type { Engine } from "./engines/engine.ts";
import { createMedia } from "./media.ts";
import { createQueue } from "./queue.ts";
import { openStore } from "./store.ts";

export type ServiceOptions = {
  engine: Engine;
  apiKey: string;
  /** What the account starts with. */
  credits: number;
  clock: Clock;
  /** For callbacks. */
  fetch: Io["fetch"];
  mediaUrl(): string;
  onDelivery(text: string): void;
};

/** The whole local service, apart from listening: one handler for {base_url}, one for {media_url}. */
export type Service = {
  api: Handler;
  media: Handler;
  /** Resolves when the callbacks under way are through. */
  settled(): Promise<void>;
  /** Ends what is being rendered and sent, and removes the videos. */
  close(): Promise<void>;
};

export async function createService(options: ServiceOptions): Promise<Service> {
  const store = await openStore(":memory:");
  await store.addAccount({ name: "local", keyHash: hashKey(options.apiKey) });
  await store.credit("local", options.credits, "initial credits");
  const folder = await mkdtemp(join(tmpdir(), "vidgen-service-"));
  const { engine, clock, mediaUrl } = options;
  const callbacks = createCallbacks(options);
  const queue = createQueue({ store, engine, folder, clock, onEnd: callbacks.send });
  return {
    api: createApp({ store, queue, clock, mediaUrl }),
    media: createMedia(store),
    settled: callbacks.settled,
    async close() {
      callbacks.close();
      // Not waited for: a worker thread may take a while to stop, and what it still writes has nowhere to go.
      queue.close().catch(() => {});
      await callbacks.settled();
      await store.close();
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
