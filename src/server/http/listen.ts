import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, isIP, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "../../io.ts";
import type { Handler } from "../app.ts";
import { createBody } from "./body.ts";
import { createFence, type Fence } from "./fence.ts";
import { toRequest } from "./incoming.ts";
import { answerMalformed, type Exchange } from "./malformed.ts";
import { writeKnownReply, writeReply } from "./outgoing.ts";
import { type Refusal, refusalResponse, refuse } from "./refusal.ts";
import { readKnownReply } from "./reply.ts";

export type Listening = {
  /** Such as "http://127.0.0.1:8787". */
  url: string;
  /** Takes no further connection, lets replies under way finish, and cuts what is still open after `graceMs`. */
  close(graceMs: number): Promise<void>;
};

export type ListenAt = {
  host: string;
  port: number;
  /** Names besides localhost and the address itself by which clients may call the service, with or without a port. */
  names?: string[];
  limits?: Partial<typeof usualLimits>;
};

const usualLimits = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 500,
  keepAliveTimeout: 5_000,
  /** For how long a client may take nothing of its reply; Node may grant it twice. */
  stalledTimeout: 12_000,
  maxHeaderSize: 16_384,
  maxConnections: 512,
  /** Counted here: Node answers the next one, if it is there already, with an empty 503. */
  mostRequests: 1_000,
  /** More than any handler takes, so that it can be the one to refuse a body that a client sends in good faith. */
  maxBodyBytes: 8_000_000,
};

/**
 * Puts a handler on a socket. Only requests that were meant for this service reach it, see `createFence`, and a request's `signal` aborts
 * when its client has gone. Rejects with the system's error, such as EADDRINUSE.
 */
export async function listen(handler: Handler, at: ListenAt, clock: Pick<Clock, "sleep">): Promise<Listening> {
  const limits = { ...usualLimits, ...at.limits };
  // Without a Host, Node would answer by itself, with an empty body.
  const server = createServer({ ...limits, requireHostHeader: false });
  const open = new Set<Socket>();
  server.on("connection", (socket) => open.add(socket.once("close", () => open.delete(socket))));
  server.maxConnections = limits.maxConnections;
  server.timeout = limits.stalledTimeout;
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(at.port, at.host, () => resolve()));
  const { url, port } = addressOf(server);
  const names = [...(isIP(at.host) === 0 ? [at.host] : []), ...(at.names ?? [])];
  const fence = createFence(port, names);
  serve(server, clock, { handler, url, fence, limits, isClosing: () => !server.listening });
  return { url, close: (graceMs) => close(server, open, { graceMs, clock }) };
}

type Serving = {
  handler: Handler;
  url: string;
  fence: Fence;
  limits: typeof usualLimits;
  isClosing(): boolean;
};

function serve(server: Server, clock: Pick<Clock, "sleep">, serving: Serving): void {
  const exchanges = new WeakMap<Duplex, Exchange>();
  const take = (incoming: IncomingMessage, outgoing: ServerResponse, refusal = serving.fence(incoming)) => {
    const { socket } = incoming;
    const turn = (exchanges.get(socket)?.turn ?? 0) + 1;
    // The reply before has ended the connection.
    if (turn > serving.limits.mostRequests) return;
    const exchange = { incoming, outgoing, turn };
    exchanges.set(socket, exchange);
    answer(exchange, refusal, serving).catch(() => socket.destroy());
  };
  server.on("request", (incoming, outgoing) => take(incoming, outgoing));
  server.on("checkExpectation", (incoming, outgoing) =>
    take(incoming, outgoing, refuse(417, "expectation_failed", "only Expect: 100-continue is known")),
  );
  // Nothing has gone either way for a while. Whoever waits for a reply that is still to be made has done nothing wrong.
  server.on("timeout", (socket) => {
    const { outgoing } = exchanges.get(socket) ?? {};
    const isWaiting = outgoing !== undefined && !outgoing.writableFinished;
    if (socket.writableLength > 0 || !isWaiting) socket.destroy();
  });
  answerMalformed(server, (socket) => exchanges.get(socket), clock);
}

async function answer(exchange: Exchange, refusal: Refusal | undefined, serving: Serving): Promise<void> {
  const { incoming, outgoing, turn } = exchange;
  const { handler, url, limits } = serving;
  if (outgoing.socket === null) await itsTurn(outgoing);
  // Its body has turned out malformed meanwhile, and has been answered so.
  if (!incoming.socket.writable) return;
  const body = createBody(incoming, limits.maxBodyBytes, () => refuseBody(exchange));
  const response = refusal
    ? refusalResponse(refusal)
    : await handler(toRequest(incoming, { url: url + incoming.url, body, outgoing }));
  if (outgoing.headersSent || outgoing.destroyed) return void response.body?.cancel().catch(() => {});
  if (serving.isClosing() || turn === limits.mostRequests) outgoing.shouldKeepAlive = false;
  const known = readKnownReply(response);
  if (!known) {
    // Kept alive, a connection would outlive the reply that `close` waits for.
    outgoing.once("close", () => serving.isClosing() && incoming.socket.destroySoon());
    return writeReply(response, outgoing, () => body?.drain());
  }
  body?.drain();
  writeKnownReply(known, outgoing);
}

/**
 * A client may send the next request before it has read the reply: answered one by one, a thousand of them have no more than one file open.
 * Never resolves when the connection ends before.
 */
function itsTurn(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => outgoing.once("socket", () => resolve()));
}

/** Only for a body that no handler takes: what its handler answers later has nobody to read it. */
function refuseBody({ incoming, outgoing }: Exchange): void {
  if (outgoing.headersSent) return void incoming.socket.destroy();
  outgoing.shouldKeepAlive = false;
  const refusal = refusalResponse(refuse(400, "body_too_large", "the body is larger than 1 MB"));
  writeReply(refusal, outgoing, () => {}).catch(() => outgoing.destroy());
}

function addressOf(server: Server): { url: string; port: number } {
  const { address: bound, family, port } = server.address() as AddressInfo;
  // "Any address" is none to go to: this machine itself is.
  const address = { "0.0.0.0": "127.0.0.1", "::": "::1" }[bound] ?? bound;
  return { url: `http://${family === "IPv6" ? `[${address}]` : address}:${port}`, port };
}

async function close(
  server: Server,
  open: Set<Socket>,
  { graceMs, clock }: { graceMs: number; clock: Pick<Clock, "sleep"> },
): Promise<void> {
  const closed = new AbortController();
  server.close(() => closed.abort());
  // Node takes a connection on which nothing was ever asked for a busy one.
  for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
  await clock.sleep(graceMs, closed.signal).catch(() => {});
  for (const socket of open) socket.destroy();
}
