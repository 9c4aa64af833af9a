import { Hono, type MiddlewareHandler } from "hono";
import { localAccount } from "../announcement.ts";
import { type ApiContext, type ApiEnv, errorResponse, type Handler, refuse } from "../http/message.ts";
import type { ReportProblem } from "../observe/problem.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { Store } from "../store/store.ts";
import { type AccountOptions, createAccountRoutes } from "./account-routes.ts";
import { findAccount, hashKey, refuseKey, requireOwner } from "./accounts.ts";
import { createCancelRoute } from "./cancel.ts";
import { createModels } from "./models.ts";
import { createOpenapiRoute } from "./openapi/openapi.ts";
import type { OwnerPaths, OwnerRoute, Paths, Routes } from "./openapi/operation.ts";
import { createBackupRoute, createEnginesRoute, createReloadRoute, type EnginesOptions } from "./owner-routes.ts";
import type { PriceOptions } from "./price.ts";
import { generateFormat, type StartRoutes, startOperation } from "./start.ts";
import { createStatusRoute, type StatusOptions } from "./status.ts";
import { createVideos, notOffered, refuseNotOffered, type VideoOptions } from "./videos.ts";

export type AppOptions = StatusOptions &
  PriceOptions &
  VideoOptions &
  EnginesOptions &
  AccountOptions &
  Pick<ServiceParts, "reload" | "publicUrl" | "reportProblem" | "keep"> & {
    store: Store;
    /** Creates the routes that start a generation. */
    startBy: StartRoutes;
    /** Without this function, there is no /metrics. */
    readMetrics?: ReadMetrics | undefined;
    /** The routes for health checks. */
    health?: Paths;
    /** Other routes at the address of the API. */
    page?: Hono<ApiEnv> | undefined;
  };

/** Returns the API as a function that never rejects. */
export function createApp(options: AppOptions): Handler {
  return toHandler(createRoutes(options));
}

/** Returns the server of the API. */
export function createRoutes(options: AppOptions): Hono<ApiEnv> {
  const app = createLogged();
  const requireKey = createKeyCheck(options);
  const { startBy, readMetrics, page } = options;
  const routes: Routes = {
    generations: {
      "/api/generate": { POST: { ...startOperation, handle: startBy(generateFormat) } },
      "/api/generation-status": { GET: createStatusRoute(options) },
      "/api/cancel": { POST: createCancelRoute(options) },
    },
    videos: { ...createVideos(options, startBy), ...createModels(options) },
    service: { ...options.health, "/openapi.json": { GET: createOpenapiRoute(options, () => routes) } },
  };
  // Before /v1/videos/:id, which would take them for ids.
  for (const path of notOffered) app.all(`/v1/videos/${path}`, refuseNotOffered);
  addRoutes(app, { ...routes.generations, ...routes.videos }, [requireKey]);
  addRoutes(app, routes.service, []);
  const ownerPaths = {
    ...createAccountRoutes(options),
    "/backup": { POST: createBackupRoute(options.store) },
    "/engines": { GET: createEnginesRoute(options) },
    "/admin/reload": { POST: createReloadRoute(options) },
    ...(readMetrics && { "/metrics": { GET: createMetricsRoute(readMetrics) } }),
  };
  addRoutes(app, ownerPaths, [requireKey, requireOwner]);
  if (page) app.route("/", page);
  app.notFound((c) => errorResponse(refuse(404, "not_found", `no such path: ${c.req.path}`)));
  app.onError((error) => errorResponse(error, options.reportProblem));
  return app;
}

function toHandler(app: Hono<ApiEnv>): Handler {
  return async (request, bindings = {}) => app.fetch(request, bindings);
}

function addRoutes(app: Hono<ApiEnv>, paths: OwnerPaths, access: MiddlewareHandler<ApiEnv>[]): void {
  for (const [path, methods] of Object.entries(paths)) {
    app.all(path, setRoute(path), allow(...Object.keys(methods)), ...access);
    for (const [method, route] of Object.entries(methods)) app.on(method, path, answer(route));
  }
}

