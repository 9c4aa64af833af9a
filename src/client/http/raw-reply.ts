import type { Readable } from "node:stream";

/** Far more than any reply of the interface. */
export const maxReplyBytes = 1024 * 1024;

/** Returns the first MiB of a reply as its bytes came; `undefined` before a byte of its body has come. */
export type ReadRaw = () => { status: number; body: Uint8Array } | undefined;

/** An interim reply (RFC 9110, section 15.2). 101 is none: another protocol would follow it. */
const interimReply = /^HTTP\/1\.[01] 1(?!01)\d\d.*?\r?\n\r?\n/s;
const interimStart = /^HTTP\/1\.[01] 1(?!01)\d\d/;
/** A longer head is left to undici, which refuses it. */
const maxInterimBytes = 16 * 1024;

/** The size of a first chunk is no part of the body. */
const finalReply = /^HTTP\/[\d.]+ (\d{3})\b.*?\r?\n\r?\n(?:[\da-f]+[ \t]*\r?\n)?(.+)/is;

/**
 * Reads the connection of a request before undici does, and leaves out interim replies: undici 7 closes the connection at a 100 (Continue).
 * Also keeps the final reply: when its head or its first chunk breaks the rules of HTTP, undici passes on none of its body.
 */
export function watchReply(socket: Readable): ReadRaw {
  // As latin1, one character is one byte.
  let received = "";
  let isFinal = false;
  const onReadable = () => {
    const chunk: Buffer | null = socket.read();
    if (chunk === null) return;
    received += chunk.toString("latin1");
    // undici's own listener comes next, and reads what is put back.
    if (isFinal) socket.unshift(chunk);
    else {
      while (interimReply.test(received)) received = received.replace(interimReply, "");
      if (mayBecomeInterim(received)) return;
      isFinal = true;
      socket.unshift(Buffer.from(received, "latin1"));
    }
    if (received.length > maxReplyBytes) socket.off("readable", onReadable);
  };
  socket.prependListener("readable", onReadable);
  return () => {
    const [, status, body] = finalReply.exec(received) ?? [];
    return body === undefined ? undefined : { status: Number(status), body: Buffer.from(body, "latin1") };
  };
}

function mayBecomeInterim(received: string): boolean {
  if (received.length < "HTTP/1.1 100".length) return "HTTP/1.".startsWith(received.slice(0, 7));
  return interimStart.test(received) && received.length < maxInterimBytes;
}

/** A body. When it fails before any of it could be read, it is passed on as its bytes came. */
export async function* orAsItCame(body: AsyncIterable<Uint8Array>, readRaw: ReadRaw): AsyncGenerator<Uint8Array> {
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
