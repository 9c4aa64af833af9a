import * as z from "zod";
import type { Clock } from "../../io.ts";
import { type ApiContext, retryAfter } from "../http/message.ts";
import type { MediaStore } from "../media/media-store.ts";
import { createCheck } from "../observe/health-check.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { Store } from "../store/store.ts";
import { named, type Paths, type Route, reply, retryAfterHeader } from "./openapi/operation.ts";

export type HealthOptions = Pick<ServiceParts, "engines"> & {
  store: Pick<Store, "check" | "clockDifferenceMs">;
  videos: Pick<MediaStore, "check">;
  clock: Pick<Clock, "now" | "limit">;
};

/** What is written now; unlike a read, that notices a full disk. */
export type Readiness = { isReady: boolean; isDatabaseWritable: boolean; isMediaWritable: boolean };

const aliveSchema = named("Alive", { status: z.literal("ok") });

const readinessSchema = named("Readiness", {
  status: z.enum(["ok", "unavailable", "stopping"]),
  database: z.enum(["ok", "unavailable"]),
  media: z.enum(["ok", "unavailable"]),
  engines: z.enum(["ok", "unavailable", "unused", "inconsistent"]).meta({
    description: "Inconsistent: several servers answer at the address of one engine, and each knows only its own jobs.",
  }),
  clock_difference_seconds: z.number().optional().meta({
    description: "By how much the clock of the shared database is ahead of this machine's.",
  }),
});

export type Health = {
  paths: Paths;
  /** Resolves with what /readyz says, as metrics. */
  readiness(): Promise<Readiness>;
  /** Must be called when the service begins to stop, so that it is no longer ready. */
  stop(): void;
};

/**
 * Creates the routes for load balancers, which need no key and reveal no address: /healthz, whether the process responds, and /readyz, whether it can
 * do its work. A process that makes no videos does not check engines.
 */
export function createHealth({ store, videos, engines, clock }: HealthOptions): Health {
  const used = () => engines.filter(({ concurrency }) => concurrency > 0);
  const database = createCheck(1_000, clock, store.check);
  // This check writes, which costs money at an S3 store.
  const media = createCheck(15_000, clock, videos.check);
  const anyEngine = createCheck(5_000, clock, (signal) => Promise.any(used().map(({ check }) => check(signal))));
  let isStopping = false;
  const check = async () => {
    const [isDatabaseWritable, isMediaWritable, isEngineUp] = await Promise.all([
      database(),
      media(),
      used().length === 0 || anyEngine(),
    ]);
    const isReady = !isStopping && isDatabaseWritable && isMediaWritable && isEngineUp;
    return { isReady, isDatabaseWritable, isMediaWritable, isEngineUp };
  };
  const describe = async () => {
    const { isReady, isDatabaseWritable, isMediaWritable, isEngineUp } = await check();
    const status = isStopping ? "stopping" : word(isReady);
    const isInconsistent = used().some((engine) => engine.isInconsistent?.());
    const usedEngines = isEngineUp && isInconsistent ? "inconsistent" : word(isEngineUp);
    const engines = used().length === 0 ? "unused" : usedEngines;
    const differenceMs = store.clockDifferenceMs?.();
    const difference = differenceMs !== undefined && { clock_difference_seconds: Math.round(differenceMs / 100) / 10 };
    return { status, database: word(isDatabaseWritable), media: word(isMediaWritable), engines, ...difference };
  };
  const alive: Route = {
    isRoutine: true,
    operationId: "alive",
    summary: "Whether the process responds",
    description: "Checks nothing else, such as the database.",
    responses: { 200: reply("It responds", aliveSchema, { status: "ok" }) },
    handle: (c) => answer(c, { status: "ok" }),
  };
  const ready: Route = {
    isRoutine: true,
    operationId: "ready",
    summary: "Whether the service can do its work",
    description: "Checks the database, the storage of the videos and the engines; a reply may be some seconds old.",
    responses: {
      200: reply("Ready", readinessSchema, { status: "ok", database: "ok", media: "ok", engines: "ok" }),
      503: { ...reply("Not ready", readinessSchema), headers: retryAfterHeader },
    },
    handle: async (c) => answer(c, await describe()),
  };
  return {
    paths: { "/healthz": { GET: alive, HEAD: alive }, "/readyz": { GET: ready, HEAD: ready } },
    readiness: check,
    stop() {
      isStopping = true;
    },
  };
}

function word(isOk: boolean): "ok" | "unavailable" {
  return isOk ? "ok" : "unavailable";
}

function answer(c: ApiContext, body: { status: string }): Response {
  const headers = { "Cache-Control": "no-store" };
  return body.status === "ok" ? c.json(body, 200, headers) : c.json(body, 503, { ...headers, ...retryAfter });
}
