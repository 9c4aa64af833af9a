import { checkEngines, type EngineCheck } from "../engines/check.ts";
import type { Queue } from "../queue/queue.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { OwnerRoute } from "./openapi/operation.ts";

export type EnginesOptions = Pick<ServiceParts, "engines" | "clock"> & {
  queue: Pick<Queue, "outageOf" | "retiredEngines">;
};

/**
 * GET /engines, for `doctor`: each engine with its `models`, its `kind` or the `error` why it cannot be used now, since when and why it accepts no
 * generations, and, if it is no longer used, how many generations are finished there. Each has 10 seconds to respond.
 */
export function createEnginesRoute({ engines, queue, clock }: EnginesOptions): OwnerRoute {
  return {
    async handle(c) {
      // The engines may have changed when the checks are done.
      const used = [...engines];
      const checks = await checkEngines(used, clock, c.req.raw.signal);
      const outages = used.map(queue.outageOf);
      const withOutage = (check: EngineCheck, index: number) => {
        const { since, reason } = outages[index] ?? {};
        return { ...check, out_since: since?.toISOString() ?? null, out_reason: reason ?? null, draining: null };
      };
      const retired = (await queue.retiredEngines()).map(({ engine, count, reason }) => {
        return { engine, models: [], kind: null, error: reason, out_since: null, out_reason: null, draining: count };
      });
      return c.json({ engines: [...checks.map(withOutage), ...retired] });
    },
  };
}
