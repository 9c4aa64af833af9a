import type { Clock } from "../io.ts";
import { createAccountRoute, hashKey } from "./accounts.ts";
import { statusBody } from "./api/status-body.ts";
import { refusalResponse, refuse } from "./http/refusal.ts";
import { jsonReply } from "./http/reply.ts";
import type { Queue } from "./jobs/queue.ts";
import { createStart } from "./start.ts";
import type { Store } from "./store/store.ts";

export type AppOptions = { store: Store; queue: Queue; clock: Pick<Clock, "date">; mediaUrl(): string };

/** A web service as a function; it never rejects. */
export type Handler = (request: Request) => Promise<Response>;

/** What answers a request of an account; `query` is what stands behind the "?" of its address. */
type Endpoint = (request: Request, account: string, query: string) => Promise<Response>;

/** Both endpoints of the interface (section 4). Where that is silent it answers `{"error":{"code","message"}}` with a fitting status. */
export function createApp(options: AppOptions): Handler {
  const routes: Record<string, { method: string; handle: Endpoint }> = {
    "/api/generate": { method: "POST", handle: createStart(options) },
    // The local service's own, for `serve --key-for`.
    "/accounts": { method: "POST", handle: createAccountRoute(options.store) },
    "/api/generation-status": { method: "GET", handle: (_, account, query) => status(query, account, options) },
  };
  return async (request) => {
    try {
      const { pathname, query } = splitUrl(request.url);
      const route = Object.hasOwn(routes, pathname) ? routes[pathname] : undefined;
      if (!route) throw refuse(404, "not_found", `there is nothing at ${pathname}`);
      if (request.method !== route.method) {
        throw refuse(405, "method_not_allowed", `${pathname} takes ${route.method}`, { Allow: route.method });
      }
      return await route.handle(request, await authenticate(request, options.store), query);
    } catch (error) {
      return refusalResponse(error);
    }
  };
}

/** A `URL` takes as long as all the rest of a status read, and gives no more. */
function splitUrl(url: string): { pathname: string; query: string } {
  const [, pathname = "", query = ""] = /^[a-z]+:\/\/[^/?#]*([^?#]*)\??([^#]*)/.exec(url) ?? [];
  return { pathname, query };
}

/** Interface section 5: `Authorization: Bearer <API_KEY>`. */
async function authenticate(request: Request, store: Store): Promise<string> {
  const key = /^Bearer +(\S+)$/i.exec(request.headers.get("Authorization") ?? "")?.[1];
  const account = key === undefined ? undefined : await store.account(hashKey(key));
  if (account !== undefined) return account;
  const message =
    key === undefined ? "an API key is required: Authorization: Bearer <API_KEY>" : "this API key is not known";
  throw refuse(401, "unauthorized", message, { "WWW-Authenticate": "Bearer" });
}

/** One that an earlier owner of the state has left is gone on with at the latest when somebody asks for it. */
async function status(query: string, account: string, { store, queue, mediaUrl }: AppOptions): Promise<Response> {
  const id = new URLSearchParams(query).get("id");
  if (!id) throw refuse(400, "invalid_id", "the query parameter id is missing");
  const generation = isUuid(id) ? await store.generation(id) : undefined;
  // Another account's id is answered as one that does not exist: it must not even tell that it does.
  if (!generation || generation.account !== account)
    throw refuse(404, "not_found", "there is no generation with this id");
  if (generation.status === "processing") queue.add(generation);
  return jsonReply(statusBody(generation, mediaUrl()));
}

/** What else is asked for never reaches the database, which takes no NUL. */
function isUuid(id: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id);
}
