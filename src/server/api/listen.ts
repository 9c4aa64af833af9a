import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, isIP, Server as NetServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { getRequestListener, type HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Clock } from "../../io.ts";
import { isLoopbackAddress, unmapAddress } from "../../protocol/addresses.ts";
import { clientAddress } from "../http/client-address.ts";
import { answerMalformed, type Exchange } from "../http/malformed.ts";
import { errorResponse, type Handler, refuse } from "../http/message.ts";
import { type RequestEvent, type RequestLog, readRequestId } from "../observe/log.ts";
import { readTraceparent } from "../observe/trace.ts";
import { createConnections, drainMs } from "./connections.ts";
import { type Cors, corsHeaders } from "./cors.ts";
import { createFence, type Fence, type FenceRefusal } from "./fence.ts";
import { createRequestLimit, type RequestLimit } from "./request-limit.ts";

export type Listening = {
  /** Such as "http://127.0.0.1:8787". */
  url: string;
  /**
   * Accepts no more connections, answers the requests that have arrived, waits for unfinished replies, and destroys the connections that are still
   * open after `graceMs`.
   */
  close(graceMs: number): Promise<void>;
};

export type ListenOptions = {
  host: string;
  port: number;
  /** Host names under which clients may call the service, besides localhost and its address; with or without a port. */
  names?: string[];
  /** The service's origin behind a proxy that adds TLS. */
  publicOrigin?: string | undefined;
  cors?: Cors | undefined;
  /** Whether an address is a proxy whose X-Forwarded-For names the client. */
  isTrusted?: ((address: string) => boolean) | undefined;
  /** Called once for each request, when its reply is sent. */
  onRequest?: ((event: RequestEvent) => void) | undefined;
  /** Whether `onRequest` gets the replies too. */
  withReplies?: boolean | undefined;
  limits?: Partial<typeof defaultLimits>;
};

const defaultLimits = {
  headersTimeout: 10_000,
  /** Long, because an upload may be slow, and after a 408 a client cannot know whether it was charged. */
  requestTimeout: 3_600_000,
  /** The maximum pause in a request's body, in milliseconds. */
  uploadTimeout: 120_000,
  connectionsCheckingInterval: 500,
  /** Longer than proxies keep an idle connection (Caddy 120 s, most others 60 to 90 s); otherwise a POST during the close becomes a 502. */
  keepAliveTimeout: 150_000,
  /** Milliseconds for which a client may read nothing of its reply; Node may wait twice as long. */
  stalledTimeout: 12_000,
  maxHeaderSize: 16_384,
  /** The maximum number of requests in progress; most requests above it get a 429. */
  maxRequests: 512,
  maxConnections: 4_000,
  spareConnections: 500,
  crowdedConnections: 1_000,
  maxPerAddress: 256,
  /** Counted here, because with its own limit Node answers a request that has already arrived with an empty 503. */
  maxRequestsPerConnection: 1_000,
  /** More than the API reads, so that a body that is only a little too large gets the API's own refusal. */
  maxBodyBytes: 36_000_000,
};

/**
 * Serves a handler over HTTP/1.1. Only requests that `createFence` accepts reach the handler, and a request's `signal` aborts when its
 * client disconnects. Rejects with the system's error, such as EADDRINUSE.
 */
export async function listen(
  handler: Handler,
  options: ListenOptions,
  clock: Pick<Clock, "now" | "sleep">,
): Promise<Listening> {
  const limits = { ...defaultLimits, ...options.limits };
  // Node would answer a request without Host itself, with an empty body.
  const server = createServer({ ...limits, requireHostHeader: false });
  const exchanges = new WeakMap<Duplex, Exchange>();
  const stop = new AbortController();
  const { isTrusted = () => false, onRequest = () => {}, withReplies = false } = options;
  const isShared = (address: string) => isLoopbackAddress(address) || isTrusted(address);
  const connections = createConnections<Socket>(limits, isShared, clock);
  server.on("connection", (socket) => {
    if (!connections.add(socket, unmapAddress(socket.remoteAddress ?? ""))) return void socket.destroy();
    socket.once("close", () => connections.remove(socket));
  });
  server.on("request", (incoming, outgoing) => {
    const { socket } = incoming;
    connections.setBusy(socket);
    // With pipelining, the next request may have arrived before this reply has ended.
    outgoing.once("finish", () => {
      if (incoming.complete && exchanges.get(socket)?.outgoing === outgoing) connections.setUsed(socket);
    });
  });
  server.timeout = limits.stalledTimeout;
  server.listen(options.port, options.host);
  await once(server, "listening");
  // Accepting a connection can fail, as when too many files are open; the next one may succeed.
  server.on("error", () => {});
  const { url, port } = boundAddress(server);
  const names = [...(isIP(options.host) === 0 ? [options.host] : []), ...(options.names ?? [])];
  const fence = createFence({ port, names, publicOrigin: options.publicOrigin, cors: options.cors });
  const inProgress = createRequestLimit(limits.maxRequests);
  const serving = {
    fence,
    inProgress,
    limits,
    clock,
    exchanges,
    stopping: stop.signal,
    cors: options.cors,
    isTrusted,
    onRequest,
    withReplies,
  };
  serveRequests(server, handler, serving);
  return { url, close: (graceMs) => close(server, connections.open, { graceMs, clock, stop }) };
}

