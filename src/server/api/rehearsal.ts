import { hash } from "node:crypto";
import { PassThrough, pipeline, Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { type BoundedMap, createBoundedMap } from "../bounded-map.ts";
import { readDirectives } from "../engines/preview/directives.ts";
import { errorResponse, type Handler, refuse, streamResponse } from "../http/message.ts";
import { createMedia, type MediaHandlerOptions, readVideoId } from "../media/media.ts";
import type { StoredGeneration } from "../store/generations.ts";
import { listPriceOf } from "./price.ts";
import { notEnoughCredits, type Respond, type StartOptions } from "./start.ts";

// Applies the directives of prompts that are about starts and downloads, by wrapping those. The job itself applies the directives about the video:
// [fail], [slow] and [no-video].

/** The maximum number of starts, and of videos, that are remembered as refused once; by hash, because a prompt may have a megabyte. */
const maxRefused = 1_000;

/** Adds the directives to the options of the routes that start a generation. */
export function rehearseStarts(options: StartOptions): StartOptions {
  const refusedOnce = createBoundedMap<true>(maxRefused);
  const { store } = options;
  const start: StartOptions["store"]["start"] = async (generation, ...others) => {
    const { noCredits, http } = readDirectives(generation.request);
    if (noCredits) throw notEnoughCredits(listPriceOf(generation.request.model, options));
    if (http !== undefined) refuseStart(http, hashOf(generation), refusedOnce);
    return store.start(generation, ...others);
  };
  return { ...options, store: { ...store, start }, respond };
}

function hashOf({ account, request }: Pick<StoredGeneration, "account" | "request">): string {
  return hash("sha256", `${account} ${request.prompt}`);
}

/** Refuses a start before anything is charged. A 429 comes once, then the same prompt gets through once. */
function refuseStart(status: number, start: string, refusedOnce: BoundedMap<true>): void {
  if (status === 429 && refusedOnce.delete(start)) return;
  if (status === 429) refusedOnce.set(start, true);
  throw refuse(status, "asked_for", "the prompt asked for this status", status === 429 ? { "Retry-After": "1" } : {});
}

/** A start that is replayed is answered in full. */
const respond: Respond = async (c, { generation, replayed }, body) => {
  const { hang, cut } = readDirectives(generation.request);
  if (hang && !replayed) await untilDisconnected(c.req.raw.signal);
  if (!cut || replayed) return c.json(body);
  const text = JSON.stringify(body);
  const headers = { "Content-Type": "application/json", "Content-Length": String(Buffer.byteLength(text)) };
  const beginning = text.slice(0, text.indexOf(generation.id) + generation.id.length + 1);
  return streamResponse(breakOff(Readable.from([Buffer.from(beginning)])), { status: 200, headers }, c.env.outgoing);
};

/** `[hang]`: there is no reply until the client disconnects. */
async function untilDisconnected(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

/** Returns what `createMedia` returns, with the directives `[media: 403]` and `[media: cut]` applied. */
export function createRehearsedMedia(options: MediaHandlerOptions): Handler {
  const media = createMedia(options);
  // A cut reply cannot be a redirect to the store.
  const withoutRedirects = createMedia({ ...options, hasRedirects: false });
  const refusedOnce = createBoundedMap<true>(maxRefused);
  return async (request, bindings = {}) => {
    const id = readVideoId(request);
    const generation = id === undefined ? undefined : await options.store.generation(id).catch(() => undefined);
    if (id === undefined || !generation?.media) return media(request, bindings);
    const { mediaStatus, mediaCut } = readDirectives(generation.request);
    if (mediaStatus !== undefined && !refusedOnce.has(id)) {
      refusedOnce.set(id, true);
      return errorResponse(refuse(mediaStatus, "asked_for", "the prompt asked for this status, once"));
    }
    const isCut = mediaCut && request.method === "GET" && !request.headers.has("Range");
    if (!isCut) return media(request, bindings);
    const { size } = generation.media;
    const headers = new Headers(request.headers);
    headers.set("Range", `bytes=0-${Math.max(0, Math.floor(size / 2) - 1)}`);
    const half = await withoutRedirects(new Request(request.url, { headers }));
    if (half.status !== 206 || !half.body) return half;
    const { "content-range": _, ...whole } = Object.fromEntries(half.headers);
    const body = Readable.fromWeb(half.body as ReadableStream);
    const init = { status: 200, headers: { ...whole, "content-length": String(size) } };
    return streamResponse(breakOff(body), init, bindings.outgoing);
  };
}

/** Returns a stream that fails after its last byte. */
function breakOff(body: Readable): Readable {
  const broken = new PassThrough({ flush: (done) => done(new Error("cut, as the prompt asked for")) });
  // Each stream ends with the other, even if nothing was read, because a generator that never began would leave the file open.
  return pipeline(body, broken, () => {});
}
