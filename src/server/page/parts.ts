import type { Hono, MiddlewareHandler } from "hono";
import type { Child } from "hono/jsx";
import type { Clock } from "../../io.ts";
import type { PriceOptions } from "../api/price.ts";
import type { StartRoutes } from "../api/start.ts";
import type { Engine } from "../engines/engine.ts";
import type { ApiEnv } from "../http/message.ts";
import type { MediaStore } from "../media/media-store.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { ReportProblem } from "../observe/problem.ts";
import type { Queue } from "../queue/queue.ts";
import type { Store } from "../store/store.ts";
import type { Sign } from "./callbacks.tsx";
import type { Changes } from "./events.ts";
import type { Sessions } from "./session.ts";
import type { PageContext } from "./visitor.ts";

export type PageOptions = Omit<PriceOptions, "engines"> & {
  store: Store;
  queue: Pick<Queue, "progressOf" | "outageOf" | "retired" | "waiting">;
  engines: readonly Engine[];
  /** Makes the route that starts a generation: the page has no other way to start one than clients have. */
  startBy: StartRoutes;
  /** What this process has counted, where it counts. */
  metrics?: Pick<Metrics, "counts"> | undefined;
  videos: MediaStore;
  sign: Sign;
  changes: Changes;
  /** The sign-in with the secret that counts now. */
  sessions(): Promise<Sessions>;
  clock: Clock;
  reportProblem: ReportProblem;
  /** The address under which browsers reach it, where that is not what they ask for: behind a proxy. */
  publicUrl?: string | undefined;
  /** How vidgen is called in commands to type; "vidgen" unless given. */
  program?: string | undefined;
  /** The folder of page.js, page.css and icon.svg. */
  assets?: URL;
};

/** Answers with a page as a whole document. */
export type Send = (
  c: PageContext,
  page: Child,
  status?: 200 | 400 | 401 | 403 | 404 | 503,
  added?: Record<string, string>,
) => Promise<Response>;

/** What each view of the page adds its routes to, and needs for them. */
export type PageParts = {
  app: Hono<ApiEnv>;
  options: PageOptions;
  send: Send;
  /** Lets nobody pass who is not signed in; for routes that only show. */
  signedIn: MiddlewareHandler<ApiEnv>;
  /** Lets only the page itself pass, for somebody who is signed in; for routes that change something. */
  fromPage: readonly [MiddlewareHandler<ApiEnv>, MiddlewareHandler<ApiEnv>];
};