/** Returns the routes of the accounts alone, for a command that has the database and so needs no key. */
export function createAccountsApp(options: AccountOptions): Handler {
  const app = createLogged();
  const asOwner: MiddlewareHandler<ApiEnv> = (c, next) => {
    c.set("account", localAccount);
    return next();
  };
  addRoutes(app, createAccountRoutes(options), [asOwner]);
  app.onError((error) => errorResponse(error));
  return toHandler(app);
}

/** Resolves with all metrics in the text format of Prometheus, and its media type. */
type ReadMetrics = () => Promise<{ text: string; contentType: string }>;

/** Creates a server of /metrics at its own address, without a key. */
export function createMetricsApp(readMetrics: ReadMetrics, reportProblem: ReportProblem): Handler {
  const app = createLogged();
  app.all("/metrics", setRoute("/metrics"), allow("GET"), answer(createMetricsRoute(readMetrics)));
  app.notFound((c) =>
    errorResponse(refuse(404, "not_found", `no such path: ${c.req.path}; the metrics are at /metrics`)),
  );
  app.onError((error) => errorResponse(error, reportProblem));
  return toHandler(app);
}

/** GET /metrics, in the text format of Prometheus. */
function createMetricsRoute(readMetrics: ReadMetrics): OwnerRoute {
  return {
    isRoutine: true,
    async handle(c) {
      const { text, contentType } = await readMetrics();
      return c.body(text, 200, { "Content-Type": contentType, "Cache-Control": "no-store" });
    },
  };
}

/** Creates a server whose log reads from the context what each request is about. */
function createLogged(): Hono<ApiEnv> {
  const app = new Hono<ApiEnv>();
  app.use((c, next) => {
    if (c.env.log) c.env.log.about = () => c.var;
    return next();
  });
  return app;
}

function answer({ isRoutine = false, handle }: OwnerRoute) {
  return (c: ApiContext) => {
    c.set("isRoutine", isRoutine);
    return handle(c);
  };
}

function setRoute(path: string): MiddlewareHandler<ApiEnv> {
  return (c, next) => {
    c.set("route", path);
    return next();
  };
}

/** Refuses other methods with 405. By default, hono answers them with 404, and HEAD like GET. */
function allow(...methods: string[]): MiddlewareHandler<ApiEnv> {
  return (c, next) => {
    if (methods.includes(c.req.method)) return next();
    const message = `${c.req.path} accepts only ${methods.join(" and ")}`;
    throw refuse(405, "method_not_allowed", message, { Allow: methods.join(", ") });
  };
}

const hundredYearsMs = 100 * 31_536_000_000;

/**
 * Requires `Authorization: Bearer <API_KEY>`. Each reply says for how many seconds a start that is repeated with its Idempotency-Key is the same
 * start. A restored copy does not contain the keys used between the copy and the restore, so after a restore this time counts from the restore.
 */
function createKeyCheck({
  store,
  keep,
  clock,
  reportProblem,
}: Pick<AppOptions, "store" | "keep" | "clock" | "reportProblem">): MiddlewareHandler<ApiEnv> {
  const keptMs = keep?.recordsMs ?? hundredYearsMs;
  const readLifetime = async () => {
    const restored = (await store.provenance?.read())?.restoredAt ?? null;
    const sinceMs = restored === null ? keptMs : Math.max(0, clock.date().getTime() - Date.parse(restored));
    return String(Math.floor(Math.min(keptMs, sinceMs) / 1_000));
  };
  return async (c, next) => {
    const key = /^Bearer +(\S+)$/i.exec(c.req.header("Authorization") ?? "")?.[1];
    const account = key === undefined ? undefined : await findAccount(store, key);
    if (key === undefined)
      throw refuse(401, "unauthorized", "an API key is required: Authorization: Bearer <API_KEY>", {
        "WWW-Authenticate": "Bearer",
      });
    if (account === undefined) throw await refuseKey(store, key);
    store.recordKeyUse(hashKey(key), clock.date());
    c.set("account", account);
    // Read before the start is charged: nothing that can fail may come between the charge and its reply.
    const lifetime = await readLifetime().catch((error) => {
      // Without the header, a client does not send a start again.
      reportProblem("The database's history could not be read", error);
    });
    await next();
    if (lifetime !== undefined) c.res.headers.set("Idempotency-Key-Lifetime", lifetime);
  };
}
