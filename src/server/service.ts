import { createApp, createMetricsApp } from "./api/app.ts";
import { createHealth } from "./api/health.ts";
import { createRehearsedMedia, rehearseStarts } from "./api/rehearsal.ts";
import { createStartRoutes } from "./api/start.ts";
import type { DeliveryEvent } from "./callbacks/delivery.ts";
import { createCallbackSender } from "./callbacks/sender.ts";
import { createSigner } from "./callbacks/signature.ts";
import type { Handler } from "./http/message.ts";
import type { CountedRequest, createMetrics } from "./metrics.ts";
import type { Outbound } from "./outbound/outbound.ts";
import type { EndedGeneration } from "./outcomes.ts";
import { createChanges } from "./page/events.ts";
import { linkOf } from "./page/link.ts";
import { createPage } from "./page/page.tsx";
import type { Sessions } from "./page/session.ts";
import { createQueue } from "./queue/queue.ts";
import { createImageCleaner, createRetention } from "./queue/retention.ts";
import type { ServiceParts } from "./service-parts.ts";

export type ServiceOptions = Omit<ServiceParts, "onStart" | "onCreate" | "onTaken" | "counts"> & {
  /** Sends callbacks and fetches images. */
  outbound: Outbound;
  /** The sign-in of the page; without it, there is no page. */
  sessions?: (() => Promise<Sessions>) | undefined;
  /** Creates the metrics; without it, there is no /metrics. */
  createMetrics?: typeof createMetrics | undefined;
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
  updateEngines(given: Pick<ServiceParts, "engines" | "creditsPer">): void;
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
  // What starts, ends or delivers something takes these: with `options` alone, it would be missing in the metrics.
  const parts = {
    ...options,
    onStart: metrics?.onStart,
    onCreate: metrics?.onCreate,
    onTaken: metrics?.onTaken,
    counts: metrics?.counts,
    onEnd(ended: EndedGeneration) {
      metrics?.onEnd(ended);
      options.onEnd?.(ended);
    },
    onDelivery(event: DeliveryEvent) {
      store.publish({ kind: "attempt", id: event.generation, account: event.account });
      metrics?.onDelivery(event);
      options.onDelivery(event);
    },
  };
  const queue = createQueue({ ...parts, get: outbound.get });
  const sender = createCallbackSender({ ...parts, sign, post: outbound.post, random: Math.random });
  const imageCleaner = createImageCleaner(options);
  const retention = options.keep && createRetention({ ...options, keep: options.keep });
  const { findImageFault } = outbound;
  const startBy = createStartRoutes(rehearseStarts({ ...parts, findImageFault, missing: queue.missingEngines }));
  const linkFor =
    sessions &&
    (async (keyHash: string, ms?: number) =>
      linkOf(options.baseUrl(), await sessions(), { keyHash, ms, now: options.clock.date() }));
  const routed = { ...parts, queue, startBy, linkFor };
  const page = sessions && createPage({ ...routed, sessions, changes, sign });
  const readMetrics = metrics && (async () => metrics.read({ queue, readiness: await health.readiness() }));
  const media = createRehearsedMedia(options);
  let stopListening = () => {};
  return {
    api: createApp({ ...routed, media, health: health.paths, readMetrics, page }),
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
