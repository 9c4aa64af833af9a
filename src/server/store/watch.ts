import type { Clock } from "../../io.ts";
import type { ReportProblem } from "../observe/problem.ts";
import type { Store } from "./store.ts";

const slowMs = 1_000;
const reportMs = 60_000;

/**
 * Wraps a store, and reports calls that take longer than a second to the operator, at most once a minute for each method. Other requests may have
 * waited for the call.
 */
export function watchStore(
  store: Store,
  { clock, reportProblem }: { clock: Pick<Clock, "now">; reportProblem: ReportProblem },
): Store {
  const reportedAt = new Map<string, number>();
  const watch = (name: string, method: (...values: unknown[]) => unknown) => {
    return (...values: unknown[]) => {
      const begin = clock.now();
      const end = () => {
        const ms = clock.now() - begin;
        if (ms < slowMs || clock.now() - (reportedAt.get(name) ?? Number.NEGATIVE_INFINITY) < reportMs) return;
        reportedAt.set(name, clock.now());
        reportProblem("The database is slow", `${name} took ${(ms / 1_000).toFixed(1)} s`);
      };
      const result = method(...values);
      if (result instanceof Promise) result.then(end, end);
      return result;
    };
  };
  const entries = Object.entries(store).map(([name, value]) => {
    // A backup takes long on purpose, and no other request waits for it.
    const isWatched = typeof value === "function" && name !== "backup" && name !== "close";
    return [name, isWatched ? watch(name, value as (...values: unknown[]) => unknown) : value];
  });
  return Object.fromEntries(entries);
}
