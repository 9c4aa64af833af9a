import { setMaxListeners } from "node:events";
import { Hono } from "hono";
import { unlessAborted } from "../../client/http/http.ts";
import type { Clock } from "../../io.ts";
import type { Engine } from "../engines/engine.ts";
import type { MediaStore } from "../media/media-store.ts";
import type { Store } from "../store/store.ts";
import { type ApiContext, type ApiEnv, refuse, retryAfter } from "./message.ts";

export type HealthOptions = {
  store: Pick<Store, "check">;
  videos: Pick<MediaStore, "check">;
  engines: readonly Engine[];
  clock: Pick<Clock, "now" | "limit">;
};

export type Health = {
  routes: Hono<ApiEnv>;
  /** From now on the service is not ready. */
  stop(): void;
};

/**
 * Creates the answers for load balancers, which take no key and reveal no address: /healthz, whether the process answers, and /readyz, whether
 * it can do its work. A process that makes no videos does not ask its engines.
 */
export function createHealth({ store, videos, engines, clock }: HealthOptions): Health {
  const used = engines.filter(({ concurrency }) => concurrency > 0);
  const database = createCheck(1_000, clock, store.check);
  // It writes, which costs money at an S3 store.
  const media = createCheck(15_000, clock, videos.check);
  const anyEngine = createCheck(5_000, clock, (signal) => Promise.any(used.map(({ check }) => check(signal))));
  let isStopping = false;
  const look = async () => {
    const [isStored, isKept, isMade] = await Promise.all([database(), media(), used.length === 0 || anyEngine()]);
    const isReady = isStored && isKept && isMade;
    const status = isStopping ? "stopping" : word(isReady);
    const made = used.length === 0 ? "unused" : word(isMade);
    return { status, database: word(isStored), media: word(isKept), engines: made };
  };
  const routes = new Hono<ApiEnv>();
  routes.all("/healthz", (c) => answer(c, { status: "ok" }));
  routes.all("/readyz", async (c) => answer(c, await look()));
  return {
    routes,
    stop() {
      isStopping = true;
    },
  };
}

function word(isOk: boolean): "ok" | "unavailable" {
  return isOk ? "ok" : "unavailable";
}

function answer(c: ApiContext, body: { status: string }): Response {
  const { method, path } = c.req;
  if (c.env.log) c.env.log.isRoutine = true;
  if (method !== "GET" && method !== "HEAD")
    throw refuse(405, "method_not_allowed", `${path} accepts only GET and HEAD`, { Allow: "GET, HEAD" });
  const headers = { "Cache-Control": "no-store" };
  return body.status === "ok" ? c.json(body, 200, headers) : c.json(body, 503, { ...headers, ...retryAfter });
}

/** A load balancer has less patience than those who wait for a video. */
const limitMs = 3_000;

/** Returns whether a check passes in time. All who ask within `ms` share one check. */
export function createCheck(
  ms: number,
  clock: Pick<Clock, "now" | "limit">,
  check: (signal: AbortSignal) => Promise<unknown>,
): () => Promise<boolean> {
  const run = async () => {
    const end = new AbortController();
    const limit = clock.limit(limitMs, end.signal, new Error("no response in time"));
    // Node would warn of a leak when there are many engines.
    setMaxListeners(0, limit.signal);
    try {
      await unlessAborted(check(limit.signal), limit.signal);
      return true;
    } catch {
      return false;
    } finally {
      end.abort();
      limit.clear();
    }
  };
  let last: { at: number; passes: Promise<boolean> } | undefined;
  return () => {
    const now = clock.now();
    if (!last || now - last.at >= ms) last = { at: now, passes: run() };
    return last.passes;
  };
}
