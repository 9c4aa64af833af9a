import type { Readable } from "node:stream";

/** Far more than any reply of the interface. */
export const maxReplyBytes = 1024 * 1024;

/** Returns the raw bytes of a reply, up to 1 MiB; `undefined` before the first byte of its body. */
export type ReadRaw = () => { status: number; body: Uint8Array } | undefined;

/** Interim replies (RFC 9110, section 15.2), except 101, which switches to another protocol. */
const interimReplies = /^(?:HTTP\/1\.[01] 1(?!01)\d\d.*?\r?\n\r?\n)+/s;

/** The final reply: its status, and its body without the line that states the size of a first chunk. */
const finalReply = /^HTTP\/[\d.]+ (\d{3})\b.*?\r?\n\r?\n(?:[\da-f]+[ \t]*\r?\n)?(.+)/is;

/** Keeps the bytes received on a connection, because Node drops the body of a reply whose head or first chunk is malformed. */
export function keepReply(socket: Readable): ReadRaw {
  // As latin1, one character is one byte.
  let received = "";
  const keep = (chunk: Buffer) => {
    received += chunk.toString("latin1");
    if (received.length > maxReplyBytes) socket.off("data", keep);
  };
  // Runs before Node's own listener, which may throw. Unlike `on`, this does not start reading.
  socket.prependListener("data", keep);
  return () => {
    const [, status, body] = finalReply.exec(received.replace(interimReplies, "")) ?? [];
    return body === undefined ? undefined : { status: Number(status), body: Buffer.from(body, "latin1") };
  };
}

/** Passes on a body. If it fails before the first chunk, its raw bytes come before the error. */
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

/** A body that ends with `error` after these bytes. */
export async function* breakOff(bytes: Uint8Array, error: unknown): AsyncGenerator<Uint8Array> {
  yield bytes;
  throw error;
}
