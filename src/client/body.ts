import type { HttpResponse } from "../io.ts";
import type { Blocks } from "./blocks.ts";

type Flow = { pause(): void; resume(): void; abort(reason: Error): void };

type Received = {
  push(chunk: Uint8Array): void;
  end(): void;
  /** What has come already is still handed out. */
  fail(error: unknown): void;
  body: NonNullable<HttpResponse["body"]>;
};

/** So much may wait to be read, in bytes; the sender is told to wait for the rest. It is what comes while a slow disk takes one piece. */
const mostWaiting = 4 * 1024 * 1024;

/**
 * The body of a reply. What came while its reader was busy is handed out in one piece, or in one a block: a large file is written in large
 * pieces.
 */
export function createBody(flow: Flow, blocks: Pick<Blocks, "holds" | "release">): Received {
  const chunks: Uint8Array[] = [];
  let waiting = 0;
  let state: "open" | "ended" | { error: unknown } = "open";
  let wake = () => {};
  const settle = (next: typeof state) => {
    if (state === "open") state = next;
    wake();
  };
  const take = () => {
    const piece = takeNext(chunks, blocks);
    const isHeldUp = waiting >= mostWaiting;
    waiting -= piece.byteLength;
    // More may come before this returns.
    if (isHeldUp && waiting < mostWaiting) flow.resume();
    return piece;
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
      // Such a one comes when undici goes on after a pause.
      if (chunk.byteLength === 0) return;
      chunks.push(chunk);
      waiting += chunk.byteLength;
      if (waiting >= mostWaiting) flow.pause();
      wake();
    },
    end: () => settle("ended"),
    fail: (error) => settle({ error }),
    body: { cancel, release: blocks.release, [Symbol.asyncIterator]: read },
  };
}

/** Takes away what lies side by side in a block, as it lies; or all that comes before the next block, copied together. */
function takeNext(chunks: Uint8Array[], blocks: Pick<Blocks, "holds">): Uint8Array {
  const [first = new Uint8Array()] = chunks;
  const isInBlock = blocks.holds(first);
  let count = 1;
  let length = first.byteLength;
  for (let next = chunks[count]; next; next = chunks[++count]) {
    const isBeside = next.buffer === first.buffer && next.byteOffset === first.byteOffset + length;
    if (isInBlock ? !isBeside : blocks.holds(next)) break;
    length += next.byteLength;
  }
  const taken = chunks.splice(0, count);
  if (count === 1) return first;
  return isInBlock ? new Uint8Array(first.buffer, first.byteOffset, length) : Buffer.concat(taken, length);
}
