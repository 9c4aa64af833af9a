import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { Clock } from "../../io.ts";

/** A request and its reply; `turn` is 1 for the first request of its connection. */
export type Exchange = { incoming: IncomingMessage; outgoing: ServerResponse; turn: number };

/** How long a client that still sends may read why it was refused. Cut at once, it would see only a reset. */
const lingerMs = 1_000;

/** Answers what never becomes a request: malformed, too large or too slow, and CONNECT. `current` gives the last exchange of a connection. */
export function answerMalformed(
  server: Server,
  current: (socket: Duplex) => Exchange | undefined,
  clock: Pick<Clock, "sleep">,
): void {
  const answered = new WeakSet<Duplex>();
  const refuse = async (socket: Duplex, reply: string) => {
    if (!socket.writable) return void socket.destroy();
    answered.add(socket);
    socket.end(reply);
    await clock.sleep(lingerMs);
    socket.destroy();
  };
  server.on("connect", (_, socket) => {
    socket.on("error", () => socket.destroy()).resume();
    const refuseIt = () => void refuse(socket, rawReply(405, "method_not_allowed", "CONNECT is not taken"));
    const { outgoing } = current(socket) ?? {};
    if (outgoing && !outgoing.writableFinished) outgoing.once("finish", refuseIt);
    else refuseIt();
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (answered.has(socket)) return;
    const { incoming, outgoing } = current(socket) ?? {};
    const refuseIt = () => void refuse(socket, replyTo(error));
    if (!outgoing || outgoing.writableFinished) return refuseIt();
    // The error is in the request after this one: its turn comes after the reply under way.
    if (incoming?.complete) outgoing.once("finish", refuseIt);
    // The error is in this one's body, and replies to earlier requests are under way.
    else if (outgoing.socket === null) outgoing.once("socket", refuseIt);
    else if (outgoing.headersSent) socket.destroy();
    else refuseIt();
  });
}

function replyTo({ code }: NodeJS.ErrnoException): string {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return rawReply(408, "request_timeout", "the request took too long to come");
  if (code === "HPE_HEADER_OVERFLOW") return rawReply(431, "headers_too_large", "the headers are larger than 16 KiB");
  return rawReply(400, "malformed_request", "this is no HTTP request");
}

/** The service's error as bytes, for a socket without a `ServerResponse`. */
function rawReply(status: number, code: string, message: string): string {
  const body = JSON.stringify({ error: { code, message } });
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...["Connection: close", "Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`],
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}
