import { Hono, type MiddlewareHandler, type Handler as Route } from "hono";
import { HTTPException } from "hono/http-exception";
import type { Clock } from "../../io.ts";
import { createBackupRoute } from "../backup.ts";
import { checkEngines, type EngineCheck } from "../engines/check.ts";
import type { Engine } from "../engines/engine.ts";
import type { Queue } from "../jobs/queue.ts";
import type { Metrics } from "../metrics.ts";
import type { Keep } from "../retention.ts";
import type { Store } from "../store/store.ts";
import type { OnTrouble } from "../trouble.ts";
import { createCreditsRoute, createLimitsRoute, createRotateRoute } from "./account-changes.ts";
import { createAccountRoute, createRevokeRoute, hashKey, requireOwner } from "./accounts.ts";
import { type CancelOptions, createCancelRoute } from "./cancel.ts";
import { type ApiEnv, errorResponse, type Handler, refuse } from "./message.ts";
import { createOpenapiRoute, type OpenapiOptions } from "./openapi/openapi.ts";
import { findOwnGeneration } from "./own-generation.ts";
import { createStartRoutes, generateFormat, type StartOptions, type StartRoutes } from "./start.ts";
import { statusBody } from "./status-body.ts";
import { createModels, createVideos, notOffered, refuseNotOffered, type VideoOptions } from "./videos.ts";

export type AppOptions = StartOptions &
  CancelOptions &
  VideoOptions &
  OpenapiOptions & {
    store: Store;
    queue: Pick<Queue, "resume" | "progressOf" | "outageOf">;
    engines: readonly Engine[];
    clock: Pick<Clock, "date" | "limit">;
    /** Signs the callbacks of the local account; those of others have one that comes from it. */
    webhookSecret: string;
    /** What is counted; without it, there is no /metrics. */
    metrics?: Pick<Metrics, "read"> | undefined;
    /** What is served beside the API at its address: its health, and the page. */
    beside?(startBy: StartRoutes): readonly Hono<ApiEnv>[];
    mediaUrl(): string;
    onTrouble: OnTrouble;
    /** How long records are kept, and idempotency keys with them. */
    keep?: Keep | undefined;
  };

/** Returns the API as a function that never rejects. */
export function createApp(options: AppOptions): Handler {
  const app = createRoutes(options);
  return async (request, bindings = {}) => app.fetch(request, bindings);
}

/**
 * Returns the routes of the API: both endpoints of the interface (section 4), /api/cancel, /v1/videos, and those of the local service's own for its
 * owner, /accounts and what is below it, for `vidgen accounts`, /engines for `doctor`, and /metrics for Prometheus. All are described at /openapi.json.
 */
export function createRoutes(options: AppOptions): Hono<ApiEnv> {
  const app = new Hono<ApiEnv>();
  const requireKey = createKeyCheck(options);
  const startBy = createStartRoutes(options);
  const videos = createVideos(options);
  const models = createModels(options);
  app.all("/api/generate", allow("POST"), requireKey, startBy(generateFormat));
  app.all("/api/generation-status", allow("GET"), requireKey, createStatusRoute(options));
  app.all("/api/cancel", allow("POST"), requireKey, createCancelRoute(options));
  app.all("/v1/models", allow("GET"), requireKey, models.list);
  app.all("/v1/models/:id", allow("GET"), requireKey, models.show);
  app.all("/v1/videos", allow("GET", "POST"), requireKey);
  app.get("/v1/videos", videos.list).post(startBy(videos.format));
  for (const path of notOffered) app.all(`/v1/videos/${path}`, refuseNotOffered);
  app.all("/v1/videos/:id", allow("GET", "DELETE"), requireKey);
  app.get("/v1/videos/:id", videos.show).delete(videos.remove);
  app.all("/v1/videos/:id/content", allow("GET", "HEAD"), requireKey, videos.content);
  app.all("/accounts", allow("GET", "POST"), requireKey, requireOwner, createAccountRoute(options));
  app.all("/accounts/credits", allow("POST"), requireKey, requireOwner, createCreditsRoute(options.store));
  app.all("/accounts/limits", allow("POST"), requireKey, requireOwner, createLimitsRoute(options.store));
  app.all("/accounts/rotate", allow("POST"), requireKey, requireOwner, createRotateRoute(options));
  app.all("/accounts/revoke", allow("POST"), requireKey, requireOwner, createRevokeRoute(options.store));
  app.all("/backup", allow("POST"), requireKey, requireOwner, createBackupRoute(options.store));
  app.all("/engines", allow("GET"), requireKey, requireOwner, createEnginesRoute(options));
  if (options.metrics) app.all("/metrics", allow("GET"), requireKey, requireOwner, createMetricsRoute(options.metrics));
  app.all("/openapi.json", allow("GET"), createOpenapiRoute(options));
  for (const routes of options.beside?.(startBy) ?? []) app.route("/", routes);
  app.notFound((c) => errorResponse(refuse(404, "not_found", `no such path: ${c.req.path}`)));
  app.onError((error) => errorResponse(error, options.onTrouble));
  return app;
}

