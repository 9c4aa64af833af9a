import type { Readable } from "node:stream";
import { usage } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";

type ReadOptions = Pick<Io, "signal"> & { maxMegabytes?: number };

/** All of a stream. Throws `usage` for more than the limit. */
export async function readAll(
  input: Readable,
  name: string,
  { signal, maxMegabytes = 1 }: ReadOptions,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  const onAbort = () => input.destroy(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    for await (const chunk of input) {
      length += chunk.length;
      if (length > maxMegabytes * 1_000_000) throw usage(`${name} is larger than ${maxMegabytes} MB.`);
      chunks.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
  return Buffer.concat(chunks);
}

const chunkBytes = 65_536;

/** A file from its beginning, a part at a time; also a pipe, which has no places to read at. Rejects with the system's error. */
export async function* readChunks(path: string, disk: Pick<Disk, "open">): AsyncGenerator<Buffer> {
  const file = await disk.open(path, "r");
  try {
    for (;;) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(chunkBytes), 0, chunkBytes, null);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}
