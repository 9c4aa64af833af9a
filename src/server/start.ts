import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import type { Clock } from "../io.ts";
import { readJsonBody } from "./http/json-body.ts";
import { refuse } from "./http/refusal.ts";
import { jsonReply } from "./http/reply.ts";
import { type Directives, readDirectives } from "./jobs/directives.ts";
import type { Queue } from "./jobs/queue.ts";
import { readStartBody, type StartBody } from "./request.ts";
import type { StartOutcome, Store, StoredGeneration } from "./store/store.ts";

/** What one generation costs at the local service; the interface shows no prices (section 8). */
export const costPerGeneration = 10;

export type StartOptions = { store: Pick<Store, "start">; queue: Pick<Queue, "add">; clock: Pick<Clock, "date"> };

/** POST /api/generate (interface 4.1). An Idempotency-Key that comes again with the same body gets the same reply, and nothing is charged. */
export function createStart(options: StartOptions): (request: Request, account: string) => Promise<Response> {
  /** Those whose `[http: 429]` has been answered so. */
  const refusedOnce = new Set<string>();
  return async (request, account) => {
    const { text, json } = await readJsonBody(request);
    const { render, callback_url } = readStartBody(json);
    const asked = readDirectives(render.prompt);
    refuseAsAsked(asked, `${account} ${render.prompt}`, refusedOnce);
    const key = request.headers.get("Idempotency-Key");
    const generation = newGeneration(account, { render, callback_url }, options.clock.date());
    const outcome = await options.store.start(
      generation,
      costPerGeneration,
      key === null ? undefined : { key, body: text },
    );
    if (outcome.kind === "no credits") throw lackOfCredits();
    if (outcome.kind === "key reused")
      throw refuse(409, "idempotency_key_reused", "this Idempotency-Key came with another body before");
    const reply = startReply(outcome);
    if (outcome.replayed) return jsonReply(reply);
    options.queue.add(outcome.generation);
    if (asked.hang) await untilGone(request.signal);
    return asked.cut ? cutReply(reply, outcome.generation.id) : jsonReply(reply);
  };
}

function newGeneration(account: string, { render, callback_url }: StartBody, date: Date): StoredGeneration {
  const blank = { status: "processing", completed_at: null, error: null, media: null } as const;
  return { ...blank, id: randomUUID(), account, created_at: date.toISOString(), callback_url, request: render };
}

/** The directives that refuse a start, before anything is charged. A 429 goes once, then the same prompt gets through once. */
function refuseAsAsked({ http, noCredits }: Directives, who: string, refusedOnce: Set<string>): void {
  if (noCredits) throw lackOfCredits();
  if (http === undefined || (http === 429 && refusedOnce.delete(who))) return;
  if (http === 429) refusedOnce.add(who);
  throw refuse(http, "asked_for", "the prompt asked for this status", http === 429 ? { "Retry-After": "1" } : {});
}

function lackOfCredits() {
  const message = `one generation costs ${costPerGeneration} credits; the account has fewer`;
  return refuse(402, "insufficient_credits", message);
}

/** The start response envelope (interface 2.3). */
function startReply({ generation, remaining_credits }: StartOutcome & { kind: "started" }) {
  const { id, created_at, request } = generation;
  const data = { id, status: "processing", model: request.model, prompt: request.prompt, created_at };
  return { success: true, data, remaining_credits };
}

/** `[hang]`: there is no reply; whoever asked leaves some time. */
async function untilGone(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

/** `[cut]`: the reply breaks off behind its id. */
function cutReply(reply: object, id: string): Response {
  const bytes = new TextEncoder().encode(JSON.stringify(reply));
  const end = JSON.stringify(reply).indexOf(id) + id.length + 1;
  const pieces = async function* () {
    yield bytes.subarray(0, end);
    throw new Error("cut, as the prompt asked for");
  };
  const body = Readable.toWeb(Readable.from(pieces())) as ReadableStream;
  return new Response(body, {
    headers: { "Content-Type": "application/json", "Content-Length": String(bytes.length) },
  });
}
