import { on } from "node:events";
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { type FetchInit, type Io, RequestError } from "../../io.ts";
import { connect } from "./connection.ts";
import { decodeBody } from "./content-coding.ts";
import { breakOff, fallbackToRaw, keepReply, type ReadRaw } from "./raw-reply.ts";

/** The maximum number of unread chunks of a body. */
const maxWaitingChunks = 16;

/** A body is written in parts of this size, because each accepted part counts as progress. */
const partBytes = 16_384;

/** A reply with a decoded body. */
export type RawReply = { statusCode: number; headers: IncomingHttpHeaders; body: AsyncIterable<Uint8Array> };

/**
 * Sends a POST, which may cost money, over a new connection. No byte of the request is written before the
 * connection is open. From then on the request counts as sent, and all received bytes are kept, even if Node
 * cannot parse them as a reply.
 */
export async function postPaid(address: string, init: FetchInit, env: Io["env"]): Promise<RawReply> {
  const { unsentSignal, beforeSend, reach } = init;
  const signal = init.signal ?? new AbortController().signal;
  const connecting = unsentSignal ? AbortSignal.any([signal, unsentSignal]) : signal;
  let socket: Socket | undefined;
  let readRaw: ReadRaw | undefined;
  try {
    const url = new URL(address);
    socket = await connect(url, env, { signal: connecting, reach });
    connecting.throwIfAborted();
    beforeSend?.();
    const body = Buffer.from(init.body ?? "");
    const post = createPost(url, init, { length: body.length, socket, signal });
    // From here on, the request counts as sent.
    readRaw = keepReply(socket);
    socket.prependListener("data", () => init.onReceived?.());
    const replied = replyTo(post, signal);
    writeBody(post, body, init.onUpload);
    const reply = await replied;
    return { ...reply, body: fallbackToRaw(reply.body, readRaw) };
  } catch (cause) {
    socket?.destroy();
    const error = signal.aborted ? signal.reason : cause;
    const raw = readRaw?.();
    if (raw) return { statusCode: raw.status, headers: {}, body: breakOff(raw.body, error) };
    throw new RequestError(error, { sent: readRaw !== undefined });
  }
}

/** Creates the request. Nothing is written before the body. Throws for an invalid header. */
function createPost(
  url: URL,
  { headers: ownHeaders }: FetchInit,
  { length, socket, signal }: { length: number; socket: Socket; signal: AbortSignal },
): ClientRequest {
  const headers = { Host: url.host, "User-Agent": "vidgen", ...ownHeaders, "Content-Length": length };
  const path = url.pathname + url.search;
  return request({ method: "POST", path, headers, signal, createConnection: () => socket });
}

/** Writes a body part by part, each after the system has accepted the previous one. Errors are emitted by the request. */
function writeBody(post: ClientRequest, body: Uint8Array, onUpload: (bytesLeft: number) => void = () => {}): void {
  const part = body.subarray(0, partBytes);
  const rest = body.subarray(partBytes);
  const onAccepted = (error?: Error | null) => {
    if (error) return;
    onUpload(rest.length);
    if (rest.length > 0) writeBody(post, rest, onUpload);
  };
  if (rest.length > 0) post.write(part, onAccepted);
  else post.end(part, onAccepted);
}

/** Resolves with a reply once its head has arrived. */
function replyTo(post: ClientRequest, signal: AbortSignal): Promise<RawReply> {
  return new Promise((resolve, reject) => {
    post.once("response", (reply) => {
      const { statusCode = 0, headers } = reply;
      resolve({ statusCode, headers, body: decodeBody(readBody(reply, signal), headers["content-encoding"] ?? "") });
    });
    post.on("error", reject);
    post.once("close", () => reject(new Error("the connection was closed without a response")));
  });
}

/**
 * Yields the chunks of a body. If the body is cut off, the iteration rejects after the chunks that arrived,
 * with the signal's reason after an abort. Leaving the loop early closes the connection.
 */
function readBody(reply: IncomingMessage, signal: AbortSignal): AsyncIterable<Uint8Array> {
  // Starts now, so that no chunk is lost if the connection breaks before the body is read.
  const chunks = on(reply, "data", { close: ["end"], highWaterMark: maxWaitingChunks });
  const read = async function* () {
    try {
      for await (const [chunk] of chunks) yield chunk as Uint8Array;
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      reply.destroy();
    }
  };
  return read();
}
