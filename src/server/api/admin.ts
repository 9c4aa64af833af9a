import { VidgenError } from "../../errors.ts";
import { refuse } from "../http/message.ts";
import type { OwnerRoute } from "./openapi/operation.ts";

/**
 * The result of reading the owner's file again: the engines that are used now, the new ones, those that only finish what was submitted to them, and the
 * changed fields that take effect after a restart.
 */
export type Reloaded = Record<"engines" | "added" | "draining" | "restart", string[]>;

export type ReloadOptions = { reload?: (() => Promise<Reloaded>) | undefined };

/** POST /admin/reload: what SIGHUP does, with a reply. Only this process reads its file. */
export function createReloadRoute({ reload }: ReloadOptions): OwnerRoute {
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
