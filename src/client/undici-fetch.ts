import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import type { Dispatcher } from "undici";
import buildConnector from "undici/lib/core/connect.js";
import Agent from "undici/lib/dispatcher/agent.js";
import type { FetchInit, HttpResponse, Io } from "../io.ts";
import { type Blocks, createBlocks } from "./blocks.ts";
import { createBody } from "./body.ts";

/**
 * Bytes of code run until V8 compiles a function of WebAssembly anew, optimized. By its usual budget in Node 20 it does that to undici's parser
 * from the first reply on: 90 ms on a thread of its own, which the end of the process then waits for, and 35 MB meanwhile.
 */
const tieringBudgets = { usual: 1_800_000, most: 2 ** 31 - 1 };

/** So many connections at once for looks at generations: a thousand with TLS would take 100 MB. */
const mostLooks = 64;

/**
 * For a process that is vidgen's own, on Node 20: V8 gives undici's parser the larger budget. The parser is made when the first connection is, and
 * as long as V8's options are not the usual ones it takes nothing that was compiled before: for TLS 10 ms, unless that is loaded already.
 */
export async function delayTiering(url: string): Promise<void> {
  if (url.startsWith("https:")) await import("node:tls");
  const set = (budget: number) => () => setFlagsFromString(`--wasm-tiering-budget=${budget}`);
  subscribe("undici:client:beforeConnect", set(tieringBudgets.most));
  subscribe("undici:client:connected", set(tieringBudgets.usual));
  subscribe("undici:client:connectError", set(tieringBudgets.usual));
}

/**
 * undici's dispatcher, without the rest of it: its fetch alone takes three times as long to load. Proxies from the environment are honoured,
 * but never asked for this machine itself.
 */
export function createFetch(env: Io["env"]): Io["fetch"] {
  const shareForLooks = once(() => openDispatcher(env, { connections: mostLooks }));
  const blocks = createBlocks();
  const shareForVideos = once(() => openDispatcher(env, { connect: connectInto(blocks) }));
  return async (url, init = {}) => {
    let own: Dispatcher | undefined;
    const watch = watchRequest(init);
    try {
      // A proxy's address may be none; then nothing was sent.
      if (init.method === "POST") own = await openDispatcher(env, { pipelining: 0 });
      // A video's address gets no key. A download that takes long must not keep a look waiting.
      const share = init.headers?.Authorization === undefined ? shareForVideos : shareForLooks;
      const dispatcher = own ?? (await share());
      return await send(dispatcher, url, { ...init, signal: watch.signal, blocks });
    } catch (error) {
      throw Object.assign(error instanceof Error ? error : new Error(String(error)), { sent: watch.sent() });
    } finally {
      watch.stop();
      // Waits for the body of the reply on its own.
      own?.close().catch(() => {});
    }
  };
}

function once<Value>(make: () => Value): () => Value {
  let made: Value | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

async function openDispatcher(env: Io["env"], options: Agent.Options = {}): Promise<Dispatcher> {
  const names = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"];
  if (!names.some((name) => env[name])) return new Agent(options);
  const { createProxyAgent } = await import("./proxy.ts");
  return createProxyAgent(env, options);
}

/** Connections that receive into blocks (`onread` of node:net), and hand out what came with each read by itself. */
function connectInto(blocks: Blocks): buildConnector.connector {
  return (options, callback) => {
    const inlet = blocks.open();
    const onread = { buffer: inlet.room, callback: (length: number) => socket.push(inlet.take(length)) };
    // With more than one read waiting, undici would have them copied into one.
    const socket: Socket = buildConnector({ onread, highWaterMark: 1 })(options, callback);
  };
}

type Sending = FetchInit & { signal: AbortSignal; blocks: Blocks };

function send(
  dispatcher: Dispatcher,
  url: string,
  { method, headers, body, signal, blocks }: Sending,
): Promise<HttpResponse> {
  const { origin, pathname, search } = new URL(url);
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined;
    let received: ReturnType<typeof createBody> | undefined;
    const fail = (error: Error) => {
      signal.removeEventListener("abort", onAbort);
      if (received) received.fail(error);
      else reject(error);
    };
    // While it is still connecting there is nothing of it to abort yet.
    const onAbort = () => {
      fail(signal.reason);
      controller?.abort(signal.reason);
    };
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener("abort", onAbort);
    const request = { origin, path: pathname + search, method: method ?? "GET", body: body ?? null };
    dispatcher.dispatch({ ...request, headers: { "User-Agent": "vidgen", ...headers } } as Dispatcher.DispatchOptions, {
      onRequestStart(given) {
        controller = given;
        if (signal.aborted) given.abort(signal.reason);
      },
      onResponseStart(given, status, fields) {
        if (status < 200) return;
        received = createBody(given, blocks);
        readResponse(status, fields, received.body).then(resolve, reject);
      },
      onResponseData: (_, chunk) => received?.push(chunk),
      onResponseEnd() {
        signal.removeEventListener("abort", onAbort);
        received?.end();
      },
      onResponseError: (_, error) => fail(error),
    });
  });
}

type Fields = Record<string, string | string[] | undefined>;

/** A body with a coding is decoded, though none is ever asked for. */
async function readResponse(status: number, fields: Fields, raw: HttpResponse["body"]): Promise<HttpResponse> {
  const get = (name: string) => {
    const value = fields[name.toLowerCase()] ?? null;
    return Array.isArray(value) ? value.join(", ") : value;
  };
  const codings = get("Content-Encoding");
  const body = codings === null ? raw : (await import("./decode.ts")).decode(raw, codings);
  return { status, headers: { get, has: (name) => get(name) !== null }, body, text: () => readAll(body) };
}

async function readAll(body: HttpResponse["body"]): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body ?? []) text += decoder.decode(chunk, { stream: true });
  return text + decoder.decode();
}

/**
 * Tells whether a request's headers went to the socket, by undici's own account: an error code cannot, ECONNRESET covers both. The
 * attempt's key in the headers tells this request from others; without a key the answer is the careful one.
 */
function watchRequest(init: FetchInit) {
  const attempt = init.headers?.["Idempotency-Key"];
  const unsent = new AbortController();
  let sent = attempt === undefined;
  const onHeaders = (message: unknown) => {
    if (attempt !== undefined && String((message as { headers?: unknown }).headers).includes(attempt)) sent = true;
  };
  const onUnsentAbort = () => {
    if (!sent) unsent.abort(init.unsentSignal?.reason);
  };
  subscribe("undici:client:sendHeaders", onHeaders);
  init.unsentSignal?.addEventListener("abort", onUnsentAbort);
  if (init.unsentSignal?.aborted) onUnsentAbort();
  return {
    signal: init.signal ? AbortSignal.any([init.signal, unsent.signal]) : unsent.signal,
    sent: () => sent,
    stop() {
      unsubscribe("undici:client:sendHeaders", onHeaders);
      init.unsentSignal?.removeEventListener("abort", onUnsentAbort);
    },
  };
}
