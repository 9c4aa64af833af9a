import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import type { Agent, Dispatcher } from "undici";
import { type FetchInit, type HttpResponse, type Io, RequestError } from "../../io.ts";
import { isLoopback } from "./credentials.ts";
import { breakOff, orAsItCame, type ReadRaw, watchReply } from "./raw-reply.ts";

/** Open connections for status requests at one time: a thousand with TLS would take 100 MB. */
const maxStatusConnections = 64;

/**
 * undici 7 throws where nobody can catch it when a server closes the connection while undici's parser is paused (nodejs/undici#5360; 8 has
 * the fix, but needs Node 22). undici pauses the parser when this many bytes wait to be read, so with this limit it never does. In return
 * a reader must not wait between two chunks, or they pile up in memory: `download.ts` writes each chunk synchronously.
 */
const unlimitedBytes = Number.MAX_SAFE_INTEGER;

/**
 * Creates `Io["fetch"]` over undici, which is loaded with the first request. It honours the proxies that `env` names, except for this
 * machine. Only the CLI passes `nodeVersion`, which allows to set a V8 flag: a library must not change its process.
 */
export function createFetch(env: Io["env"], { nodeVersion = "" } = {}): Io["fetch"] {
  let loading: ReturnType<typeof loadAgents> | undefined;
  return async (url, init = {}) => {
    const watch = watchRequest(url, init);
    let ownAgent: Dispatcher | undefined;
    try {
      loading ??= loadAgents(env, nodeVersion);
      const { direct, proxied, decodeBody } = await loading;
      // undici's list of exceptions from the proxy cannot name all of 127.0.0.0/8.
      const { openAgent, forStatus, forVideos } = isLoopback(new URL(url).hostname) ? direct : proxied;
      if (init.method === "POST") ownAgent = openAgent({ pipelining: 0 });
      const shared = init.headers?.Authorization === undefined ? forVideos : forStatus;
      const agent = withBeforeSend(ownAgent ?? shared, init.beforeSend);
      const requesting = agent.request(requestOptions(url, init, watch.signal));
      const { statusCode, headers, body } = await unlessAborted(requesting, watch.signal);
      // Waits until the body has been read.
      ownAgent?.close().catch(() => {});
      // A reader of the body gets its error; without a reader or this listener the error would end the process.
      body.on("error", () => {});
      const decoded = decodeBody(body, readHeader(headers, "Content-Encoding") ?? "");
      return createResponse(statusCode, headers, watch.readRaw ? orAsItCame(decoded, watch.readRaw) : decoded);
    } catch (error) {
      ownAgent?.destroy().catch(() => {});
      const raw = watch.readRaw?.();
      if (raw) return createResponse(raw.status, {}, breakOff(raw.body, error));
      throw new RequestError(error, { sent: watch.wasSent() });
    } finally {
      watch.stop();
    }
  };
}

async function loadAgents(env: Io["env"], nodeVersion: string) {
  if (nodeVersion.startsWith("20.")) keepParserUnoptimized();
  // By its file: Bun has a module of its own under the name "undici", without what is needed here.
  const { Agent, EnvHttpProxyAgent, Pool } = await import("undici/index.js");
  // Loaded before there is a body: what came of one is lost when it breaks off before it is read.
  const { decodeBody } = await import("./content-coding.ts");
  const clientFactory = (proxy: URL, options: object) => failOnce(new Pool(proxy, options));
  const proxies = { ...readProxies(env), clientFactory };
  // Videos have connections of their own: a long download must not keep a status request waiting.
  const openShared = (openAgent: (options: Agent.Options) => Dispatcher) => ({
    openAgent,
    forStatus: openAgent({ connections: maxStatusConnections }),
    forVideos: openAgent({}),
  });
  return {
    decodeBody,
    direct: openShared((options) => new Agent(options)),
    proxied: openShared((options) => new EnvHttpProxyAgent({ ...options, ...proxies })),
  };
}

/**
 * Node 20 compiles undici's WebAssembly parser a second time, optimized, after the first reply, and the process waits 90 ms for that before
 * it exits. With this budget (bytes of code run, 1.8 million by default) only long work such as video encoding is optimized.
 */
function keepParserUnoptimized(): void {
  setFlagsFromString("--wasm-tiering-budget=1000000000");
}

