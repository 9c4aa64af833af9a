import { createHash, randomUUID } from "node:crypto";
import type { Clock } from "../io.ts";
import type { Queue } from "./queue.ts";
import { refusalResponse, refuse } from "./refusal.ts";
import { readStartBody } from "./request.ts";
import { type Store, type StoredGeneration, statusBody } from "./store.ts";

/** What one generation costs at the local service; the interface shows no prices (section 8). */
export const costPerGeneration = 10;

const longestBody = 1_000_000;

export type AppOptions = { store: Store; queue: Queue; clock: Pick<Clock, "date">; mediaUrl(): string };

/** A web service as a function; it never rejects. */
export type Handler = (request: Request) => Promise<Response>;

/** Both endpoints of the interface (section 4). Where that is silent it answers `{"error":{"code","message"}}` with a fitting status. */
export function createApp(options: AppOptions): Handler {
  const routes: Record<string, { method: string; handle: (request: Request, account: string) => Promise<Response> }> = {
    "/api/generate": { method: "POST", handle: (request, account) => start(request, account, options) },
    "/api/generation-status": { method: "GET", handle: (request, account) => status(request, account, options) },
  };
  return async (request) => {
    try {
      const { pathname } = new URL(request.url);
      const route = Object.hasOwn(routes, pathname) ? routes[pathname] : undefined;
      if (!route) throw refuse(404, "not_found", `there is nothing at ${pathname}`);
      if (request.method !== route.method) {
        throw refuse(405, "method_not_allowed", `${pathname} takes ${route.method}`, { Allow: route.method });
      }
      return await route.handle(request, await authenticate(request, options.store));
    } catch (error) {
      return refusalResponse(error);
    }
  };
}

/** Keys are compared by their hashes, so that the time it takes tells nothing about the key. */
export function hashKey(key: string): string {
  return createHash("sha256").update(key).digest("hex");
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

async function start(request: Request, account: string, { store, queue, clock }: AppOptions): Promise<Response> {
  if (!/^application\/json\s*(;|$)/i.test(request.headers.get("Content-Type") ?? "")) {
    throw refuse(415, "unsupported_media_type", "the body must be application/json");
  }
  const body = await readBody(request);
  const { render, callback_url } = readStartBody(parseBody(body));
  const blank = { status: "processing", completed_at: null, error: null, media: null } as const;
  const generation: StoredGeneration = {
    ...blank,
    id: randomUUID(),
    account,
    created_at: clock.date().toISOString(),
    callback_url,
    request: render,
  };
  const key = request.headers.get("Idempotency-Key");
  const outcome = await store.start(generation, costPerGeneration, key === null ? undefined : { key, body });
  if (outcome.kind === "no credits")
    throw refuse(
      402,
      "insufficient_credits",
      `one generation costs ${costPerGeneration} credits; the account has fewer`,
    );
  if (outcome.kind === "key reused")
    throw refuse(409, "idempotency_key_reused", "this Idempotency-Key came with another body before");
  if (!outcome.replayed) queue.add(outcome.generation);
  const { id, created_at, request: asked } = outcome.generation;
  const data = { id, status: "processing", model: asked.model, prompt: asked.prompt, created_at };
  return Response.json({ success: true, data, remaining_credits: outcome.remaining_credits });
}

async function status(request: Request, account: string, { store, mediaUrl }: AppOptions): Promise<Response> {
  const id = new URL(request.url).searchParams.get("id");
  if (!id) throw refuse(400, "invalid_id", "the query parameter id is missing");
  const generation = await store.generation(id);
  // Another account's id is answered as one that does not exist: it must not even tell that it does.
  if (!generation || generation.account !== account)
    throw refuse(404, "not_found", "there is no generation with this id");
  return Response.json(statusBody(generation, mediaUrl()));
}

/** Reads to the end, also what is too large: many a client sends its whole body before it reads the reply. */
async function readBody(request: Request): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.byteLength;
    if (length <= longestBody) chunks.push(chunk);
  }
  if (length > longestBody) throw refuse(400, "body_too_large", "the body is larger than 1 MB");
  return new TextDecoder().decode(Buffer.concat(chunks));
}

function parseBody(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw refuse(400, "invalid_json", "the body is not JSON");
  }
}
