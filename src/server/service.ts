import type { Clock } from "../io.ts";
import { createApp } from "./api/app.ts";
import { createHealth } from "./api/health.ts";
import type { Handler, OnTrouble } from "./api/message.ts";
import type { DeliveryEvent } from "./callbacks/delivery.ts";
import { createCallbackScheduler } from "./callbacks/scheduler.ts";
import { createCallbackSender } from "./callbacks/sender.ts";
import { createSigner } from "./callbacks/signature.ts";
import type { Engine } from "./engines/engine.ts";
import { createQueue, type Pace } from "./jobs/queue.ts";
import { createMedia } from "./media/media.ts";
import type { MediaStore } from "./media/media-store.ts";
import type { Outbound } from "./outbound/outbound.ts";
import { createChanges, watchStore } from "./page/events.ts";
import { createPage } from "./page/page.tsx";
import type { Sessions } from "./page/session.ts";
import type { Change } from "./store/change.ts";
import type { Backlog, Store, Work } from "./store/store.ts";

/** A database that this process has for itself, or one that it shares with others, which then hands out the work. */
export type State = { store: Store & Backlog; work?: undefined } | { store: Store; work: Work };

export type ServiceOptions = State & {
  engines: readonly Engine[];
  creditsPer: ReadonlyMap<string, number>;
  hasDirectives: boolean;
  videos: MediaStore;
  pace: Pace;
  /** Sends callbacks and fetches images. */
  outbound: Outbound;
  /** Signs the callbacks. */
  webhookSecret: string;
  /** Who may look at the page; without it, there is no page. */
  sessions?: Sessions | undefined;
  /** The folder of the page's script, style and icon; by default, beside the program. */
  assets?: URL;
  clock: Clock;
  /** The address of the API where clients reach it by another one than its own, as behind a proxy. */
  publicUrl?: string | undefined;
  mediaUrl(): string;
  onDelivery(event: DeliveryEvent): void;
  onTrouble: OnTrouble;
};

/** The local service without sockets. */
export type Service = {
  /** Answers at {base_url}. */
  api: Handler;
  /** Answers at {media_url}. */
  media: Handler;
  /** Sends callbacks that are due, and resumes generations that have not ended: all, or each once it is polled. */
  start(resume: "all" | "polled"): Promise<void>;
  /** Resolves when every callback that is due now was attempted; a retry that is due later does not count. */
  settled(): Promise<void>;
  /** Is not ready from now on, and ends the replies that last as long as a page is open. */
  endStreams(): void;
  /** Stops rendering and sending; the next process that opens the store resumes both. */
  close(): Promise<void>;
};

export function createService(options: ServiceOptions): Service {
  const changes = createChanges();
  return options.work ? createShared(options, options.work, changes) : createAlone(options, changes);
}

/** The service of a database that this process has for itself: what is started or due is known here. */
function createAlone(options: ServiceOptions & { work?: undefined }, changes: Changes): Service {
  const { outbound, sessions } = options;
  const store = sessions ? watchStore(options.store, changes.publish) : options.store;
  const callbacks = createCallbackScheduler(attemptOptions({ ...options, store }, changes.publish));
  const queue = createQueue({
    ...{ ...options, store, get: outbound.get },
    onEnd: (_id, delivery) => delivery && callbacks.add(delivery),
    onProgress: (id, percent) => changes.publish({ kind: "progress", id, percent }),
  });
  return {
    ...createHandlers({
      ...options,
      store,
      queue,
      changes,
      resend: callbacks.add,
      isLocal: options.publicUrl === undefined,
    }),
    async start(resume) {
      if (resume === "all") for (const generation of await store.unfinished()) queue.add(generation);
      callbacks.start();
    },
    settled: callbacks.settled,
    async close() {
      await Promise.all([queue.close(), callbacks.close()]);
    },
  };
}

/** The service of a database that several processes share: the database hands out what is started or due, and tells of changes. */
function createShared(options: ServiceOptions, work: Work, changes: Changes): Service {
  const { outbound, store } = options;
  const callbacks = createCallbackSender(attemptOptions(options, work.publish));
  const jobs = createQueue({
    ...{ ...options, isShared: true, get: outbound.get },
    onEnd: () => {},
    onProgress: (id, percent) => work.publish({ kind: "progress", id, percent }),
  });
  /** What the process that makes a generation has told of it. */
  const percents = new Map<string, number>();
  const onChange = (change: Change) => {
    if (change.kind === "progress") percents.set(change.id, change.percent);
    if (change.kind === "generation") percents.delete(change.id);
    changes.publish(change);
  };
  const queue = { add: jobs.add, progressOf: (id: string) => percents.get(id) };
  return {
    ...createHandlers({ ...options, store, queue, changes, resend: () => {}, isLocal: false }),
    async start() {
      work.start({ ...jobs, deliver: callbacks.deliver, onChange });
    },
    settled: async () => {},
    async close() {
      await Promise.all([work.close(), jobs.close(), callbacks.close()]);
    },
  };
}

type Changes = ReturnType<typeof createChanges>;

function attemptOptions<S extends Store>(
  { store, clock, outbound, webhookSecret, onDelivery }: ServiceOptions & { store: S },
  publish: Changes["publish"],
) {
  return {
    ...{ store, clock, post: outbound.post, random: Math.random, sign: createSigner(webhookSecret) },
    onDelivery(event: DeliveryEvent) {
      publish({ kind: "callback", id: event.generation });
      onDelivery(event);
    },
  };
}

type Parts = Omit<ServiceOptions, "store" | "work"> &
  Pick<Parameters<typeof createPage>[0], "store" | "changes" | "resend" | "isLocal"> &
  Pick<Parameters<typeof createApp>[0], "queue">;

function createHandlers(parts: Parts): Pick<Service, "api" | "media" | "endStreams"> {
  const { sessions, webhookSecret, changes } = parts;
  const health = createHealth(parts);
  const page = sessions && createPage({ ...parts, sign: createSigner(webhookSecret), sessions });
  return {
    api: createApp({ ...parts, beside: page ? [health.routes, page] : [health.routes] }),
    media: createMedia(parts),
    endStreams() {
      health.stop();
      changes.close();
    },
  };
}
