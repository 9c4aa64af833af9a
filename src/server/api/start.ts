import { hash, randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import type { Clock } from "../../io.ts";
import { createBudget, createCapacity } from "../capacity.ts";
import { type Directives, readDirectives } from "../jobs/directives.ts";
import type { StartOutcome, Store, StoredGeneration, StoredRequest } from "../store/store.ts";
import { type ApiContext, parseJson, readBody, refuse, streamResponse, usualBodyBytes } from "./message.ts";
import { createStartReader, type StartReaderOptions, type StartRequest } from "./start-body.ts";

/** What a generation costs at the local service unless its owner set a price for the model; the interface shows none (section 8). */
const usualCost = 10;

/** Enough for images of 20 MB in `data:` URLs, and a prompt. */
const maxBodyBytes = 28_000_000;

/** So many bytes of bodies with images are in memory; a body that has no room is refused at once. */
const maxLargeBytes = 200_000_000;

/** So many bodies with images are handled at a time: each takes some 150 MB until it is stored. The others wait as bytes. */
const maxLargeBodies = 4;

export type StartOptions = StartReaderOptions & {
  store: Pick<Store, "start">;
  /** The credits that a start costs, by model. */
  creditsPer: ReadonlyMap<string, number>;
  clock: Pick<Clock, "date">;
};

/** POST /api/generate (interface 4.1). An Idempotency-Key that comes again with the same body gets the same reply, and nothing is charged. */
export function createStartRoute(options: StartOptions): (c: ApiContext) => Promise<Response> {
  /** The starts that were answered with the one 429 that their prompt asks for. */
  const refusedOnce = new Set<string>();
  const largeBodies = createCapacity(maxLargeBodies);
  const readStart = createStartReader(options);
  const takeShare = createBudget(maxLargeBytes);
  const accept = async (c: ApiContext, bytes: Uint8Array) => {
    const { account } = c.var;
    const { text, json } = parseJson(c, bytes);
    const { request, callback_url } = readStart(json);
    await checkLimits(request, options.engines);
    c.env.log?.about.push(request.model);
    const directives = readDirectives(request);
    const cost = options.creditsPer.get(request.model) ?? usualCost;
    if (directives.noCredits) throw notEnoughCredits(cost);
    refuseAsAsked(directives, hash("sha256", `${account} ${request.prompt}`), refusedOnce);
    const key = c.req.header("Idempotency-Key");
    const generation = newGeneration(account, { request, callback_url }, options.clock.date());
    const idempotency = key === undefined ? undefined : { key, body: text };
    const outcome = await options.store.start(generation, cost, idempotency);
    if (outcome.kind === "no credits") throw notEnoughCredits(cost);
    if (outcome.kind === "key reused")
      throw refuse(409, "idempotency_key_reused", "this Idempotency-Key was already used with another body");
    const body = startBody(outcome);
    c.env.log?.about.push(body.data.id.slice(0, 8));
    if (outcome.replayed) return { body };
    return { body, directives };
  };
  /** A client that sends slowly takes no more room than what it has sent. */
  const acceptLarge = async (c: ApiContext) => {
    const share = takeShare();
    try {
      const bytes = await readBody(c, maxBodyBytes, share);
      return await largeBodies(1, () => accept(c, bytes));
    } finally {
      share.release();
    }
  };
  return async (c) => {
    const { body, directives } = await (mayBeLarge(c) ? acceptLarge(c) : accept(c, await readBody(c, maxBodyBytes)));
    if (directives?.hang) await untilDisconnected(c.req.raw.signal);
    return directives?.cut ? cutResponse(body, c) : c.json(body);
  };
}

/** Without its length, such as a chunked one, a body may be large. */
function mayBeLarge({ req }: ApiContext): boolean {
  return !(Number(req.header("Content-Length") ?? Number.NaN) <= usualBodyBytes);
}

function newGeneration(account: string, start: StartRequest, date: Date): StoredGeneration {
  const blank = {
    status: "processing",
    completed_at: null,
    error: null,
    media: null,
    cost: null,
    checkpoint: null,
  } as const;
  return { ...blank, ...start, id: randomUUID(), account, created_at: date.toISOString() };
}

/** Refuses what no engine that has the model takes, by the lists of their providers: before anything is paid there. */
async function checkLimits(request: StoredRequest, engines: StartOptions["engines"]) {
  const able = engines.filter(({ models, isSimulation }) => models.includes(request.model) && !isSimulation);
  const faults = await Promise.all(able.map(({ findFault }) => findFault?.(request, request.images.length)));
  const [fault] = faults;
  if (fault !== undefined && faults.every((each) => each !== undefined))
    throw refuse(400, "outside_limits", `${request.model}: ${fault}`);
}

/** So many refused starts are remembered, by their hashes: a prompt may have a megabyte. */
const maxRefused = 1_000;

/** The directive that refuses a start before anything is charged. A 429 comes once, then the same prompt gets through once. */
function refuseAsAsked({ http }: Directives, start: string, refusedOnce: Set<string>): void {
  if (http === undefined || (http === 429 && refusedOnce.delete(start))) return;
  if (http === 429) refusedOnce.add(start);
  const [oldest] = refusedOnce;
  if (oldest !== undefined && refusedOnce.size > maxRefused) refusedOnce.delete(oldest);
  throw refuse(http, "asked_for", "the prompt asked for this status", http === 429 ? { "Retry-After": "1" } : {});
}

function notEnoughCredits(cost: number) {
  const message = `one generation costs ${cost} credits; the account has fewer`;
  return refuse(402, "insufficient_credits", message);
}

/** The start response envelope (interface 2.3). */
function startBody({ generation, remaining_credits }: StartOutcome & { kind: "started" }) {
  const { id, created_at, request } = generation;
  const data = { id, status: "processing", model: request.model, prompt: request.prompt, created_at };
  return { success: true, data, remaining_credits };
}

/** `[hang]`: there is no reply until the client disconnects. */
async function untilDisconnected(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

/** `[cut]`: the reply breaks off after its id. */
function cutResponse(body: ReturnType<typeof startBody>, c: ApiContext): Promise<Response> {
  const text = JSON.stringify(body);
  const { id } = body.data;
  const pieces = async function* () {
    yield Buffer.from(text.slice(0, text.indexOf(id) + id.length + 1));
    throw new Error("cut, as the prompt asked for");
  };
  const headers = { "Content-Type": "application/json", "Content-Length": String(Buffer.byteLength(text)) };
  return streamResponse(Readable.from(pieces()), { status: 200, headers }, c.env.outgoing);
}
