import * as z from "zod";
import type { Clock } from "../../io.ts";
import { checkEngines, type EngineCheck } from "../engines/check.ts";
import type { Engine } from "../engines/engine.ts";
import type { Queue } from "../queue/queue.ts";
import { named, type Route, reply, time } from "./openapi/operation.ts";

const enginesSchema = named("Engines", {
  engines: z.array(
    z.object({
      engine: z.string(),
      models: z.array(z.string()),
      kind: z.string().nullable(),
      error: z.string().nullable().meta({ description: "Why the engine cannot be used now." }),
      out_since: time.nullable().meta({ description: "Since when the engine accepts no generations." }),
      out_reason: z.string().nullable(),
      draining: z.number().nullable().meta({
        description:
          "For an engine that is no longer used: how many unfinished generations were submitted to it. They finish there; with `error`, they wait for the engine.",
      }),
    }),
  ),
});

export type EnginesOptions = {
  engines: readonly Engine[];
  queue: Pick<Queue, "outageOf" | "retiredEngines">;
  clock: Pick<Clock, "limit">;
};

/** GET /engines, for `doctor`. */
export function createEnginesRoute({ engines, queue, clock }: EnginesOptions): Route {
  return {
    operationId: "engines",
    summary: "Checks the engines",
    description: "Each engine has 10 seconds to respond. A check costs nothing.",
    responses: { 200: reply("Each engine", enginesSchema) },
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