/** undici calls `onRequestStart` right before it writes a request, and writes nothing when that throws. */
function withBeforeSend(agent: Dispatcher, beforeSend: FetchInit["beforeSend"]): Dispatcher {
  if (beforeSend === undefined) return agent;
  return agent.compose(
    (dispatch) => (options, handler) =>
      dispatch(options, {
        onRequestStart(controller, context) {
          beforeSend();
          handler.onRequestStart?.(controller, context);
        },
        onResponseStart: (...reply) => handler.onResponseStart?.(...reply),
        onResponseData: (...chunk) => handler.onResponseData?.(...chunk),
        onResponseEnd: (...end) => handler.onResponseEnd?.(...end),
        onResponseError: (...failure) => handler.onResponseError?.(...failure),
      }),
  );
}

/** The proxies that the environment names, "" for none; requests to NO_PROXY's hosts use none. */
export function readProxies(env: Io["env"]) {
  const noProxy = env.no_proxy || env.NO_PROXY || "";
  // undici reads "*" as every host only when it is the whole value.
  const isEverything = noProxy.split(/[\s,]/).includes("*");
  return {
    httpProxy: env.http_proxy || env.HTTP_PROXY || "",
    httpsProxy: env.https_proxy || env.HTTPS_PROXY || "",
    noProxy: isEverything ? "*" : noProxy,
  };
}

/** A proxy that closes the connection gives UND_ERR_SOCKET, on which undici would reconnect endlessly; another error ends the request. */
function failOnce(toProxy: Dispatcher): Dispatcher {
  const connect = toProxy.connect.bind(toProxy);
  const connectOnce = (options: Dispatcher.ConnectOptions) =>
    connect(options).catch((cause) => {
      throw cause.code === "UND_ERR_SOCKET" ? new Error("the proxy closed the connection", { cause }) : cause;
    });
  return Object.assign(toProxy, { connect: connectOnce });
}

function requestOptions(url: string, init: FetchInit, signal: AbortSignal): Dispatcher.RequestOptions {
  const { origin, pathname, search } = new URL(url);
  const { method = "GET", body = null } = init;
  const headers = { "User-Agent": "vidgen", ...init.headers };
  const options = { origin, path: pathname + search, headers, body, signal, highWaterMark: unlimitedBytes };
  return { ...options, method: method as Dispatcher.HttpMethod };
}

/** Rejects as soon as the signal aborts: undici itself rejects only once it is connected. */
export function unlessAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

type ReplyHeaders = Dispatcher.ResponseData["headers"];

function createResponse(status: number, headers: ReplyHeaders, body: AsyncIterable<Uint8Array>): HttpResponse {
  const text = async () => (await import("node:stream/consumers")).text(body);
  return { status, headers: { get: (name) => readHeader(headers, name) }, body, text };
}

function readHeader(headers: ReplyHeaders, name: string): string | null {
  return [headers[name.toLowerCase()] ?? []].flat().join(", ") || null;
}

/**
 * Watches whether undici writes a request's headers to the socket: an error code cannot tell, since ECONNRESET covers both cases. From then
 * on the reply is watched too. The Idempotency-Key in the headers identifies the request; one without a key counts as sent. The returned
 * signal aborts with the signal of `init`, and with `unsentSignal` as long as nothing was sent.
 */
function watchRequest(url: string, init: FetchInit) {
  const attempt = init.headers?.["Idempotency-Key"];
  const unsent = new AbortController();
  let isSent = attempt === undefined;
  let readRaw: ReadRaw | undefined;
  const onHeaders = (message: unknown) => {
    const { request, headers, socket } = message as { request: { origin: unknown }; headers: unknown; socket: Socket };
    // Every request of the process is published here: only the whole line tells "order-1" from "order-12", at one service.
    if (attempt === undefined || String(request.origin) !== new URL(url).origin) return;
    if (!String(headers).includes(`\r\nIdempotency-Key: ${attempt}\r\n`)) return;
    isSent = true;
    readRaw = watchReply(socket);
  };
  const onUnsentAbort = () => {
    if (!isSent) unsent.abort(init.unsentSignal?.reason);
  };
  subscribe("undici:client:sendHeaders", onHeaders);
  init.unsentSignal?.addEventListener("abort", onUnsentAbort);
  if (init.unsentSignal?.aborted) onUnsentAbort();
  return {
    signal: init.signal ? AbortSignal.any([init.signal, unsent.signal]) : unsent.signal,
    wasSent: () => isSent,
    get readRaw() {
      return readRaw;
    },
    stop() {
      unsubscribe("undici:client:sendHeaders", onHeaders);
      init.unsentSignal?.removeEventListener("abort", onUnsentAbort);
    },
  };
}
