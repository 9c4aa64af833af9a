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
import type { ReportProblem } from "./observe/problem.ts";
import type { Outbound } from "./outbound/outbound.ts";
import { createChanges } from "./page/events.ts";
import { linkOf } from "./page/link.ts";
import { createPage } from "./page/page.tsx";
import type { Sessions } from "./page/session.ts";
import type { EndedGeneration, Pace } from "./queue/end.ts";
import { createQueue, type QueueOptions } from "./queue/queue.ts";
import { createImageCleaner, createRetention, type Keep } from "./queue/retention.ts";
import type { Store } from "./store/store.ts";

/** The options of the service's owner. */
export type OwnerOptions = {
  engines: readonly Engine[];
  /** Reads the owner's configuration again and calls `updateEngines`. If the file is invalid, throws an error for people and changes nothing. */
  reload?: (() => Promise<Reloaded>) | undefined;
  /** Opens an engine that an earlier process used, by its name at that time. */
  reopen?: QueueOptions["reopen"];
  /** Whether the service runs inside a command, and ends with it. */
  isCommand?: boolean | undefined;
  /** The credits that a start costs, by model, where it is not the default price. */
  creditsPer: ReadonlyMap<string, number>;
  /** Whether previews cost the owner credits too. */
  hasPaidPreviews: boolean;
  /** Whether directives in prompts apply to real models too. */
  hasDirectives: boolean;
  /** Whether accounts other than the owner's may send fields that vidgen does not know to real models. */
  hasPassthrough?: boolean | undefined;
  /** Whether credits are returned when the service fails. */
  hasRefunds: boolean;
  /** Whether video requests are redirected to a store that has URLs of its own. */
  hasRedirects?: boolean | undefined;
  /** How long ended generations are kept; by default permanently. */
  keep?: Keep | undefined;
  pace: Pace;
  /** The program's name in commands on the page; "vidgen" by default. */
  program?: string | undefined;
  onDelivery(event: DeliveryEvent): void;
  /** Called for each generation that has ended here. */
  onEnd?: ((ended: EndedGeneration) => void) | undefined;
  /** Called with a line for the owner. */
  onNote(text: string): void;
};

export type ServiceOptions = OwnerOptions & {
  store: Store;
  videos: MediaStore;
  /** Sends callbacks and fetches images. */
  outbound: Outbound;
  /** Signs the callbacks of the local account. The secrets of other accounts are derived from it. */
  webhookSecret: string;
  /** The sign-in of the page; without it, there is no page. */
  sessions?: (() => Promise<Sessions>) | undefined;
  /** The folder of the page's script, style and icon; by default, beside the program. */
  assets?: URL;
  clock: Clock;
  /** The URL of the API for clients, if it differs from its own address, as behind a proxy. */
  publicUrl?: string | undefined;
  /** The URLs of the API and of the videos in replies. */
  baseUrl(): string;
  mediaUrl(): string;
  /** Creates the metrics; without it, there is no /metrics. */
  createMetrics?: typeof createMetrics | undefined;
  reportProblem: ReportProblem;
};

/** The local service without sockets. */
export type Service = {
  /** Answers at {base_url}. */
  api: Handler;
  /** Answers at {media_url}. */
  media: Handler;
  /** Answers /metrics without a key. */
  metrics: Handler | undefined;
  /** Counts an answered request. */
  onRequest(event: CountedRequest): void;
  /** Sends callbacks that are due, and resumes unfinished generations: all of them, or each once it is polled. */
  start(resume: "all" | "polled"): Promise<void>;
  /** Resolves when every callback that is due now was attempted. Later retries do not count. */
  settled(): Promise<void>;
  /** Replaces the engines and prices. An engine that is no longer used drains. */
  updateEngines(given: Pick<OwnerOptions, "engines" | "creditsPer">): void;
  /** Reports not ready from now on, and ends the event streams of open pages. */
  endStreams(): void;
  /** Stops generating videos and sending callbacks; the next process that opens the store resumes both. */
  close(): Promise<void>;
};

export function createService(given: ServiceOptions): Service {
  // All parts share these two, whose content changes, so a part must not cache what it derives from them.
  const [engines, creditsPer] = [[...given.engines], new Map(given.creditsPer)];
  const options = { ...given, engines, creditsPer };
  const { store, outbound, sessions, reportProblem } = options;
  const changes = createChanges();
  const health = createHealth(options);
  const sign = createSigner(options.webhookSecret);
  const metrics = options.createMetrics?.(options);
  const onEnd = (ended: EndedGeneration) => {
    metrics?.onEnd(ended);
    options.onEnd?.(ended);
  };
  const onDelivery = (event: DeliveryEvent) => {
    store.publish({ kind: "attempt", id: event.generation, account: event.account });
    metrics?.onDelivery(event);
    options.onDelivery(event);
  };
  const queueMetrics = { onCreate: metrics?.onCreate, onTaken: metrics?.onTaken };
  const queue = createQueue({ ...options, get: outbound.get, onEnd, ...queueMetrics });
  const sender = createCallbackSender({ ...options, sign, post: outbound.post, random: Math.random, onDelivery });
  const imageCleaner = createImageCleaner(options);
  const retention = options.keep && createRetention({ ...options, keep: options.keep });
  const startBy = createStartRoutes(
    rehearseStarts({
      ...options,
      findImageFault: outbound.findImageFault,
      missing: queue.missingEngines,
      onStart: metrics?.onStart,
    }),
  );
  const linkFor =
    sessions &&
    (async (keyHash: string, ms?: number) =>
      linkOf(options.baseUrl(), await sessions(), { keyHash, ms, now: options.clock.date() }));
  const parts = { ...options, linkFor, queue, metrics, startBy, onEnd };
  const page = sessions && createPage({ ...parts, sessions, changes, sign });
  const readMetrics = metrics && (async () => metrics.read({ queue, readiness: await health.readiness() }));
  const media = createRehearsedMedia(options);
  let stopListening = () => {};
  return {
    api: createApp({ ...parts, media, health: health.paths, readMetrics, page }),
    media: createRehearsedMedia({ ...options, isDisabled: store.isDisabled }),
    onRequest: (event) => metrics?.onRequest(event),
    metrics: readMetrics && createMetricsApp(readMetrics, reportProblem),
    async start(resume) {
      stopListening = store.listen((change) => {
        queue.onChange(change);
        changes.publish(change);
        if (change.kind === "callback" || change.kind === "missed") void sender.wake();
      });
      queue.start(resume);
      void sender.wake();
      void imageCleaner.wake();
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
      await Promise.all([queue.close(), sender.close(), imageCleaner.close(), retention?.close()]);
    },
  };
}
