import type { IncomingMessage } from "node:http";
import { headerOf } from "./incoming.ts";

/** The body of a request, which is never read without end. */
export type Body = {
  stream(): ReadableStream<Uint8Array>;
  /** Reads away what nobody has read: it would hold up the next request of the connection. */
  drain(): void;
};

type Reader = { take(chunk: Uint8Array): void; fail(error: Error): void };

const nobody: Reader = { take() {}, fail() {} };

/** `undefined` when the request has none. `onTooLong` is called, once, when more than `mostBytes` have come; no more is read then. */
export function createBody(incoming: IncomingMessage, mostBytes: number, onTooLong: () => void): Body | undefined {
  const [declared, coding] = [headerOf(incoming, "content-length"), headerOf(incoming, "transfer-encoding")];
  if (coding === null && !Number(declared)) return undefined;
  let length = 0;
  let reader = nobody;
  // By events: after an asynchronous iteration, V8 keeps what is made for later requests alive until its next full collection.
  const onData = (chunk: Uint8Array) => {
    length += chunk.byteLength;
    if (length <= mostBytes) return reader.take(chunk);
    incoming.off("data", onData).pause();
    onTooLong();
    reader.fail(new Error(`the body is larger than ${mostBytes} bytes`));
  };
  const read = (next: Reader) => {
    reader = next;
    if (incoming.listenerCount("data") === 0 && length <= mostBytes) incoming.on("data", onData);
  };
  return {
    stream: () => createStream(incoming, read),
    drain() {
      read(nobody);
      if (length <= mostBytes) incoming.resume();
    },
  };
}

/** Reads one piece when it is asked for one. */
function createStream(incoming: IncomingMessage, read: (reader: Reader) => void): ReadableStream<Uint8Array> {
  let close = () => {};
  const start = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    close = () => controller.close();
    const fail = (error: Error) => {
      incoming.off("end", close);
      controller.error(error);
    };
    const take = (chunk: Uint8Array) => {
      controller.enqueue(chunk);
      incoming.pause();
    };
    const onGone = () => fail(new Error("the client has gone"));
    if (incoming.destroyed) return onGone();
    incoming.once("end", close).once("close", onGone).pause();
    read({ take, fail });
  };
  const cancel = () => {
    incoming.off("end", close);
    read(nobody);
  };
  return new ReadableStream({ start, pull: () => void incoming.resume(), cancel }, { highWaterMark: 0 });
}
