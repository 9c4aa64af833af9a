import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, isIPv6 } from "node:net";
import { isPrivateAddress } from "../../protocol/addresses.ts";
import type { Incoming } from "../../protocol/callback.ts";

export type Endpoint = {
  /** Such as "http://127.0.0.1:8789/". */
  url: string;
  /** Stops listening, and closes open connections. */
  close(): Promise<void>;
};

const limits = {
  /** Milliseconds for the whole request, its body included; Node answers 408 after that. */
  requestTimeout: 10_000,
  headersTimeout: 10_000,
  connectionsCheckingInterval: 500,
};
const maxConnections = 100;
const maxBodyBytes = 1_000_000;

/**
 * Listens on one address, for connections from this machine and private networks only. Each complete request
 * is answered with the HTTP status that `answer` resolves with; `answer` must not reject. Rejects with the
 * system's error, such as EADDRINUSE.
 */
export async function openEndpoint(
  { host, port }: { host: string; port: number },
  answer: (incoming: Incoming) => Promise<number>,
): Promise<Endpoint> {
  const server = createServer(limits, (request, response) => void reply(request, response, answer));
  server.maxConnections = maxConnections;
  // Only one request per connection, because the number of pipelined requests has no limit.
  server.maxRequestsPerSocket = 1;
  server.on("connection", (socket) => {
    if (!isPrivateAddress(socket.remoteAddress ?? "")) socket.destroy();
  });
  server.listen(port, host);
  await once(server, "listening");
  // Accepting a connection can fail, such as with too many open files; the next one may succeed.
  server.on("error", () => {});
  const { port: actualPort } = server.address() as AddressInfo;
  return {
    url: `http://${isIPv6(host) ? `[${host}]` : host}:${actualPort}/`,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function reply(
  request: IncomingMessage,
  response: ServerResponse,
  answer: (incoming: Incoming) => Promise<number>,
): Promise<void> {
  const { method = "", headers } = request;
  try {
    const status = await answer({ method, headers, body: await readBody(request) });
    // Because of maxRequestsPerSocket, Node would announce the end of the connection itself, but then leave it open.
    response.writeHead(status, { Connection: "close" }).end();
  } catch {
    // The sender has closed the connection or timed out, so nobody reads an answer.
    response.destroy();
  }
}

/**
 * Reads a body to its end, even if it is too long, because a sender that is still sending would not read the
 * reply. Rejects if the body is cut off.
 */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length <= maxBodyBytes) chunks.push(chunk);
  }
  return length > maxBodyBytes ? undefined : Buffer.concat(chunks);
}
