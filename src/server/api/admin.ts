import { VidgenError } from "../../errors.ts";
import { refuse } from "../http/message.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { OwnerRoute } from "./openapi/operation.ts";

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
