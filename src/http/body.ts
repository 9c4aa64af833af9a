import type { HttpResponse } from "../io.ts";

type Flow = { pause(): void; resume(): void; abort(reason: Error): void };

type Received = {
  push(chunk: Uint8Array): void;
  end(): void;
  /** What has come already is still handed out. */
  fail(error: unknown): void;
  body: NonNullable<HttpResponse["body"]>;
};

/** So much may wait to be read, in bytes; the sender is told to wait for the rest. */
const mostWaiting = 1024 * 1024;

/** The body of a reply. What came while its reader was busy is handed out in one piece: a large file is written in large pieces. */
export function createBody(flow: Flow): Received {
  let chunks: Uint8Array[] = [];
  let waiting = 0;
  let state: "open" | "ended" | { error: unknown } = "open";
  let wake = () => {};
  const settle = (next: typeof state) => {
    if (state === "open") state = next;
    wake();
  };
  const take = () => {
    const [first] = chunks;
    const all = chunks.length === 1 && first ? first : Buffer.concat(chunks);
    const isHeldUp = waiting >= mostWaiting;
    chunks = [];
    waiting = 0;
    // More may come before this returns.
    if (isHeldUp) flow.resume();
    return all;
  };
  const cancel = async () => {
    if (state === "open") flow.abort(new Error("no more of it is wanted"));
  };
  async function* read() {
    try {
      for (;;) {
        if (waiting > 0) yield take();
        else if (state === "ended") return;
        else if (state !== "open") throw state.error;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      await cancel();
    }
  }
  return {
    push(chunk) {
      chunks.push(chunk);
      waiting += chunk.byteLength;
      if (waiting >= mostWaiting) flow.pause();
      wake();
    },
    end: () => settle("ended"),
    fail: (error) => settle({ error }),
    body: { cancel, [Symbol.asyncIterator]: read },
  };
}
