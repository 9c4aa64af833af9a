import type { Hono, MiddlewareHandler } from "hono";
import type { Child } from "hono/jsx";
import type { CancelOptions } from "../api/cancel.ts";
import type { PriceOptions } from "../api/price.ts";
import type { StartRoutes } from "../api/start.ts";
import type { Signer } from "../callbacks/signature.ts";
import type { ApiEnv } from "../http/message.ts";
import type { Queue } from "../queue/queue.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { Changes } from "./events.ts";
import type { Sessions } from "./session.ts";
import type { PageContext } from "./visitor.ts";

export type PageOptions = PriceOptions &
  CancelOptions &
  Pick<ServiceParts, "reportProblem" | "publicUrl" | "program" | "assets" | "counts"> & {
    queue: Pick<Queue, "progressOf" | "outageOf" | "retiredEngines" | "waitingGenerations">;
    /** Creates the route that starts a generation, by the same rules as for other clients. */
    startBy: StartRoutes;
    sign: Signer;
    changes: Changes;
    /** The sign-in with the current secret. */
    sessions(): Promise<Sessions>;
  };

/** Sends a page as a whole document. */
export type Send = (
  c: PageContext,
  page: Child,
  status?: 200 | 400 | 401 | 403 | 404 | 503,
  added?: Record<string, string>,
) => Promise<Response>;

/** The app to which each view adds its routes, and what the routes need. */
export type PageParts = {
  app: Hono<ApiEnv>;
  options: PageOptions;
  send: Send;
  /** Requires a session; for routes that only read. */
  signedIn: MiddlewareHandler<ApiEnv>;
  /** Requires a session and a request from the page itself; for routes that change something. */
  fromPage: readonly [MiddlewareHandler<ApiEnv>, MiddlewareHandler<ApiEnv>];
};
