import type { Clock } from "../io.ts";
import type { Reloaded } from "./api/admin.ts";
import { createApp, createMetricsApp } from "./api/app.ts";
import { createHealth } from "./api/health.ts";
import { createRehearsedMedia, rehearseStarts } from "./api/rehearsal.ts";
import { createStartRoutes } from "./api/start.ts";
import type { DeliveryEvent } from "./callbacks/delivery.ts";
import { createCallbackSender } from "./callbacks/sender.ts";
import { createSigner } from "./callbacks/signature.ts";
import type { Engine } from "./engines/engine.ts";
import type { Handler } from "./http/message.ts";
import type { MediaStore } from "./media/media-store.ts";
import type { CountedRequest, createMetrics } from "./observe/metrics.ts";
import type { OnTrouble } from "./observe/trouble.ts";
import type { Outbound } from "./outbound/outbound.ts";
import { createChanges } from "./page/events.ts";
import { linkOf } from "./page/link.ts";
import { createPage } from "./page/page.tsx";
import type { Sessions } from "./page/session.ts";
import type { Ended, Pace } from "./queue/end.ts";
import { createQueue, type QueueOptions } from "./queue/queue.ts";
import { createRetention, type Keep } from "./queue/retention.ts";
import type { Store } from "./store/store.ts";

/** What the owner of a service decides. */
export type OwnerOptions = {
  /** What makes the videos. */
  engines: readonly Engine[];
  /** Reads the owner's file again, and has `updateEngines` called. Throws an error made for people when it is faulty, and changes nothing. */
  reload?: (() => Promise<Reloaded>) | undefined;
  /** Opens an engine that an earlier process has used, as it was named then. */
  reopen?: QueueOptions["reopen"];
  /** Whether it runs inside a command, for as long as that takes. */
  isCommand?: boolean | undefined;
  /** The credits that a start costs, by model, where that is not the usual price. */
  creditsPer: ReadonlyMap<string, number>;
  /** Whether previews cost the owner credits too. */
  hasPaidPreviews: boolean;
  /** Whether directives in prompts apply to real models too. */
  hasDirectives: boolean;
  /** Whether a failure of the service gives back what was paid. */
  hasRefunds: boolean;
  /** Whether a store that has addresses of its own answers for its videos. */
  hasRedirects?: boolean | undefined;
  /** How long what has ended is kept; for ever unless told otherwise. */
  keep?: Keep | undefined;
  pace: Pace;
  /** How the page writes the program's name in commands to type; "vidgen" unless given. */
  program?: string | undefined;
  onDelivery(event: DeliveryEvent): void;
  /** Called for each generation that has ended here. */
  onEnd?: ((ended: Ended) => void) | undefined;
  /** Called with a line for the owner. */
  onNote(text: string): void;
};

export type ServiceOptions = OwnerOptions & {
  store: Store;
  videos: MediaStore;
  /** Sends callbacks and fetches images. */
  outbound: Outbound;
  /** Signs the callbacks of the local account; those of others have a secret that comes from it. */
  webhookSecret: string;
  /** Who may look at the page; without it, there is no page. */
  sessions?: (() => Promise<Sessions>) | undefined;
  /** The folder of the page's script, style and icon; by default, beside the program. */
  assets?: URL;
  clock: Clock;
  /** The address of the API where clients reach it by another one than its own, as behind a proxy. */
  publicUrl?: string | undefined;
  /** The addresses of the API and of the videos, as clients are told them. */
  baseUrl(): string;
  mediaUrl(): string;
  /** Counts what happens, for /metrics; without it, nothing does. */
  createMetrics?: typeof createMetrics | undefined;
  onTrouble: OnTrouble;
};

/** The local service without sockets. */
export type Service = {
  /** Answers at {base_url}. */
  api: Handler;
  /** Answers at {media_url}. */
  media: Handler;
  /** Answers /metrics without a key. */
  metrics: Handler | undefined;
  /** Counts a request that was answered. */
  onRequest(event: CountedRequest): void;
  /** Sends callbacks that are due, and resumes generations that have not ended: all, or each once it is polled. */
  start(resume: "all" | "polled"): Promise<void>;
  /** Resolves when every callback that is due now was attempted; a retry that is due later does not count. */
  settled(): Promise<void>;
  /** Uses these engines and prices from now on. An engine that is not among them drains. */
  updateEngines(given: Pick<OwnerOptions, "engines" | "creditsPer">): void;
  /** Is not ready from now on, and ends the replies that last as long as a page is open. */
  endStreams(): void;
  /** Stops rendering and sending; the next process that opens the store resumes both. */
  close(): Promise<void>;
};

export function createService(given: ServiceOptions): Service {
  // All parts have these two, whose content changes: what follows from them is asked for each time.
  const [engines, creditsPer] = [[...given.engines], new Map(given.creditsPer)];
  const options = { ...given, engines, creditsPer };
  const { store, outbound, sessions, onTrouble } = options;
  const changes = createChanges();
  const health = createHealth(options);
  const sign = createSigner(options.webhookSecret);
  const metrics = options.createMetrics?.(options);
  const onEnd = (ended: Ended) => {
    metrics?.onEnd(ended);
    options.onEnd?.(ended);
  };
  const onDelivery = (event: DeliveryEvent) => {
    store.publish({ kind: "attempt", id: event.generation, account: event.account });
    metrics?.onDelivery(event);
    options.onDelivery(event);
  };
  const counted = { onCreate: metrics?.onCreate, onTaken: metrics?.onTaken };
  const queue = createQueue({ ...options, get: outbound.get, onEnd, ...counted });
  const sender = createCallbackSender({ ...options, sign, post: outbound.post, random: Math.random, onDelivery });
  const retention = options.keep && createRetention({ ...options, keep: options.keep });
  const startBy = createStartRoutes(rehearseStarts({ ...options, missing: queue.missing, onStart: metrics?.onStart }));
  const linkFor =
    sessions &&
    (async (keyHash: string) => linkOf(options.baseUrl(), await sessions(), { keyHash, now: options.clock.date() }));
  const parts = { ...options, linkFor, queue, metrics, startBy, onEnd };
  const page = sessions && createPage({ ...parts, sessions, changes, sign });
  const readMetrics = metrics && (() => metrics.read(queue));
  const media = createRehearsedMedia(options);
  let stopListening = () => {};
  return {
    api: createApp({ ...parts, media, health: health.paths, readMetrics, page }),
    media,
    onRequest: (event) => metrics?.onRequest(event),
    metrics: readMetrics && createMetricsApp(readMetrics, onTrouble),
    async start(resume) {
      stopListening = store.listen((change) => {
        queue.onChange(change);
        changes.publish(change);
        if (change.kind === "callback" || change.kind === "missed") void sender.wake();
      });
      queue.start(resume);
      void sender.wake();
      void retention?.wake();
    },
    settled: sender.settled,
    updateEngines(next) {
      engines.splice(0, engines.length, ...next.engines);
      creditsPer.clear();
      for (const [model, credits] of next.creditsPer) creditsPer.set(model, credits);
      queue.updateEngines();
    },
    endStreams() {
      health.stop();
      changes.close();
    },
    async close() {
      stopListening();
      await Promise.all([queue.close(), sender.close(), retention?.close()]);
    },
  };
}
