import { type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { Clock } from "../../io.ts";
import { errorBody } from "./message.ts";

/** The reply to a request; `number` counts the requests of the connection, from 1. */
export type Exchange = { outgoing: ServerResponse; number: number };

/** How long a refused connection stays open, because a client that is still sending would otherwise see a reset instead of the reply. */
const lingerMs = 1_000;

/**
 * Refuses requests that never reach a handler: malformed ones, too large headers, too slow ones, and CONNECT. `exchanges` maps each connection to its
 * last exchange.
 */
export function answerMalformed(
  server: Server,
  exchanges: WeakMap<Duplex, Exchange>,
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
    const sendRefusal = () => void refuse(socket, rawReply(405, "method_not_allowed", "CONNECT is not supported"));
    const { outgoing } = exchanges.get(socket) ?? {};
    if (outgoing && !outgoing.writableFinished) outgoing.once("finish", sendRefusal);
    else sendRefusal();
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (answered.has(socket)) return;
    const { outgoing } = exchanges.get(socket) ?? {};
    const sendRefusal = () => void refuse(socket, replyTo(error));
    if (!outgoing || outgoing.writableFinished) return sendRefusal();
    // The error is in the next request: its refusal follows the unfinished reply.
    if (outgoing.req.complete) outgoing.once("finish", sendRefusal);
    // The error is in this request's body, and replies to earlier requests are unfinished.
    else if (outgoing.socket === null) outgoing.once("socket", sendRefusal);
    else if (outgoing.headersSent) socket.destroy();
    else sendRefusal();
  });
}

function replyTo({ code }: NodeJS.ErrnoException): string {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return rawReply(408, "request_timeout", "the request took too long to arrive");
  if (code === "HPE_HEADER_OVERFLOW") return rawReply(431, "headers_too_large", "the headers are larger than 16 KiB");
  return rawReply(400, "malformed_request", "this is not an HTTP request");
}

/** Returns an error of the service as HTTP text, for a socket without a `ServerResponse`. */
function rawReply(status: number, code: string, message: string): string {
  const body = JSON.stringify(errorBody(status, code, message));
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...["Connection: close", "Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`],
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}
