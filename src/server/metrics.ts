import { statfs } from "node:fs/promises";
import process from "node:process";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import packageJson from "../../package.json" with { type: "json" };
import type { Readiness } from "./api/health.ts";
import { isGivenUp } from "./callbacks/delivery.ts";
import type { Engine } from "./engines/engine.ts";
import { createCheck } from "./observe/health-check.ts";
import type { RequestEvent } from "./observe/log.ts";
import { type Counts, createOutcomes, failureReasons } from "./outcomes.ts";
import type { Queue } from "./queue/queue.ts";
import type { ServiceParts } from "./service-parts.ts";
import { sumPayments } from "./store/accounts.ts";

/** The metrics of the service. */
export type Metrics = {
  [Word in "onStart" | "onCreate" | "onTaken" | "onEnd" | "onDelivery" | "counts"]: NonNullable<ServiceParts[Word]>;
} & {
  onRequest(request: CountedRequest): void;
  /** Resolves with all metrics in the text format of Prometheus, and its media type. */
  read(measured: { queue: MeasuredQueue; readiness: Readiness }): Promise<{ text: string; contentType: string }>;
};

export type CountedRequest = Pick<RequestEvent, "method" | "route" | "isStream" | "status" | "ms">;

type MeasuredQueue = Pick<Queue, "waitingGenerations" | "outageOf" | "loads">;

const ofProcess = "by this process since it started";
const ofDatabase = "in the database; each process reports the same value";
const ofEngine = "of all processes that share the database, as this process last saw them; of previews its own";

/** From the seconds of a preview to the hours that a generation may wait for an engine. */
const secondsBuckets = [1, 5, 15, 30, 60, 120, 300, 600, 1_200, 3_600, 14_400, 86_400];

/** From one query of the database to the transfer of a large image or video. */
const requestBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];

// Each metric with its help and its labels. Labels are models, engines and fixed words, so that their number stays small.

const counters = {
  vidgen_starts_total: ["Generations started", "model"],
  vidgen_credits_charged_total: ["Credits taken for starts"],
  vidgen_credits_returned_total: ["Credits returned for generations that failed"],
  vidgen_engine_creates_total: ["Create requests sent to engines, by outcome", "engine", "outcome"],
  vidgen_generation_failures_total: ["Generations that failed, by reason", "model", "reason"],
  vidgen_callback_attempts_total: ["Attempts to deliver callbacks, by outcome", "outcome"],
} satisfies MetricList;

const durations = {
  vidgen_generation_duration_seconds: ["Time from start to end of generations that ended", "model", "status"],
  vidgen_queue_wait_seconds: ["Time from start until an engine took the generation or ended it", "model"],
} satisfies MetricList;

const gauges = {
  vidgen_engine_up: ["Whether this process can use an engine for a model now", "engine", "model"],
  vidgen_engine_running: [`Generations that an engine makes, ${ofEngine}`, "engine"],
  vidgen_engine_free: [`Generations that an engine could make beside these, ${ofEngine}`, "engine"],
  vidgen_ready: ["Whether this process can do its work"],
  vidgen_database_writable: ["Whether this process could write to the database"],
  vidgen_media_writable: ["Whether this process could write to the storage of the videos"],
  vidgen_disk_free_bytes: ["Free bytes on the disk to which this process writes videos"],
  vidgen_build_info: ["1, with the versions of this process", "version", "node"],
  vidgen_queue_length: [`Generations that wait for an engine, ${ofDatabase}`, "model"],
  vidgen_queue_oldest_age_seconds: [`Age of the oldest generation that waits for an engine, ${ofDatabase}`, "model"],
  vidgen_callbacks_waiting: [`Callbacks that wait for delivery, ${ofDatabase}`],
} satisfies MetricList;

type MetricList = Record<string, [help: string, ...labels: string[]]>;

/** Creates the metrics of a list, by their names. */
function createAll<List extends MetricList, Metric>(
  list: List,
  create: (metric: { name: string; help: string; labelNames: string[] }) => Metric,
): Record<keyof List, Metric> {
  const entries = Object.entries(list).map(([name, [help, ...labelNames]]) => [
    name,
    create({ name, help, labelNames }),
  ]);
  return Object.fromEntries(entries);
}

const methods = ["GET", "HEAD", "POST", "DELETE"];

/** promtool refuses these gauges of prom-client, because they are named like counters. */
const misnamed = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

