import * as z from "zod";
import { VidgenError } from "../../errors.ts";
import { refuse } from "../http/message.ts";
import { named, type Route, refusal, reply } from "./openapi/operation.ts";

const reloadedSchema = named("Reloaded", {
  engines: z.array(z.string()).meta({ description: "The engines that are used now." }),
  added: z.array(z.string()),
  draining: z.array(z.string()).meta({
    description: "Engines that the file no longer names. They finish what was submitted to them.",
  }),
  restart: z.array(z.string()).meta({ description: "Changed fields that take effect after a restart." }),
});

/** The result of reading the owner's file again. */
export type Reloaded = z.infer<typeof reloadedSchema>;

export type ReloadOptions = { reload?: (() => Promise<Reloaded>) | undefined };

/** POST /admin/reload: what SIGHUP does, with a reply. */
export function createReloadRoute({ reload }: ReloadOptions): Route {
  return {
    operationId: "reload",
    summary: "Reads the file of --config again",
    description:
      "A new engine is used immediately, a changed number of jobs takes effect immediately, and an engine that is no longer in the file finishes what was submitted to it. Only this process reads its file. SIGHUP does the same.",
    responses: {
      200: reply("What has changed", reloadedSchema, {
        engines: ["http://gpu-2:8091"],
        added: ["http://gpu-2:8091"],
        draining: ["http://gpu-1:8091"],
        restart: [],
      }),
      ...refusal(409, "no_config", "vidgen serve has no --config"),
      ...refusal(422, "invalid_config", "serve.json: engines[3].jobs must be a whole number from 1 to 1000"),
    },
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
