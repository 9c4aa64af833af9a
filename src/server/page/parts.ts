import type { Hono, MiddlewareHandler } from "hono";
import type { Child } from "hono/jsx";
import type { Clock } from "../../io.ts";
import type { CancelOptions } from "../api/cancel.ts";
import type { PriceOptions } from "../api/price.ts";
import type { StartRoutes } from "../api/start.ts";
import type { SignedHeaders } from "../callbacks/signature.ts";
import type { ApiEnv } from "../http/message.ts";
import type { MediaStore } from "../media/media-store.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { ReportProblem } from "../observe/problem.ts";
import type { Queue } from "../queue/queue.ts";
import type { Store } from "../store/store.ts";
import type { Changes } from "./events.ts";
import type { Sessions } from "./session.ts";
import type { PageContext } from "./visitor.ts";

export type PageOptions = Omit<PriceOptions, "engines"> &
  CancelOptions & {
    store: Store;
    queue: Pick<Queue, "progressOf" | "outageOf" | "retiredEngines" | "waitingGenerations">;
    /** Creates the route that starts a generation, by the same rules as for other clients. */
    startBy: StartRoutes;
    /** The metrics of this process, if it has any. */
    metrics?: Pick<Metrics, "counts"> | undefined;
    videos: MediaStore;
    sign: Sign;
    changes: Changes;
    /** The sign-in with the current secret. */
    sessions(): Promise<Sessions>;
    clock: Clock;
    reportProblem: ReportProblem;
    /** The URL of the page in browsers, if a proxy changes it. */
    publicUrl?: string | undefined;
    /** The program's name in commands; "vidgen" by default. */
    program?: string | undefined;
    /** The folder of page.js, page.css and icon.svg. */
    assets?: URL;
  };

/** Returns the signed headers of an attempt. */
export type Sign = (message: { id: string; account: string; body: string }, date: Date) => SignedHeaders;

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