export function createMetrics({
  store,
  videos,
  engines,
  clock,
}: Pick<ServiceParts, "store" | "videos" | "engines" | "clock">): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  const counter = createAll(counters, (metric) => {
    return new Counter({ ...metric, help: `${metric.help}, ${ofProcess}.`, registers });
  });
  const seconds = createAll(durations, (metric) => {
    return new Histogram({ ...metric, help: `${metric.help}, ${ofProcess}.`, buckets: secondsBuckets, registers });
  });
  const requests = new Histogram({
    name: "vidgen_http_request_duration_seconds",
    help: `Time from the head of a request to the end of its reply, ${ofProcess}.`,
    labelNames: ["method", "route", "status"],
    buckets: requestBuckets,
    registers,
  });
  const gauge = createAll(gauges, (metric) => new Gauge({ ...metric, help: `${metric.help}.`, registers }));
  gauge.vidgen_build_info.set({ version: packageJson.version, node: process.versions.node }, 1);

  const listUsed = () => engines.filter(({ concurrency }) => concurrency > 0);
  const listModels = () => [...new Set(engines.flatMap((engine) => engine.models))];
  // Prometheus sees the first event as an increase only if the counter was 0 before.
  const beginAtZero = () => {
    for (const model of listModels()) {
      counter.vidgen_starts_total.inc({ model }, 0);
      for (const reason of failureReasons) counter.vidgen_generation_failures_total.inc({ model, reason }, 0);
    }
    for (const { name: engine } of listUsed())
      for (const outcome of createOutcomes) counter.vidgen_engine_creates_total.inc({ engine, outcome }, 0);
  };
  beginAtZero();
  for (const outcome of ["delivered", "failed", "given_up"]) counter.vidgen_callback_attempts_total.inc({ outcome }, 0);
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
    gauge.vidgen_engine_up.reset();
    for (const [index, engine] of used.entries()) {
      const value = Number(isUp[index] && queue.outageOf(engine) === undefined);
      for (const model of engine.models) gauge.vidgen_engine_up.set({ engine: engine.name, model }, value);
    }
    gauge.vidgen_engine_running.reset();
    gauge.vidgen_engine_free.reset();
    // An engine that is configured for several models is listed once for each.
    for (const { engine, running, free } of queue.loads()) {
      gauge.vidgen_engine_running.inc({ engine: engine.name }, running);
      gauge.vidgen_engine_free.inc({ engine: engine.name }, free);
    }
  };
  const readDatabase = async (queue: MeasuredQueue) => {
    const [waiting, callbacks] = await Promise.all([queue.waitingGenerations(), store.pendingCallbacks()]);
    gauge.vidgen_queue_length.reset();
    gauge.vidgen_queue_oldest_age_seconds.reset();
    const models = listModels();
    const ages: Record<string, number> = Object.fromEntries(models.map((model) => [model, 0]));
    for (const model of models) gauge.vidgen_queue_length.set({ model }, 0);
    const now = clock.date().getTime();
    for (const { model, count, oldest_at } of waiting) {
      gauge.vidgen_queue_length.inc({ model }, count);
      ages[model] = Math.max(ages[model] ?? 0, (now - Date.parse(oldest_at)) / 1_000);
    }
    for (const [model, oldest] of Object.entries(ages)) gauge.vidgen_queue_oldest_age_seconds.set({ model }, oldest);
    gauge.vidgen_callbacks_waiting.set(callbacks);
  };
  /** During an outage, old values must not look current. */
  const forgetDatabase = () => {
    gauge.vidgen_queue_length.reset();
    gauge.vidgen_queue_oldest_age_seconds.reset();
    gauge.vidgen_callbacks_waiting.remove();
  };
  return {
    onStart({ request: { model } }, cost) {
      counter.vidgen_starts_total.inc({ model });
      counter.vidgen_credits_charged_total.inc(cost);
    },
    onEnd({ generation: { id, status, created_at, completed_at, request }, reason, isRefunded }) {
      const { model } = request;
      const ms = Date.parse(completed_at ?? created_at) - Date.parse(created_at);
      seconds.vidgen_generation_duration_seconds.observe({ model, status }, Math.max(0, ms / 1_000));
      if (reason !== undefined) counter.vidgen_generation_failures_total.inc({ model, reason });
      if (!isRefunded) return;
      const refunds = store.ledger({ generation: id, limit: 10 }).then(sumPayments);
      refunds.then(({ returned }) => counter.vidgen_credits_returned_total.inc(returned)).catch(() => {});
    },
    onTaken: (model, waitedMs) => seconds.vidgen_queue_wait_seconds.observe({ model }, waitedMs / 1_000),
    onRequest({ method, route = "other", isStream, status, ms }) {
      if (isStream) return;
      const labels = { method: methods.includes(method) ? method : "other", route, status: status ?? "disconnected" };
      requests.observe(labels, ms / 1_000);
    },
    onCreate: ({ name: engine }, outcome) => counter.vidgen_engine_creates_total.inc({ engine, outcome }),
    onDelivery(event) {
      const ended = isGivenUp(event) ? "given_up" : "failed";
      counter.vidgen_callback_attempts_total.inc({ outcome: event.isDelivered ? "delivered" : ended });
    },
    async counts() {
      const [creates, failures] = await Promise.all([
        counter.vidgen_engine_creates_total.get(),
        counter.vidgen_generation_failures_total.get(),
      ]);
      return {
        creates: creates.values.map(({ labels, value: count }) => ({ ...labels, count })) as Counts["creates"],
        failures: failures.values.map(({ labels, value: count }) => ({ ...labels, count })) as Counts["failures"],
      };
    },
    async read({ queue, readiness }) {
      beginAtZero();
      gauge.vidgen_ready.set(Number(readiness.isReady));
      gauge.vidgen_database_writable.set(Number(readiness.isDatabaseWritable));
      gauge.vidgen_media_writable.set(Number(readiness.isMediaWritable));
      const { bavail, bsize } = await statfs(videos.scratch).catch(() => ({ bavail: 0, bsize: 0 }));
      gauge.vidgen_disk_free_bytes.set(bavail * bsize);
      // A database that does not answer would delay the reply until Prometheus no longer waits.
      const reading = readiness.isDatabaseWritable ? readDatabase(queue).catch(forgetDatabase) : forgetDatabase();
      await Promise.all([reading, readEngines(queue)]);
      return { text: await registry.metrics(), contentType: registry.contentType };
    },
  };
}
