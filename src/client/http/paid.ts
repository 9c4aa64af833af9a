import { on } from "node:events";
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { type FetchInit, type Io, RequestError } from "../../io.ts";
import { connect } from "./connection.ts";
import { decodeBody } from "./content-coding.ts";
import { breakOff, fallbackToRaw, keepReply, type ReadRaw } from "./raw-reply.ts";

/** As many chunks of a body may wait for their reader. */
const maxWaitingChunks = 16;

/** The body comes without its Content-Encoding. */
export type Reply = { statusCode: number; headers: IncomingHttpHeaders; body: AsyncIterable<Uint8Array> };

/**
 * Sends a POST, which may cost money, over a connection of its own. Until that connection is made, no byte of the request was written. From
 * then on the request counts as sent, and what comes over the connection is kept, whether or not Node can read it as a reply.
 */
export async function sendPaid(address: string, init: FetchInit, env: Io["env"]): Promise<Reply> {
  const { unsentSignal, beforeSend } = init;
  const signal = init.signal ?? new AbortController().signal;
  const connecting = unsentSignal ? AbortSignal.any([signal, unsentSignal]) : signal;
  let socket: Socket | undefined;
  let readRaw: ReadRaw | undefined;
  try {
    const url = new URL(address);
    socket = await connect(url, env, connecting);
    connecting.throwIfAborted();
    beforeSend?.();
    const post = createPost(url, init, socket, signal);
    // Sent from here on.
    readRaw = keepReply(socket);
    const reply = await replyTo(post.end(init.body), signal);
    return { ...reply, body: fallbackToRaw(reply.body, readRaw) };
  } catch (cause) {
    socket?.destroy();
    const error = signal.aborted ? signal.reason : cause;
    const raw = readRaw?.();
    if (raw) return { statusCode: raw.status, headers: {}, body: breakOff(raw.body, error) };
    throw new RequestError(error, { sent: readRaw !== undefined });
  }
}

/** A request that is written once it is ended. Throws where a header cannot be sent. */
function createPost(url: URL, init: FetchInit, socket: Socket, signal: AbortSignal): ClientRequest {
  const headers = { Host: url.host, "User-Agent": "vidgen", ...init.headers };
  const path = url.pathname + url.search;
  return request({ method: "POST", path, headers, signal, createConnection: () => socket });
}

/** Resolves with a reply once its head has come. */
function replyTo(sent: ClientRequest, signal: AbortSignal): Promise<Reply> {
  return new Promise((resolve, reject) => {
    sent.once("response", (reply) => {
      const { statusCode = 0, headers } = reply;
      resolve({ statusCode, headers, body: decodeBody(readBody(reply, signal), headers["content-encoding"] ?? "") });
    });
    sent.on("error", reject);
    sent.once("close", () => reject(new Error("the connection was closed without a response")));
  });
}

/**
 * The chunks of a body. One that breaks off rejects after all that came before: with the signal's reason where that has aborted. Leaving the
 * loop early closes the connection.
 */
function readBody(reply: IncomingMessage, signal: AbortSignal): AsyncIterable<Uint8Array> {
  // From now on: nothing is lost when the connection breaks, and it ends with the reply though nobody may read that.
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
