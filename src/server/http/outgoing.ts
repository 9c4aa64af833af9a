import type { ServerResponse } from "node:http";
import type { KnownReply } from "./reply.ts";

/**
 * Writes a reply, and calls `beforeEnd` when all but its end is through. Rejects when its body breaks off; the socket must be destroyed
 * then, or the reply would look whole.
 */
export async function writeReply(response: Response, outgoing: ServerResponse, beforeEnd: () => void): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body) await pump(response.body, outgoing);
  beforeEnd();
  outgoing.end();
}

/** Writes a reply whose body is known in full: at once, as one piece. */
export function writeKnownReply({ status, headers, text }: KnownReply, outgoing: ServerResponse): void {
  // A list: an object made of another and a further name costs V8 a hidden class of its own, each time.
  const list = ["Content-Length", String(Buffer.byteLength(text))];
  const all = headers instanceof Headers ? Object.fromEntries(headers) : headers;
  for (const name in all) list.push(name, all[name] ?? "");
  outgoing.writeHead(status, list).end(text);
}

async function pump(body: ReadableStream<Uint8Array>, outgoing: ServerResponse): Promise<void> {
  const reader = body.getReader();
  // A client that leaves while the body makes nothing must not keep its source, such as a file, open.
  const onClose = () => void reader.cancel().catch(() => {});
  outgoing.once("close", onClose);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (outgoing.destroyed) return reader.cancel();
    if (!outgoing.write(value)) await drained(outgoing);
  }
  outgoing.off("close", onClose);
}

function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      outgoing.off("drain", done).off("close", done);
      resolve();
    };
    outgoing.on("drain", done).on("close", done);
  });
}
