import type { Readable } from "node:stream";

/** Far more than any reply of the interface. */
export const maxReplyBytes = 1024 * 1024;

/** Returns the first MiB of a reply as its bytes came; `undefined` before a byte of its body has come. */
export type ReadRaw = () => { status: number; body: Uint8Array } | undefined;

/** What may come before the reply (RFC 9110, section 15.2). 101 is no such reply: another protocol would follow it. */
const interimReplies = /^(?:HTTP\/1\.[01] 1(?!01)\d\d.*?\r?\n\r?\n)+/s;

/** The size of a first chunk is no part of the body. */
const finalReply = /^HTTP\/[\d.]+ (\d{3})\b.*?\r?\n\r?\n(?:[\da-f]+[ \t]*\r?\n)?(.+)/is;

/** Keeps what comes over a connection: when the head or the first chunk of a reply breaks the rules of HTTP, Node passes on none of its body. */
export function keepReply(socket: Readable): ReadRaw {
  // As latin1, one character is one byte.
  let received = "";
  const keep = (chunk: Buffer) => {
    received += chunk.toString("latin1");
    if (received.length > maxReplyBytes) socket.off("data", keep);
  };
  // Before Node's own listener, which reports an error. Unlike `on`, this does not start the reading.
  socket.prependListener("data", keep);
  return () => {
    const [, status, body] = finalReply.exec(received.replace(interimReplies, "")) ?? [];
    return body === undefined ? undefined : { status: Number(status), body: Buffer.from(body, "latin1") };
  };
}

/** A body. When it fails before any of it could be read, it is passed on as its bytes came. */
export async function* fallbackToRaw(body: AsyncIterable<Uint8Array>, readRaw: ReadRaw): AsyncGenerator<Uint8Array> {
  let isEmpty = true;
  try {
    for await (const chunk of body) {
      isEmpty = false;
      yield chunk;
    }
  } catch (error) {
    const raw = isEmpty ? readRaw() : undefined;
    if (raw) yield raw.body;
    throw error;
  }
}

/** A body that breaks off with `error` after these bytes. */
export async function* breakOff(bytes: Uint8Array, error: unknown): AsyncGenerator<Uint8Array> {
  yield bytes;
  throw error;
}
