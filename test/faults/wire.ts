import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";

/** A request as it came over the wire. */
export type WireRequest = { method: string; path: string; headers: Record<string, string>; body: string };

export type Handlers = {
  /** Answers by writing bytes; the next request of a connection is read when it resolves. */
  onRequest?(request: WireRequest, socket: Socket): Promise<void> | void;
  /** Sees a connection before a byte of it is read; `true` when it needs no more reading. */
  onConnection?(socket: Socket): boolean;
  /** Sees a request whose body is still to come; `true` when it needs no more reading. */
  onHead?(request: WireRequest, socket: Socket): boolean;
};

export type Listener = { port: number; close(): Promise<void> };

export type ListenOptions = { port?: number; tls?: { key: string; cert: string } };

/** Listens on loopback and speaks HTTP/1.1 byte by byte: what goes back is up to the handlers. */
export async function listen(handlers: Handlers, { port = 0, tls }: ListenOptions = {}): Promise<Listener> {
  const sockets = new Set<Socket>();
  const onSocket = (socket: Socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
    if (!handlers.onConnection?.(socket)) read(socket, handlers);
  };
  const server = tls ? createTlsServer(tls, onSocket) : createServer(onSocket);
  server.on("tlsClientError", () => {});
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

function read(socket: Socket, handlers: Handlers): void {
  let pending = Buffer.alloc(0);
  let isBusy = false;
  socket.on("data", async (chunk) => {
    pending = Buffer.concat([pending, chunk]);
    if (isBusy) return;
    isBusy = true;
    for (;;) {
      const end = pending.indexOf("\r\n\r\n");
      if (end === -1) break;
      const request = readHead(pending.subarray(0, end).toString("latin1"));
      if (handlers.onHead?.(request, socket)) return;
      const length = end + 4 + Number(request.headers["content-length"] ?? 0);
      if (pending.length < length) break;
      request.body = pending.subarray(end + 4, length).toString();
      pending = pending.subarray(length);
      await handlers.onRequest?.(request, socket);
    }
    isBusy = false;
  });
}

function readHead(head: string): WireRequest {
  const [line = "", ...rest] = head.split("\r\n");
  const [method = "", path = ""] = line.split(" ");
  const headers = Object.fromEntries(
    rest.map((text) => {
      const at = text.indexOf(":");
      return [text.slice(0, at).toLowerCase(), text.slice(at + 1).trim()];
    }),
  );
  return { method, path, headers, body: "" };
}

/** Writes, and resolves once the bytes are with the system (or the other side has gone). */
export function send(socket: Socket, bytes: string | Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed || socket.writableEnded) return resolve();
    socket.write(bytes, () => resolve());
  });
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A reset after the other side has had the time to read: it throws away what is unread there. */
export async function resetLater(socket: Socket): Promise<void> {
  await pause(15);
  socket.resetAndDestroy();
}

type Headers = Record<string, string | number>;

/** The head of a reply, exactly as given. */
export function head(status: number | string, headers: Headers = {}): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${typeof status === "number" ? "x" : ""}\r\n${lines.join("")}\r\n`;
}

/** A whole and honest reply. */
export function reply(socket: Socket, status: number, body: string | Uint8Array, headers: Headers = {}): Promise<void> {
  const bytes = Buffer.from(body as string);
  const type = typeof body === "string" && !("Content-Type" in headers) ? { "Content-Type": "application/json" } : {};
  const length = status === 204 || status === 304 ? {} : { "Content-Length": bytes.length };
  return send(socket, Buffer.concat([Buffer.from(head(status, { ...type, ...length, ...headers }), "latin1"), bytes]));
}

/** One chunk of a chunked body; an empty one ends it. */
export function chunk(bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
}
