import { createReadStream } from "node:fs";
import { VidgenError } from "../../errors.ts";
import { checkEngines, type EngineCheck } from "../engines/check.ts";
import { refuse, streamResponse } from "../http/message.ts";
import { isUnavailable } from "../observe/problem.ts";
import type { Queue } from "../queue/queue.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { Store } from "../store/store.ts";
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

/** POST /backup: a consistent copy of the embedded database, for the service's owner. */
export function createBackupRoute({ backup }: Pick<Store, "backup">): OwnerRoute {
  return {
    async handle(c) {
      if (!backup) throw refuse(409, "not_embedded", "this service uses its own PostgreSQL database: use pg_dump");
      const { size, fd } = await backup().catch((error) => {
        if (!isUnavailable(error)) throw error;
        throw refuse(503, "unavailable", `the running service could not copy its database: ${error.message}`);
      });
      const headers = { "Content-Type": "application/vnd.sqlite3", "Content-Length": String(size) };
      return streamResponse(createReadStream("", { fd }), { status: 200, headers }, c.env.outgoing);
    },
  };
}

/** POST /admin/reload: what SIGHUP does, with a reply. Only this process reads its file. */
export function createReloadRoute({ reload }: Pick<ServiceParts, "reload">): OwnerRoute {
  return {
    async handle(c) {
      if (!reload) throw refuse(409, "no_config", "vidgen serve has no --config");
      const reloaded = await reload().catch((error) => {
        if (!(error instanceof VidgenError)) throw error;
        throw refuse(422, "invalid_config", error.message.replace(/\.$/, ""));
      });
      return c.json(reloaded);
    },
  };
}
