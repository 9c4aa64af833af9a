import { type FileHandle, mkdir, open, stat } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Appends an object as a line of JSON, with one write; resolves when it is on the disk. Several processes may append at once. Rejects with
 * the system's error.
 */
export async function appendLine(path: string, line: object): Promise<void> {
  const text = `${JSON.stringify(line)}\n`;
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const file = await openLines(path, "a+", 0o600);
  try {
    const { size } = await file.stat();
    const bytes = Buffer.from((await endsTorn(file, size)) ? `\n${text}` : text);
    const { bytesWritten } = await file.write(bytes);
    await file.datasync();
    if (bytesWritten < bytes.length) throw Object.assign(new Error("short write"), { code: "ENOSPC" });
  } finally {
    await file.close();
  }
}

/**
 * Opens a file of lines; `mode` is that of a new one. A pipe or a device is refused with `ESPIPE` before it is opened: that may wait for ever,
 * and what is written there is gone. Rejects with the system's error.
 */
export async function openLines(path: string, flags: string, mode?: number): Promise<FileHandle> {
  // What makes this fail makes `open` fail, unless the file is new.
  const found = await stat(path).catch(() => undefined);
  if (found && !found.isFile() && !found.isDirectory())
    throw Object.assign(new Error(`${path} is no file`), { code: "ESPIPE" });
  return open(path, flags, mode);
}

/** Whether a crash has left the last line without its newline. */
async function endsTorn(file: FileHandle, size: number): Promise<boolean> {
  if (size === 0) return false;
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] !== 0x0a;
}
