import { setMaxListeners } from "node:events";
import { unlessAborted } from "../../abort.ts";
import type { Clock } from "../../io.ts";

/** Short, because load balancers and Prometheus do not wait long. */
const limitMs = 3_000;

/** Returns a function that resolves with whether the check passes in time. Calls within `ms` share one check. */
export function createCheck(
  ms: number,
  clock: Pick<Clock, "now" | "limit">,
  check: (signal: AbortSignal) => Promise<unknown>,
): () => Promise<boolean> {
  const run = async () => {
    const end = new AbortController();
    const limit = clock.limit(limitMs, end.signal, new Error("no response in time"));
    // With many engines, Node would warn of a leak.
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
