import { createReadStream } from "node:fs";
import { refuse, streamResponse } from "../http/message.ts";
import { isUnavailable } from "../observe/problem.ts";
import type { Store } from "../store/store.ts";
import type { OwnerRoute } from "./openapi/operation.ts";

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
