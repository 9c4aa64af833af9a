import { hash, randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import * as z from "zod";
import { findModel, maxLocalSeconds, models } from "../../client/models.ts";
import type { Clock } from "../../io.ts";
import { createCapacity } from "../capacity.ts";
import type { RenderRequest } from "../engines/engine.ts";
import { type Directives, readDirectives } from "../jobs/directives.ts";
import type { Queue } from "../jobs/queue.ts";
import type { StartOutcome, Store, StoredGeneration } from "../store/store.ts";
import { type ApiContext, readJson, refuse, streamResponse, usualBodyBytes } from "./message.ts";

/** What one generation costs at the local service; the interface shows no prices (section 8). */
const costPerGeneration = 10;

/** Enough for images of 20 MB in `data:` URLs, and a prompt. */
const maxBodyBytes = 28_000_000;

/** So many bodies with images are handled at a time: each takes some 150 MB until it is stored. The others are read later. */
const maxLargeBodies = 4;

export type StartOptions = { store: Pick<Store, "start">; queue: Pick<Queue, "add">; clock: Pick<Clock, "date"> };

/** POST /api/generate (interface 4.1). An Idempotency-Key that comes again with the same body gets the same reply, and nothing is charged. */
export function createStartRoute(options: StartOptions): (c: ApiContext) => Promise<Response> {
  /** The starts that were answered with the one 429 that their prompt asks for. */
  const refusedOnce = new Set<string>();
  const largeBodies = createCapacity(maxLargeBodies);
  const accept = async (c: ApiContext) => {
    const { account } = c.var;
    const { text, json } = await readJson(c, maxBodyBytes);
    const { render, callback_url } = readStartBody(json);
    c.env.log?.about.push(render.model);
    const directives = readDirectives(render.prompt);
    refuseAsAsked(directives, hash("sha256", `${account} ${render.prompt}`), refusedOnce);
    const key = c.req.header("Idempotency-Key");
    const generation = newGeneration(account, { render, callback_url }, options.clock.date());
    const idempotency = key === undefined ? undefined : { key, body: text };
    const outcome = await options.store.start(generation, costPerGeneration, idempotency);
    if (outcome.kind === "no credits") throw notEnoughCredits();
    if (outcome.kind === "key reused")
      throw refuse(409, "idempotency_key_reused", "this Idempotency-Key was already used with another body");
    const body = startBody(outcome);
    c.env.log?.about.push(body.data.id.slice(0, 8));
    if (outcome.replayed) return { body };
    options.queue.add(outcome.generation);
    return { body, directives };
  };
  return async (c) => {
    const work = () => accept(c);
    const { body, directives } = await (mayBeLarge(c) ? largeBodies(1, work) : work());
    if (directives?.hang) await untilDisconnected(c.req.raw.signal);
    return directives?.cut ? cutResponse(body, c) : c.json(body);
  };
}

/** Without its length, such as a chunked one, a body may be large. */
function mayBeLarge({ req }: ApiContext): boolean {
  return !(Number(req.header("Content-Length") ?? Number.NaN) <= usualBodyBytes);
}

function newGeneration(account: string, { render, callback_url }: StartRequest, date: Date): StoredGeneration {
  const blank = { status: "processing", completed_at: null, error: null, media: null } as const;
  return { ...blank, id: randomUUID(), account, created_at: date.toISOString(), callback_url, request: render };
}

/** So many refused starts are remembered, by their hashes: a prompt may have a megabyte. */
const maxRefused = 1_000;

/** The directives that refuse a start before anything is charged. A 429 comes once, then the same prompt gets through once. */
function refuseAsAsked({ http, noCredits }: Directives, start: string, refusedOnce: Set<string>): void {
  if (noCredits) throw notEnoughCredits();
  if (http === undefined || (http === 429 && refusedOnce.delete(start))) return;
  if (http === 429) refusedOnce.add(start);
  const [oldest] = refusedOnce;
  if (oldest !== undefined && refusedOnce.size > maxRefused) refusedOnce.delete(oldest);
  throw refuse(http, "asked_for", "the prompt asked for this status", http === 429 ? { "Retry-After": "1" } : {});
}

function notEnoughCredits() {
  const message = `one generation costs ${costPerGeneration} credits; the account has fewer`;
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

const notSeconds = "must be a number of seconds";
const httpUrl = z.string().refine(isHttpUrl, "must be an http(s) address");
const imageUrl = z
  .string()
  .refine((value) => isHttpUrl(value) || value.startsWith("data:image/"), "must be an http(s) or data: address");

/** The body of the start request (interface 4.1). What the interface leaves open has the local service's own bounds and defaults. */
const bodySchema = z.object({
  prompt: z.string().refine((value) => value.trim() !== "", "must not be empty"),
  model: z
    .string()
    .refine((value) => findModel(value) !== undefined, `must be one of ${models.map(({ id }) => id).join(", ")}`),
  aspectRatio: z
    .string()
    .regex(/^\d{1,4}(\.\d{1,4})?:\d{1,4}(\.\d{1,4})?$/, 'must be a ratio such as "16:9"')
    .refine(isSaneRatio, "must be between 1:4 and 4:1")
    .default("16:9"),
  duration: z
    .union([z.number(), z.string().regex(/^\d+(\.\d+)?$/, notSeconds)], { error: notSeconds })
    .transform(Number)
    .refine(
      (seconds) => seconds > 0 && seconds <= maxLocalSeconds,
      `must be more than 0 and at most ${maxLocalSeconds} seconds`,
    )
    .default(5),
  resolution: z.enum(["480p", "720p", "1080p"], { error: "must be 480p, 720p or 1080p" }).default("480p"),
  imageUrl: imageUrl.optional(),
  imageUrls: z.array(imageUrl).optional(),
  callback_url: httpUrl.nullish(),
});

type StartRequest = { render: RenderRequest; callback_url: string | null };

/** Throws a 400 that says what is wrong with which field. */
function readStartBody(json: unknown): StartRequest {
  const parsed = bodySchema.safeParse(json, { error: (issue) => typeMessage(issue) });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const field = issue?.path.join(".") || "the body";
    throw refuse(400, `invalid_${issue?.path[0]?.toString() ?? "body"}`, `${field} ${issue?.message}`);
  }
  const { callback_url, imageUrl: image, imageUrls = [], ...rest } = parsed.data;
  const images = image === undefined ? imageUrls : [image, ...imageUrls];
  checkImages(rest.model, images);
  return { render: { ...rest, images }, callback_url: callback_url ?? null };
}

function typeMessage(issue: { code?: string | undefined; input?: unknown; expected?: unknown }): string | undefined {
  if (issue.code !== "invalid_type") return undefined;
  if (issue.input === undefined) return "is missing";
  return `must be ${/^[ao]/.test(String(issue.expected)) ? "an" : "a"} ${issue.expected}`;
}

/** Interface section 8: `kling-1.6-elements` wants 2 to 4 images. Of the others it says nothing; they take none to 4. */
function checkImages(model: string, images: string[]): void {
  const { min, max } = findModel(model)?.images ?? { min: 0, max: 4 };
  if (images.length >= min && images.length <= max) return;
  throw refuse(400, "invalid_imageUrls", `${model} needs ${min} to ${max} images in imageUrls, not ${images.length}`);
}

function isHttpUrl(value: string): boolean {
  return URL.canParse(value) && /^https?:$/.test(new URL(value).protocol);
}

function isSaneRatio(value: string): boolean {
  const [width = 0, height = 0] = value.split(":").map(Number);
  return width > 0 && height > 0 && width / height <= 4 && height / width <= 4;
}
