import { dirname } from "node:path";
import { systemCode } from "../../errors.ts";
import type { Disk, DiskFile } from "../../io.ts";

/**
 * Appends objects as lines of JSON, in one write; a new file gets the line `firstLine` before them. Resolves
 * when they are on the disk. Several processes may append at once. Rejects with the system's error.
 */
export async function appendLines(
  path: string,
  lines: readonly object[],
  disk: Disk,
  firstLine?: object,
): Promise<void> {
  await disk.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const file = await openLines(path, "a+", { disk, mode: 0o600 });
  try {
    const { size } = await file.stat();
    const texts = (size === 0 && firstLine ? [firstLine, ...lines] : lines).map((each) => `${JSON.stringify(each)}\n`);
    const bytes = Buffer.from([(await endsWithoutNewline(file, size)) ? "\n" : "", ...texts].join(""));
    const { bytesWritten } = await file.write(bytes);
    await file.datasync();
    if (size === 0) await syncFolder(dirname(path), disk);
    // The system writes less than all bytes if the disk is full.
    if (bytesWritten < bytes.length) throw Object.assign(new Error("short write"), { code: "ENOSPC" });
  } finally {
    await file.close();
  }
}

/** Syncs a folder, so that the name of a new file is on the disk. Some systems do not support that. */
export async function syncFolder(path: string, disk: Disk): Promise<void> {
  const folder = await disk.open(path, "r").catch(() => undefined);
  await folder?.sync().catch(() => {});
  await folder?.close();
}

type OpenLinesOptions = { disk: Disk; mode?: number };

/**
 * Opens a file of lines; `mode` applies to a new file. Rejects a pipe or a device with `ESPIPE` before
 * opening it, which could block forever, and would lose the data. Rejects with the system's error.
 */
export async function openLines(path: string, flags: string, { disk, mode }: OpenLinesOptions): Promise<DiskFile> {
  // A new file does not exist yet; `open` reports any other error.
  const found = await disk.stat(path).catch(() => undefined);
  if (found && !found.isFile() && !found.isDirectory())
    throw Object.assign(new Error(`${path} is not a regular file`), { code: "ESPIPE" });
  return disk.open(path, flags, mode);
}

const newline = 0x0a;

/** Whether a crash has left the last line without its newline. */
async function endsWithoutNewline(file: DiskFile, size: number): Promise<boolean> {
  if (size === 0) return false;
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] !== newline;
}

/**
 * Overwrites lines with spaces instead of removing them, since other processes may append meanwhile. Rejects
 * with the system's error.
 */
export async function blankLines(path: string, mustBlank: (text: string) => boolean, disk: Disk): Promise<void> {
  const linesToBlank: FoundLine[] = [];
  const reader = await openLines(path, "r", { disk }).catch((error) => {
    if (systemCode(error) !== "ENOENT") throw error;
  });
  try {
    if (reader) for await (const line of readLines(reader)) if (mustBlank(line.text)) linesToBlank.push(line);
  } finally {
    await reader?.close();
  }
  // A read-only file without such lines is not an error.
  if (linesToBlank.length === 0) return;
  const file = await openLines(path, "r+", { disk });
  try {
    for (const { start, length } of linesToBlank) await file.write(Buffer.alloc(length, " "), 0, length, start);
    await file.datasync();
  } finally {
    await file.close();
  }
}

const chunkBytes = 65_536;

/** A line without its newline, and where its first byte is in the file. */
type FoundLine = { text: string; start: number; length: number };

/** The lines of a file from the first to the last, a chunk at a time. Rejects with the system's error. */
export async function* readLines(file: DiskFile): AsyncGenerator<FoundLine> {
  /** The beginning of a line that continues in a later chunk, and its position in the file. */
  let rest = Buffer.alloc(0);
  let start = 0;
  for (let isEnd = false; !isEnd; ) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(chunkBytes), 0, chunkBytes, start + rest.length);
    isEnd = bytesRead === 0;
    const bytes = Buffer.concat([rest, buffer.subarray(0, bytesRead)]);
    let at = 0;
    for (let end = bytes.indexOf("\n"); end !== -1; end = bytes.indexOf("\n", at)) {
      yield { text: bytes.toString("utf8", at, end), start: start + at, length: end - at };
      at = end + 1;
    }
    rest = bytes.subarray(at);
    start += at;
  }
  if (rest.length > 0) yield { text: rest.toString("utf8"), start, length: rest.length };
}

export type Range = {
  /** Only lines that contain one of these words, none of them empty. Other lines are not decoded. */
  words?: readonly string[] | undefined;
  /** Only lines that start at or after this byte. */
  from?: number | undefined;
};

/**
 * Some lines, newest first. `end` is the byte after the newline of the newest one: a line that is being
 * written, or that a crash has torn, has no newline.
 */
export type TextPart = { texts: string[]; end: number };

/** Parsing a part takes a hundred times as long as searching it for words. */
const parsedBytes = 100_000;
const searchedBytes = 1_000_000;

/** The lines of a file from the last to the first, a part at a time. Rejects with the system's error. */
export async function* readLinesBackwards(
  path: string,
  { words, from = 0 }: Range,
  disk: Disk,
): AsyncGenerator<TextPart> {
  const file = await openLines(path, "r", { disk });
  try {
    const partBytes = words === undefined ? parsedBytes : searchedBytes;
    let end = (await file.stat()).size;
    /** The end of a line that starts in an earlier part, with its newline. */
    let rest = Buffer.alloc(0);
    // The buffer is reused, because allocating one takes longer than searching it.
    let buffer = Buffer.allocUnsafe(Math.min(partBytes, Math.max(0, end - from)));
    while (end > from) {
      const start = Math.max(from, end - partBytes);
      if (buffer.length < end - start + rest.length) buffer = Buffer.allocUnsafe(end - start + rest.length + partBytes);
      const { bytesRead } = await file.read(buffer, 0, end - start, start);
      rest.copy(buffer, bytesRead);
      const bytes = buffer.subarray(0, bytesRead + rest.length);
      // A line that begins in an earlier part is kept in `rest` for that part.
      const firstByte = start === from ? 0 : bytes.indexOf(newline) + 1;
      rest = Buffer.from(bytes.subarray(0, firstByte));
      end = start;
      const whole = bytes.subarray(firstByte);
      const texts = words === undefined ? splitLines(whole) : findLines(whole, words);
      if (words !== undefined && texts.length === 0) continue;
      yield { texts: texts.reverse(), end: start + firstByte + whole.lastIndexOf(newline) + 1 };
    }
  } finally {
    await file.close();
  }
}

function splitLines(bytes: Buffer): string[] {
  return bytes
    .toString()
    .split("\n")
    .filter((text) => text !== "");
}

/** The lines that contain one of the words. Searches the bytes, since most lines of a long file need not be decoded. */
function findLines(bytes: Buffer, words: readonly string[]): string[] {
  const texts: string[] = [];
  const positions = words.map((word) => bytes.indexOf(word));
  for (;;) {
    const next = Math.min(...positions.filter((position) => position !== -1));
    if (next === Number.POSITIVE_INFINITY) return texts;
    const newlineAt = bytes.indexOf(newline, next);
    const end = newlineAt === -1 ? bytes.length : newlineAt;
    texts.push(bytes.toString("utf8", bytes.lastIndexOf(newline, next) + 1, end));
    for (const [index, word] of words.entries()) {
      const position = positions[index] ?? -1;
      if (position !== -1 && position < end) positions[index] = bytes.indexOf(word, end);
    }
  }
}
