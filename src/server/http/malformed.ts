import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { Clock } from "../../io.ts";

/** `turn` is 1 for the first request of its connection. */
export type Exchange = { incoming: IncomingMessage; outgoing: ServerResponse; turn: number };

/** For how long a client may read why it was refused while it still sends; cut at once, it would see a reset alone. */
const lingerMs = 1_000;

/** Answers what never becomes a request: malformed, too large or too slow, and CONNECT. `current` gives the last request of a connection. */
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
    const refuseIt = () => void refuse(socket, rawRefusal(405, "method_not_allowed", "CONNECT is not taken"));
    const { outgoing } = current(socket) ?? {};
    if (outgoing && !outgoing.writableFinished) outgoing.once("finish", refuseIt);
    else refuseIt();
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (answered.has(socket)) return;
    const { incoming, outgoing } = current(socket) ?? {};
    const isAnswering = outgoing !== undefined && !outgoing.writableFinished;
    const refuseIt = () => void refuse(socket, refusalFor(error));
    if (!isAnswering) return refuseIt();
    // It was the request after this one: its turn comes when the reply under way is through.
    if (incoming?.complete) outgoing.once("finish", refuseIt);
    // Replies to requests before it are under way.
    else if (outgoing.socket === null) outgoing.once("socket", refuseIt);
    else if (outgoing.headersSent) socket.destroy();
    else refuseIt();
  });
}

function refusalFor({ code }: NodeJS.ErrnoException): string {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return rawRefusal(408, "request_timeout", "the request took too long to come");
  if (code === "HPE_HEADER_OVERFLOW") return rawRefusal(431, "headers_too_large", "the headers are larger than 16 KiB");
  return rawRefusal(400, "malformed_request", "this is no HTTP request");
}

/** The service's error as it stands on the wire, for sockets without a `ServerResponse`. */
function rawRefusal(status: number, code: string, message: string): string {
  const body = JSON.stringify({ error: { code, message } });
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...["Connection: close", "Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`],
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}
