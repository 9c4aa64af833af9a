import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, isIP, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { getRequestListener, type HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Clock } from "../../io.ts";
import { createFence, type Fence } from "./fence.ts";
import { answerMalformed, type Exchange } from "./malformed.ts";
import { errorResponse, type Handler, refuse } from "./message.ts";

export type Listening = {
  /** Such as "http://127.0.0.1:8787". */
  url: string;
  /** Accepts no further connection, lets replies under way finish, and cuts what is still open after `graceMs`. */
  close(graceMs: number): Promise<void>;
};

export type ListenOptions = {
  host: string;
  port: number;
  /** Names besides localhost and the address itself by which clients may call the service, with or without a port. */
  names?: string[];
  limits?: Partial<typeof defaultLimits>;
};

const defaultLimits = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 500,
  keepAliveTimeout: 5_000,
  /** How long a client may take nothing of its reply, in milliseconds; Node may grant it twice. */
  stalledTimeout: 12_000,
  maxHeaderSize: 16_384,
  maxConnections: 512,
  /** Per connection. Counted here: Node answers a further request, if it is there already, with an empty 503. */
  maxRequests: 1_000,
  /** More than the API reads, so that a client that sends too much in good faith gets the API's own refusal. */
  maxBodyBytes: 8_000_000,
};

/**
 * Puts a handler on a socket. Only requests that were meant for this service reach it, see `createFence`, and a request's `signal` aborts
 * when its client has gone. Rejects with the system's error, such as EADDRINUSE.
 */
export async function listen(
  handler: Handler,
  options: ListenOptions,
  clock: Pick<Clock, "sleep">,
): Promise<Listening> {
  const limits = { ...defaultLimits, ...options.limits };
  // Without a Host, Node would answer by itself, with an empty body.
  const server = createServer({ ...limits, requireHostHeader: false });
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => sockets.add(socket.once("close", () => sockets.delete(socket))));
  server.maxConnections = limits.maxConnections;
  server.timeout = limits.stalledTimeout;
  server.listen(options.port, options.host);
  await once(server, "listening");
  // Such as an accept that fails because too many files are open: the next one may succeed.
  server.on("error", () => {});
  const { url, port } = addressOf(server);
  const fence = createFence(port, [...(isIP(options.host) === 0 ? [options.host] : []), ...(options.names ?? [])]);
  serveRequests(server, handler, { fence, limits, clock });
  return { url, close: (graceMs) => close(server, sockets, { graceMs, clock }) };
}

type Serving = { fence: Fence; limits: typeof defaultLimits; clock: Pick<Clock, "sleep"> };

function serveRequests(server: Server, handler: Handler, { fence, limits, clock }: Serving): void {
  const exchanges = new WeakMap<Duplex, Exchange>();
  const answer = createListener(server, handler);
  const take = async (incoming: IncomingMessage, outgoing: ServerResponse, refusal = fence(incoming)) => {
    const { socket } = incoming;
    const turn = (exchanges.get(socket)?.turn ?? 0) + 1;
    exchanges.set(socket, { incoming, outgoing, turn });
    // Requests that a client sends before it has read a reply are handled one by one, so that a thousand of them open one file at a time.
    // The turn of those after a last reply never comes.
    if (outgoing.socket === null) await once(outgoing, "socket");
    // The request's body has turned out malformed meanwhile, and has been answered.
    if (!socket.writable) return;
    if (turn === limits.maxRequests) outgoing.setHeader("Connection", "close");
    limitBody(outgoing, limits.maxBodyBytes);
    // A connection that is kept alive would hold up `close` after the reply that `close` has waited for.
    outgoing.once("close", () => server.listening || socket.destroySoon());
    await (refusal ? send(errorResponse(refusal), outgoing) : answer(incoming, outgoing));
  };
  const serve = (...request: Parameters<typeof take>) => void take(...request).catch(() => request[0].socket.destroy());
  server.on("request", (incoming, outgoing) => serve(incoming, outgoing));
  server.on("checkExpectation", (incoming, outgoing) =>
    serve(incoming, outgoing, refuse(417, "expectation_failed", "only Expect: 100-continue is known")),
  );
  // Nothing has gone either way for a while. A client whose reply is still to be made has done nothing wrong.
  server.on("timeout", (socket) => {
    const { outgoing } = exchanges.get(socket) ?? {};
    const isWaiting = outgoing !== undefined && !outgoing.writableFinished;
    if (socket.writableLength > 0 || !isWaiting) socket.destroy();
  });
  answerMalformed(server, (socket) => exchanges.get(socket), clock);
}

/**
 * hono's adapter between Node's requests and the handler. It replaces the global Request and Response with its own lighter ones, as it does by
 * default: with Node's own, a status read takes more than twice the time.
 */
function createListener(server: Server, handler: Handler) {
  const respond = async (request: Request, bindings: HttpBindings) => {
    const { outgoing } = bindings;
    const response = await handler(request, bindings).catch(errorResponse);
    outgoing.req.resume();
    // The client has gone, or the handler or `limitBody` has sent a reply.
    if (outgoing.headersSent || outgoing.destroyed) {
      await response.body?.cancel().catch(() => {});
      return RESPONSE_ALREADY_SENT;
    }
    if (!server.listening) outgoing.setHeader("Connection", "close");
    return response;
  };
  return getRequestListener((request, bindings) => respond(request, bindings as HttpBindings), {
    // By default, half a second after the reply it cuts a client that still sends its body and may not have read the reply.
    autoCleanupIncoming: false,
    errorHandler: () => errorResponse(refuse(400, "invalid_target", "the request target is not a valid path")),
  });
}

/**
 * Refuses and cuts a body that is longer than any handler reads. What a handler leaves must be read by `resume` before the reply ends: Node
 * would drop it, uncounted.
 */
function limitBody(outgoing: ServerResponse, maxBytes: number): void {
  const incoming = outgoing.req;
  let length = 0;
  const count = async (chunk: Buffer) => {
    length += chunk.length;
    if (length <= maxBytes) return;
    incoming.off("data", count);
    const refusal = refuse(400, "body_too_large", "the body is larger than 1 MB");
    if (!outgoing.headersSent) await send(errorResponse(refusal), outgoing);
    incoming.destroy(new Error(`the body is larger than ${maxBytes} bytes`));
  };
  // A listener that is there any earlier would make the body flow before somebody reads it.
  incoming.once("resume", () => incoming.on("data", count));
}

async function send(response: Response, outgoing: ServerResponse): Promise<void> {
  const text = await response.text();
  outgoing.req.resume();
  const headers = { ...Object.fromEntries(response.headers), "Content-Length": Buffer.byteLength(text) };
  outgoing.writeHead(response.status, headers).end(text);
}

function addressOf(server: Server): { url: string; port: number } {
  const { address: bound, family, port } = server.address() as AddressInfo;
  // Nobody can connect to "any address"; this machine itself is one of them.
  const address = { "0.0.0.0": "127.0.0.1", "::": "::1" }[bound] ?? bound;
  return { url: `http://${family === "IPv6" ? `[${address}]` : address}:${port}`, port };
}

type Closing = { graceMs: number; clock: Pick<Clock, "sleep"> };

async function close(server: Server, sockets: Set<Socket>, { graceMs, clock }: Closing): Promise<void> {
  const closed = new AbortController();
  server.close(() => closed.abort());
  // Node takes a connection on which nothing was ever asked for a busy one.
  for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
  await clock.sleep(graceMs, closed.signal).catch(() => {});
  for (const socket of sockets) socket.destroy();
}
