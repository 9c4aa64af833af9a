import type { Readable } from "node:stream";
import { usage } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";

type ReadStreamOptions = Pick<Io, "signal"> & { maxMegabytes?: number };

/** Reads a whole stream. Throws `usage` above the limit. */
export async function readAll(
  input: Readable,
  name: string,
  { signal, maxMegabytes = 1 }: ReadStreamOptions,
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

/** Reads a file or a pipe from the beginning, a chunk at a time. Rejects with the system's error. */
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
