import type { IncomingMessage } from "node:http";
import { headerOf } from "./incoming.ts";

/** The body of a request, which is never read without end. */
export type Body = {
  stream(): ReadableStream<Uint8Array>;
  /** Reads away what nobody has read: it would hold up the next request of the connection. */
  drain(): void;
};

/** `undefined` when the request has none. `onTooLong` is called, once, when more than `mostBytes` have come; no more is read then. */
export function createBody(incoming: IncomingMessage, mostBytes: number, onTooLong: () => void): Body | undefined {
  const [declared, coding] = [headerOf(incoming, "content-length"), headerOf(incoming, "transfer-encoding")];
  if (coding === null && !Number(declared)) return undefined;
  let length = 0;
  async function* read() {
    for await (const chunk of incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
      length += chunk.byteLength;
      if (length > mostBytes) {
        onTooLong();
        throw new Error(`the body is larger than ${mostBytes} bytes`);
      }
      yield chunk;
    }
  }
  const readAway = async () => {
    for await (const _ of read());
  };
  return {
    stream: () => ReadableStream.from(read()) as ReadableStream<Uint8Array>,
    drain: () => void readAway().catch(() => {}),
  };
}