type Serving = Required<Pick<ListenOptions, "onRequest" | "withReplies">> & {
  isTrusted: NonNullable<ListenOptions["isTrusted"]>;
  fence: Fence;
  cors: Cors | undefined;
  inProgress: RequestLimit;
  limits: typeof defaultLimits;
  clock: Pick<Clock, "now" | "sleep">;
  exchanges: WeakMap<Duplex, Exchange>;
  /** Aborts when the server begins to close. */
  stopping: AbortSignal;
};

function serveRequests(server: Server, handler: Handler, serving: Serving): void {
  const { fence, cors, inProgress, limits, clock, exchanges, stopping, isTrusted, onRequest, withReplies } = serving;
  const logs = new WeakMap<ServerResponse, RequestLog>();
  const answer = createListener(stopping, async (request, bindings) => {
    const log = logs.get(bindings.outgoing);
    const leaveLimit = () => inProgress.leave(bindings.outgoing);
    const response = await handler(request, { ...bindings, leaveLimit, ...(log && { log }) });
    if (log && isJson(response) && (withReplies || !response.ok)) {
      const text = await response.clone().text();
      log.code = errorCodeOf(text);
      if (withReplies) log.replyBody = text;
    }
    return response;
  });
  const take = async (incoming: IncomingMessage, outgoing: ServerResponse, knownRefusal?: FenceRefusal) => {
    const { socket } = incoming;
    const number = (exchanges.get(socket)?.number ?? 0) + 1;
    exchanges.set(socket, { outgoing, number });
    // Pipelined requests are handled one after the other, so that a thousand of them open one file at a time. Those after a reply that
    // closes the connection are never handled.
    if (outgoing.socket === null) await once(outgoing, "socket");
    // `answerMalformed` has refused the request, because its body is malformed.
    if (!socket.writable) return;
    const refused = knownRefusal ?? fence(incoming) ?? inProgress.enter(incoming, outgoing);
    const requestId = readRequestId(incoming.headers["x-request-id"]) ?? randomUUID();
    const log: RequestLog = {
      requestId,
      address: clientAddress(incoming, isTrusted),
      traceparent: readTraceparent(incoming.headers.traceparent),
      isForwarded: forwardingHeaders.some((name) => name in incoming.headers),
      note: refused?.note,
      about: () => ({}),
    };
    const start = clock.now();
    const siteHeaders = corsHeaders(incoming, cors);
    for (const [name, value] of Object.entries({ "X-Request-Id": requestId, ...siteHeaders }))
      outgoing.setHeader(name, value);
    logs.set(outgoing, log);
    outgoing.once("close", () => {
      inProgress.leave(outgoing);
      const { method = "", url: path = "" } = incoming;
      const status = outgoing.headersSent ? outgoing.statusCode : undefined;
      const { about, ...logged } = log;
      onRequest?.({ method, path, status, ms: clock.now() - start, ...logged, ...about() });
    });
    if (number === limits.maxRequestsPerConnection) outgoing.setHeader("Connection", "close");
    limitBody(outgoing, limits.maxBodyBytes, log);
    if (hasBody(incoming)) {
      socket.setTimeout(limits.uploadTimeout);
      // Once the request is answered, Node has set how long the connection may be idle.
      incoming.once("end", () => outgoing.writableFinished || socket.setTimeout(limits.stalledTimeout));
    }
    // `close` waits for this reply, and would then wait for the connection that is kept alive.
    outgoing.once("close", () => !stopping.aborted || socket.destroySoon());
    const isPreflight = siteHeaders?.["Access-Control-Allow-Methods"] !== undefined;
    if (isPreflight && !refused) return void outgoing.writeHead(204).end();
    await (refused ? writeResponse(errorResponse(refused.refusal), outgoing, log) : answer(incoming, outgoing));
  };
  const serve = (...request: Parameters<typeof take>) => void take(...request).catch(() => request[0].socket.destroy());
  server.on("request", (incoming, outgoing) => serve(incoming, outgoing));
  server.on("checkExpectation", (incoming, outgoing) =>
    serve(incoming, outgoing, {
      refusal: refuse(417, "expectation_failed", "only Expect: 100-continue is supported"),
    }),
  );
  // The event means that no data was transferred for a while. A client that waits for the beginning of its reply is not stalled.
  server.on("timeout", (socket) => {
    const { outgoing } = exchanges.get(socket) ?? {};
    const isWaiting = outgoing !== undefined && !outgoing.writableFinished;
    if (socket.writableLength > 0 || !isWaiting) socket.destroy();
    else if (!outgoing.req.complete) server.emit("clientError", requestTimeout(), socket);
  });
  answerMalformed(server, exchanges, clock);
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** The error that Node reports for a request that took longer than `requestTimeout`. */
function requestTimeout(): Error {
  return Object.assign(new Error("Request timeout"), { code: "ERR_HTTP_REQUEST_TIMEOUT" });
}

/** The headers that proxies add. */
const forwardingHeaders = ["via", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/**
 * Returns hono's adapter between Node's requests and the handler. The adapter replaces the global Request and Response with lighter ones, which is
 * its default, because with Node's own classes a status request takes more than twice the time.
 */
function createListener(
  stopping: AbortSignal,
  handler: (request: Request, bindings: HttpBindings) => Promise<Response>,
) {
  const respond = async (request: Request, bindings: HttpBindings) => {
    const { outgoing } = bindings;
    const response = await handler(request, bindings).catch(errorResponse);
    outgoing.req.resume();
    // The client has disconnected, or the handler or `limitBody` has sent a reply.
    if (outgoing.headersSent || outgoing.destroyed) {
      await response.body?.cancel().catch(() => {});
      return RESPONSE_ALREADY_SENT;
    }
    if (stopping.aborted) outgoing.setHeader("Connection", "close");
    return response;
  };
  return getRequestListener((request, bindings) => respond(request, bindings as HttpBindings), {
    // By default the adapter cuts a client that still sends its body half a second after the reply, which it may not have read yet.
    autoCleanupIncoming: false,
    // For requests without Host, which the fence accepts for health checks.
    hostname: "localhost",
    errorHandler: () => errorResponse(refuse(400, "invalid_target", "the request target is not a valid path")),
  });
}

/**
 * Refuses a body that is longer than any handler reads, and cuts its connection. The part that a handler does not read must be consumed by
 * `resume` before the reply ends: Node would discard it without counting.
 */
function limitBody(outgoing: ServerResponse, maxBytes: number, log: RequestLog): void {
  const incoming = outgoing.req;
  let length = 0;
  const count = async (chunk: Buffer) => {
    length += chunk.length;
    if (length <= maxBytes) return;
    incoming.off("data", count);
    const refusal = refuse(413, "body_too_large", "the body is too large");
    if (!outgoing.headersSent) await writeResponse(errorResponse(refusal), outgoing, log);
    incoming.destroy(new Error(`the body is larger than ${maxBytes} bytes`));
  };
  // An earlier listener would make the body flow before the handler reads it.
  incoming.once("resume", () => incoming.on("data", count));
}

function isJson({ headers }: Response): boolean {
  return (headers.get("Content-Type") ?? "").startsWith("application/json");
}

/** Returns the code of a reply that `errorBody` made; `undefined` of another reply. */
function errorCodeOf(text: string): string | undefined {
  return /^\{"error":\{"code":"(\w+)"/.exec(text)?.[1];
}

async function writeResponse(response: Response, outgoing: ServerResponse, log: RequestLog): Promise<void> {
  const text = await response.text();
  log.code = errorCodeOf(text);
  outgoing.req.resume();
  const headers = { ...Object.fromEntries(response.headers), "Content-Length": Buffer.byteLength(text) };
  outgoing.writeHead(response.status, headers).end(text);
}

function boundAddress(server: Server): { url: string; port: number } {
  const { address, family, port } = server.address() as AddressInfo;
  return { url: `http://${family === "IPv6" ? `[${address}]` : address}:${port}`, port };
}

type Closing = { graceMs: number; clock: Pick<Clock, "sleep">; stop: AbortController };

async function close(server: Server, open: () => Iterable<Socket>, { graceMs, clock, stop }: Closing): Promise<void> {
  stop.abort();
  // Waits until the connections that have arrived are accepted, because the system would reset them when the listening socket closes.
  if (graceMs > 0) for (let turn = 0; turn < 2; turn++) await setImmediate();
  const closed = new AbortController();
  // Unlike `close` of node:http, this one keeps idle connections, on which a request may be arriving.
  NetServer.prototype.close.call(server, () => closed.abort());
  if (graceMs > 0) await clock.sleep(drainMs, closed.signal).catch(() => {});
  server.close();
  // Node does not count a connection without any request as idle.
  for (const socket of open()) if (socket.bytesRead === 0) socket.destroy();
  await clock.sleep(graceMs, closed.signal).catch(() => {});
  for (const socket of open()) socket.destroy();
}