/** Returns what answers /metrics without a key, at an address of its own. */
export function createMetricsApp(metrics: Pick<Metrics, "read">, onTrouble: OnTrouble): Handler {
  const app = new Hono<ApiEnv>();
  app.all("/metrics", allow("GET"), createMetricsRoute(metrics));
  app.notFound((c) =>
    errorResponse(refuse(404, "not_found", `no such path: ${c.req.path}; the metrics are at /metrics`)),
  );
  app.onError((error) => errorResponse(error, onTrouble));
  return async (request, bindings = {}) => app.fetch(request, bindings);
}

function createMetricsRoute({ read }: Pick<Metrics, "read">): Route<ApiEnv> {
  return async (c) => {
    if (c.env.log) c.env.log.isRoutine = true;
    const { text, contentType } = await read();
    return c.body(text, 200, { "Content-Type": contentType, "Cache-Control": "no-store" });
  };
}

/** By itself hono answers other methods with 404, and HEAD like GET. */
function allow(...methods: string[]): MiddlewareHandler<ApiEnv> {
  return (c, next) => {
    if (methods.includes(c.req.method)) return next();
    const message = `${c.req.path} accepts only ${methods.join(" and ")}`;
    throw refuse(405, "method_not_allowed", message, { Allow: methods.join(", ") });
  };
}

/** A hundred years. */
const forEverMs = 100 * 31_536_000_000;

/**
 * Interface section 5: `Authorization: Bearer <API_KEY>`. Each reply says for how many seconds a start that comes again with its Idempotency-Key
 * is the same start.
 */
function createKeyCheck({ store, keep }: Pick<AppOptions, "store" | "keep">): MiddlewareHandler<ApiEnv> {
  const lifetime = String(Math.floor((keep?.recordsMs ?? forEverMs) / 1_000));
  return async (c, next) => {
    const key = /^Bearer +(\S+)$/i.exec(c.req.header("Authorization") ?? "")?.[1];
    const account = key === undefined ? undefined : await store.account(hashKey(key));
    if (account === undefined) {
      const message = key === undefined ? "an API key is required: Authorization: Bearer <API_KEY>" : "unknown API key";
      throw refuse(401, "unauthorized", message, { "WWW-Authenticate": "Bearer" });
    }
    c.set("account", account);
    if (c.env.log) c.env.log.account = account;
    await next();
    c.res.headers.set("Idempotency-Key-Lifetime", lifetime);
  };
}

/** GET /api/generation-status (interface 4.2). With 404 the header Remaining-Credits has the balance. Polling re-queues a generation that a previous process left unfinished. `progress`, in percent, is an addition. */
function createStatusRoute({ store, queue, mediaUrl }: AppOptions): Route<ApiEnv> {
  return async (c) => {
    const generation = await findOwnGeneration(c, store).catch(async (error) => {
      // A client checks its key by the status of an id that does not exist.
      if (error instanceof HTTPException && error.status === 404)
        error.res?.headers.set("Remaining-Credits", String(await store.balance(c.var.account)));
      throw error;
    });
    if (generation.status === "processing") queue.resume(generation.id);
    const body = statusBody(generation, mediaUrl());
    const progress = body.status === "processing" ? queue.progressOf(generation.id) : undefined;
    return c.json(progress === undefined ? body : { ...body, progress });
  };
}

/** GET /engines: the engines, whether each can be used now, and since when (ISO 8601) and why it takes no generations. */
function createEnginesRoute({ engines, queue, clock }: AppOptions): Route<ApiEnv> {
  return async (c) => {
    const checks = await checkEngines(engines, clock, c.req.raw.signal);
    const outages = engines.map(queue.outageOf);
    const withOutage = (check: EngineCheck, index: number) => {
      const { since, reason } = outages[index] ?? {};
      return { ...check, out_since: since?.toISOString() ?? null, out_reason: reason ?? null };
    };
    return c.json({ engines: checks.map(withOutage) });
  };
}
