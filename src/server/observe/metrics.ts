import { statfs } from "node:fs/promises";
import process from "node:process";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import packageJson from "../../../package.json" with { type: "json" };
import type { Clock } from "../../io.ts";
import { type DeliveryEvent, isGivenUp } from "../callbacks/delivery.ts";
import type { Engine } from "../engines/engine.ts";
import type { MediaStore } from "../media/media-store.ts";
import { type CreateOutcome, createOutcomes } from "../queue/breaker.ts";
import { type EndedGeneration, type FailureReason, failureReasons } from "../queue/end.ts";
import type { Queue } from "../queue/queue.ts";
import type { StoredGeneration } from "../store/generations.ts";
import type { Store } from "../store/store.ts";
import { createCheck } from "./health-check.ts";
import type { RequestEvent } from "./log.ts";

export type MetricsOptions = {
  store: Pick<Store, "pendingCallbacks" | "ledger">;
  videos: Pick<MediaStore, "scratch">;
  engines: readonly Engine[];
  clock: Pick<Clock, "now" | "date" | "limit">;
};

/** The metrics of the service. Labels are models, engines and fixed words, so that their number stays small. */
export type Metrics = {
  onStart(generation: StoredGeneration, cost: number): void;
  onEnd(ended: EndedGeneration): void;
  onCreate(engine: Engine, created: CreateOutcome): void;
  /** Called when an engine takes a generation, with the time since its start. */
  onTaken(model: string, waitedMs: number): void;
  onRequest(request: CountedRequest): void;
  onDelivery(event: DeliveryEvent): void;
  /** Resolves with the creates of each engine, and the failures by model and reason, since this process started. */
  counts(): Promise<Counts>;
  /** Resolves with all metrics in the text format of Prometheus, and its media type. */
  read(measured: Measured): Promise<{ text: string; contentType: string }>;
};

export type CountedRequest = Pick<RequestEvent, "method" | "route" | "isStream" | "status" | "ms">;

type Measured = { queue: MeasuredQueue; readiness: Readiness };
type MeasuredQueue = Pick<Queue, "waitingGenerations" | "outageOf" | "loads">;

/** What is written now; unlike a read, that notices a full disk. */
export type Readiness = { isReady: boolean; isDatabaseWritable: boolean; isMediaWritable: boolean };

export type Counts = {
  creates: { engine: string; outcome: CreateOutcome; count: number }[];
  failures: { model: string; reason: FailureReason; count: number }[];
};

/** From the seconds of a preview to the hours that a generation may wait for an engine. */
const secondsBuckets = [1, 5, 15, 30, 60, 120, 300, 600, 1_200, 3_600, 14_400, 86_400];

/** From one query of the database to the transfer of a large image or video. */
const requestBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];

const methods = ["GET", "HEAD", "POST", "DELETE"];

/** promtool refuses these gauges of prom-client, because they are named like counters. */
const misnamed = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

const ofProcess = "by this process since it started";
const ofDatabase = "in the database; each process reports the same value";

