import { Hono, type MiddlewareHandler, type Handler as Route } from "hono";
import type { Clock } from "../../io.ts";
import { checkEngines, type EngineCheck } from "../engines/check.ts";
import type { Engine } from "../engines/engine.ts";
import type { Queue } from "../jobs/queue.ts";
import type { Store } from "../store/store.ts";
import type { OnTrouble } from "../trouble.ts";
import { createAccountRoute, createRevokeRoute, hashKey, requireOwner } from "./accounts.ts";
import { type CancelOptions, createCancelRoute } from "./cancel.ts";
import { type ApiEnv, errorResponse, type Handler, refuse } from "./message.ts";
import { findOwnGeneration } from "./own-generation.ts";
import { createStartRoute, type StartOptions } from "./start.ts";
import { statusBody } from "./status-body.ts";

export type AppOptions = StartOptions &
  CancelOptions & {
    store: Store;
    queue: Pick<Queue, "resume" | "progressOf" | "outageOf">;
    engines: readonly Engine[];
    clock: Pick<Clock, "date" | "limit">;
    /** Signs the callbacks of the local account; those of others have one that comes from it. */
    webhookSecret: string;
    /** What is served beside the API at its address: its health, and the page. */
    beside?: readonly Hono<ApiEnv>[];
    mediaUrl(): string;
    onTrouble: OnTrouble;
  };

/**
 * Returns the API: both endpoints of the interface (section 4), /api/cancel, and those of the local service's own for its owner, /accounts for
 * `serve --key-for`, /accounts/revoke for `serve --revoke`, and /engines for `doctor`.
 */
export function createApp(options: AppOptions): Handler {
  const app = new Hono<ApiEnv>();
  const requireKey = createKeyCheck(options.store);
  app.all("/api/generate", allow("POST"), requireKey, createStartRoute(options));
  app.all("/api/generation-status", allow("GET"), requireKey, createStatusRoute(options));
  app.all("/api/cancel", allow("POST"), requireKey, createCancelRoute(options));
  app.all("/accounts", allow("POST"), requireKey, requireOwner, createAccountRoute(options));
  app.all("/accounts/revoke", allow("POST"), requireKey, requireOwner, createRevokeRoute(options.store));
  app.all("/engines", allow("GET"), requireKey, requireOwner, createEnginesRoute(options));
  for (const routes of options.beside ?? []) app.route("/", routes);
  app.notFound((c) => errorResponse(refuse(404, "not_found", `no such path: ${c.req.path}`)));
  app.onError((error) => errorResponse(error, options.onTrouble));
  return async (request, bindings = {}) => app.fetch(request, bindings);
}

/** By itself hono answers other methods with 404, and HEAD like GET. */
function allow(method: string): MiddlewareHandler<ApiEnv> {
  return (c, next) => {
    if (c.req.method === method) return next();
    throw refuse(405, "method_not_allowed", `${c.req.path} accepts only ${method}`, { Allow: method });
  };
}

/** Interface section 5: `Authorization: Bearer <API_KEY>`. */
function createKeyCheck(store: Pick<Store, "account">): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const key = /^Bearer +(\S+)$/i.exec(c.req.header("Authorization") ?? "")?.[1];
    const account = key === undefined ? undefined : await store.account(hashKey(key));
    if (account === undefined) {
      const message = key === undefined ? "an API key is required: Authorization: Bearer <API_KEY>" : "unknown API key";
      throw refuse(401, "unauthorized", message, { "WWW-Authenticate": "Bearer" });
    }
    c.set("account", account);
    await next();
  };
}

/** GET /api/generation-status (interface 4.2). Polling re-queues a generation that a previous process left unfinished. `progress`, in percent, is an addition. */
function createStatusRoute({ store, queue, mediaUrl }: AppOptions): Route<ApiEnv> {
  return async (c) => {
    const generation = await findOwnGeneration(c, store);
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
