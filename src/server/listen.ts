import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Clock } from "../io.ts";
import type { Handler } from "./app.ts";

export type Listening = {
  /** Such as "http://127.0.0.1:8787". */
  url: string;
  /** Takes no further connection, lets replies under way finish, and cuts what is still open after `graceMs`. */
  close(graceMs: number): Promise<void>;
};

/** Puts a handler on a socket. Rejects with the system's error, such as EADDRINUSE. */
export async function listen(
  handler: Handler,
  at: { host: string; port: number },
  clock: Pick<Clock, "sleep">,
): Promise<Listening> {
  const server = createServer({ connectionsCheckingInterval: 1_000, headersTimeout: 10_000, requestTimeout: 30_000 });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(at.port, at.host, () => resolve()));
  const url = addressOf(server);
  server.on("request", (request, response) => {
    // Kept alive, a connection would outlive the reply that `close` waits for.
    response.once("close", () => server.listening || request.socket.destroySoon());
    answer(request, response, handler, url).catch(() => response.destroy());
  });
  return { url, close: (graceMs) => close(server, graceMs, clock) };
}

function addressOf(server: Server): string {
  const { address: bound, family, port } = server.address() as AddressInfo;
  // "Any address" is none to go to: this machine itself is.
  const address = { "0.0.0.0": "127.0.0.1", "::": "::1" }[bound] ?? bound;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

async function answer(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  handler: Handler,
  url: string,
): Promise<void> {
  const request = toRequest(incoming, url);
  const response = await handler(request);
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null) outgoing.end();
  else await pipeline(Readable.fromWeb(response.body as import("node:stream/web").ReadableStream), outgoing);
  // What the handler left of a body would hold up the next request of the connection.
  request.body?.pipeTo(new WritableStream()).catch(() => {});
}

/** Only the path of the request's own URL counts: what its Host header says is not used. */
function toRequest(incoming: IncomingMessage, url: string): Request {
  const { method = "GET", headers } = incoming;
  const path = incoming.url?.startsWith("/") ? incoming.url : "/";
  const init: RequestInit = { method: isAllowed(method) ? method : "OPTIONS", headers: toHeaders(headers) };
  if (method === "GET" || method === "HEAD") return new Request(url + path, init);
  return new Request(url + path, {
    ...init,
    body: Readable.toWeb(incoming) as ReadableStream,
    duplex: "half",
  } as RequestInit);
}

/** fetch's Request knows no TRACE and CONNECT; no route takes OPTIONS either. */
function isAllowed(method: string): boolean {
  return !["TRACE", "TRACK", "CONNECT"].includes(method.toUpperCase());
}

function toHeaders(headers: IncomingMessage["headers"]): [string, string][] {
  return Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().map((one): [string, string] => [name, one]),
  );
}

async function close(server: Server, graceMs: number, clock: Pick<Clock, "sleep">): Promise<void> {
  const closed = new AbortController();
  server.close(() => closed.abort());
  await clock.sleep(graceMs, closed.signal).catch(() => {});
  server.closeAllConnections();
}