export function createMetrics({ store, videos, engines, clock }: MetricsOptions): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter({ name, help: `${help}, ${ofProcess}.`, labelNames, registers });
  const gauge = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge({ name, help: `${help}.`, labelNames, registers });

  const starts = counter("vidgen_starts_total", "Generations started", "model");
  const charged = counter("vidgen_credits_charged_total", "Credits taken for starts");
  const returned = counter("vidgen_credits_returned_total", "Credits returned for generations that failed");
  const submitted = counter(
    "vidgen_engine_creates_total",
    "Create requests sent to engines, by outcome",
    "engine",
    "outcome",
  );
  const failures = counter("vidgen_generation_failures_total", "Generations that failed, by reason", "model", "reason");
  const attempts = counter("vidgen_callback_attempts_total", "Attempts to deliver callbacks, by outcome", "outcome");
  const histogram = <Label extends string>(name: string, help: string, buckets: number[], ...labelNames: Label[]) =>
    new Histogram({ name, help: `${help}, ${ofProcess}.`, labelNames, buckets, registers });
  const seconds = histogram(
    "vidgen_generation_duration_seconds",
    "Time from start to end of generations that ended",
    secondsBuckets,
    "model",
    "status",
  );
  const waits = histogram(
    "vidgen_queue_wait_seconds",
    "Time from start until an engine took the generation",
    secondsBuckets,
    "model",
  );
  const requests = histogram(
    "vidgen_http_request_duration_seconds",
    "Time from the head of a request to the end of its reply",
    requestBuckets,
    ...["method", "route", "status"],
  );
  const engineUp = gauge(
    "vidgen_engine_up",
    "Whether this process can use an engine for a model now",
    "engine",
    "model",
  );
  const ofEngine = "of all processes that share the database, as this process last saw them; of previews its own";
  const running = gauge("vidgen_engine_running", `Generations that an engine makes, ${ofEngine}`, "engine");
  const free = gauge("vidgen_engine_free", `Generations that an engine could make beside these, ${ofEngine}`, "engine");
  const ready = gauge("vidgen_ready", "Whether this process can do its work");
  const databaseWritable = gauge("vidgen_database_writable", "Whether this process could write to the database");
  const mediaWritable = gauge("vidgen_media_writable", "Whether this process could write to the storage of the videos");
  const freeBytes = gauge("vidgen_disk_free_bytes", "Free bytes on the disk to which this process writes videos");
  const build = gauge("vidgen_build_info", "1, with the versions of this process", "version", "node");
  build.set({ version: packageJson.version, node: process.versions.node }, 1);
  const queueLength = gauge("vidgen_queue_length", `Generations that wait for an engine, ${ofDatabase}`, "model");
  const oldestAge = gauge(
    "vidgen_queue_oldest_age_seconds",
    `Age of the oldest generation that waits for an engine, ${ofDatabase}`,
    "model",
  );
  const pending = gauge("vidgen_callbacks_waiting", `Callbacks that wait for delivery, ${ofDatabase}`);

  const listUsed = () => engines.filter(({ concurrency }) => concurrency > 0);
  const listModels = () => [...new Set(engines.flatMap((engine) => engine.models))];
  // Prometheus sees the first event as an increase only if the counter was 0 before.
  const beginAtZero = () => {
    for (const model of listModels()) {
      starts.inc({ model }, 0);
      for (const reason of failureReasons) failures.inc({ model, reason }, 0);
    }
    for (const { name: engine } of listUsed())
      for (const outcome of createOutcomes) submitted.inc({ engine, outcome }, 0);
  };
  beginAtZero();
  for (const outcome of ["delivered", "failed", "given_up"]) attempts.inc({ outcome }, 0);
  for (const route of ["/api/generate", "/v1/videos"]) requests.zero({ method: "POST", route, status: 503 });
  const checks = new WeakMap<Engine, () => Promise<boolean>>();
  const isUsable = (engine: Engine) => {
    const check = checks.get(engine) ?? createCheck(5_000, clock, engine.check);
    checks.set(engine, check);
    return check();
  };

  const readEngines = async (queue: MeasuredQueue) => {
    const used = listUsed();
    const isUp = await Promise.all(used.map(isUsable));
    engineUp.reset();
    for (const [index, engine] of used.entries())
      for (const model of engine.models)
        engineUp.set({ engine: engine.name, model }, Number(isUp[index] && queue.outageOf(engine) === undefined));
    running.reset();
    free.reset();
    // An engine that is configured for several models is listed once for each.
    for (const { engine, ...load } of queue.loads()) {
      running.inc({ engine: engine.name }, load.running);
      free.inc({ engine: engine.name }, load.free);
    }
  };
  const readDatabase = async (queue: MeasuredQueue) => {
    const [waiting, callbacks] = await Promise.all([queue.waitingGenerations(), store.pendingCallbacks()]);
    queueLength.reset();
    oldestAge.reset();
    const models = listModels();
    const ages: Record<string, number> = Object.fromEntries(models.map((model) => [model, 0]));
    for (const model of models) queueLength.set({ model }, 0);
    const now = clock.date().getTime();
    for (const { model, count, oldest_at } of waiting) {
      queueLength.inc({ model }, count);
      ages[model] = Math.max(ages[model] ?? 0, (now - Date.parse(oldest_at)) / 1_000);
    }
    for (const [model, oldest] of Object.entries(ages)) oldestAge.set({ model }, oldest);
    pending.set(callbacks);
  };
  /** During an outage, old values must not look current. */
  const forgetDatabase = () => {
    queueLength.reset();
    oldestAge.reset();
    pending.remove();
  };
  return {
    onStart({ request: { model } }, cost) {
      starts.inc({ model });
      charged.inc(cost);
    },
    onEnd({ generation: { id, status, created_at, completed_at, request }, reason, isRefunded }) {
      const { model } = request;
      const ms = Date.parse(completed_at ?? created_at) - Date.parse(created_at);
      seconds.observe({ model, status }, Math.max(0, ms / 1_000));
      if (reason !== undefined) failures.inc({ model, reason });
      const countReturned = (entries: readonly { amount: number }[]) => {
        for (const { amount } of entries) returned.inc(Math.max(0, amount));
      };
      if (isRefunded) store.ledger({ generation: id, limit: 10 }).then(countReturned, () => {});
    },
    onTaken: (model, waitedMs) => waits.observe({ model }, waitedMs / 1_000),
    onRequest({ method, route = "other", isStream, status, ms }) {
      if (isStream) return;
      const labels = { method: methods.includes(method) ? method : "other", route, status: status ?? "disconnected" };
      requests.observe(labels, ms / 1_000);
    },
    onCreate: ({ name: engine }, outcome) => submitted.inc({ engine, outcome }),
    onDelivery(event) {
      const ended = isGivenUp(event) ? "given_up" : "failed";
      attempts.inc({ outcome: event.isDelivered ? "delivered" : ended });
    },
    async counts() {
      const [creates, failed] = await Promise.all([submitted.get(), failures.get()]);
      return {
        creates: creates.values.map(({ labels, value: count }) => ({ ...labels, count })) as Counts["creates"],
        failures: failed.values.map(({ labels, value: count }) => ({ ...labels, count })) as Counts["failures"],
      };
    },
    async read({ queue, readiness: { isReady, isDatabaseWritable, isMediaWritable } }) {
      beginAtZero();
      ready.set(Number(isReady));
      databaseWritable.set(Number(isDatabaseWritable));
      mediaWritable.set(Number(isMediaWritable));
      const { bavail, bsize } = await statfs(videos.scratch).catch(() => ({ bavail: 0, bsize: 0 }));
      freeBytes.set(bavail * bsize);
      // A database that does not answer would delay the reply until Prometheus no longer waits.
      const reading = isDatabaseWritable ? readDatabase(queue).catch(forgetDatabase) : forgetDatabase();
      await Promise.all([reading, readEngines(queue)]);
      return { text: await registry.metrics(), contentType: registry.contentType };
    },
  };
}
