import { createHash, type Hash } from "node:crypto";
import type { Disk, DiskFile } from "../../io.ts";
import { isRecord } from "../../protocol/json.ts";

/**
 * Identifies the content of a saved video, with the journal's field names: its hash, and the values that show
 * that the file is unchanged.
 */
export type Content = {
  /** Hexadecimal. */
  sha256: string;
  /** In bytes. */
  size: number;
  /** May be rounded, since a file that is the same by this number is also compared by size and time. */
  inode: number;
  /** When the file was last written, in milliseconds since 1970. */
  mtime: number;
};

const chunkBytes = 65_536;

/**
 * The hash of an open file's content, to which more bytes can be added. Rejects with the system's error or
 * the signal's reason.
 */
export async function hashFile(file: Pick<DiskFile, "read">, signal?: AbortSignal): Promise<Hash> {
  const hash = createHash("sha256");
  const chunk = new Uint8Array(chunkBytes);
  for (let at = 0; ; ) {
    signal?.throwIfAborted();
    const { bytesRead } = await file.read(chunk, 0, chunkBytes, at);
    if (bytesRead === 0) return hash;
    hash.update(chunk.subarray(0, bytesRead));
    at += bytesRead;
  }
}

/** The hash of the content of the file at a path, hexadecimal. Rejects as `hashFile` does. */
async function hashPath(path: string, disk: Pick<Disk, "open">): Promise<string> {
  const file = await disk.open(path, "r");
  return (await hashFile(file).finally(() => file.close())).digest("hex");
}

/** The content of an open file whose hash is known. Rejects with the system's error. */
export async function readContent(file: Pick<DiskFile, "stat">, sha256: string): Promise<Content> {
  const { size, ino: inode, mtimeMs: mtime } = await file.stat();
  return { sha256, size, inode, mtime };
}

/** The content in a line of a journal or results file; `undefined` if it has none. */
export function parseContent(line: unknown): Content | undefined {
  if (!isRecord(line) || typeof line.sha256 !== "string") return undefined;
  const { sha256, size, inode, mtime } = line as Content;
  return { sha256, size, inode, mtime };
}

/**
 * Whether the file at a path has this content. A file with the same inode, size and modification time is the
 * same; any other file, such as a copy, is read. Also false if the path is not a file or cannot be read.
 */
export async function hasContent(path: string, { sha256, ...recorded }: Content, disk: Pick<Disk, "open" | "stat">) {
  const found = await disk.stat(path).catch(() => undefined);
  if (!found?.isFile() || found.size !== recorded.size) return false;
  if (found.ino === recorded.inode && found.mtimeMs === recorded.mtime) return true;
  return (await hashPath(path, disk).catch(() => undefined)) === sha256;
}
