import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock, Io } from "../io.ts";
import { createApp, type Handler, hashKey } from "./app.ts";
import { createCallbacks } from "./callbacks.ts";
import { deliveryLine } from "./delivery.ts";
import type { Engine } from "./engines/engine.ts";
import { createMedia } from "./media.ts";
import type { Post } from "./post.ts";
import { createQueue } from "./queue.ts";
import { createSecret } from "./signature.ts";
import { openStore } from "./store.ts";

export type ServiceOptions = {
  engine: Engine;
  apiKey: string;
  /** What the account starts with. */
  credits: number;
  clock: Clock;
  /** For callbacks. */
  fetch: Io["fetch"];
  /** Signs the callbacks; without one they are signed with a secret that nobody knows. */
  webhookSecret?: string;
  mediaUrl(): string;
  onDelivery(text: string): void;
};

/** The whole local service, apart from listening: one handler for {base_url}, one for {media_url}. */
export type Service = {
  api: Handler;
  media: Handler;
  /** Resolves when each callback had its attempt; what waits for a later one does not count. */
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
  const callbacks = createCallbacks({
    ...{ store, clock, post: createPost(options.fetch), random: Math.random },
    secret: options.webhookSecret ?? createSecret(),
    onDelivery: (event) => options.onDelivery(deliveryLine(event)),
  });
  callbacks.start();
  const queue = createQueue({ store, engine, folder, clock, mediaUrl, onEnd: callbacks.wake });
  return {
    api: createApp({ store, queue, clock, mediaUrl }),
    media: createMedia(store),
    settled: callbacks.settled,
    async close() {
      // Not waited for: a worker thread may take a while to stop, and what it still writes has nowhere to go.
      queue.close().catch(() => {});
      await callbacks.close();
      await store.close();
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

function createPost(fetch: Io["fetch"]): Post {
  return async (url, request) => {
    const { status, headers, body } = await fetch(url, { ...request, method: "POST", redirect: "manual" });
    await body?.cancel();
    return { status, headers };
  };
}
