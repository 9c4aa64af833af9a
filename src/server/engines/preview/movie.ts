import { fstatSync, ftruncateSync, readSync, writeSync } from "node:fs";

const containers = new Set(["moov", "trak", "mdia", "minf", "stbl"]);
const stamped = new Set(["mvhd", "tkhd", "mdhd"]);

/**
 * Mends the box "moov" of an .mp4, which the encoder leaves at the end of the file. It sets the times of creation to zero ("not known"),
 * as the same request shall give the same bytes; and it adds the list of key frames, without which players take every frame for one and
 * show nothing after a seek. `keyFrames` are indexes from 0; `fd` is open for reading and writing.
 */
export function mendMovie(fd: number, keyFrames: readonly number[]): void {
  const { at, size } = findMovie(fd);
  const moov = Buffer.alloc(size);
  readSync(fd, moov, 0, size, at);
  const mended = mend(moov, keyFrames);
  writeSync(fd, mended, 0, mended.length, at);
  // All that follows is padding, which the longer box has partly overwritten.
  ftruncateSync(fd, at + mended.length);
}

function findMovie(fd: number): { at: number; size: number } {
  const header = Buffer.alloc(8);
  const end = fstatSync(fd).size;
  for (let at = 0; at < end; ) {
    readSync(fd, header, 0, 8, at);
    const size = header.readUInt32BE(0);
    if (header.toString("latin1", 4) === "moov") return { at, size };
    // Smaller sizes stand for "64 bits" and "to the end of the file", neither of which comes before "moov" in a file this small.
    if (size < 8) break;
    at += size;
  }
  throw new Error("The encoder left no complete file.");
}

function mend(box: Buffer, keyFrames: readonly number[]): Buffer {
  const type = box.toString("latin1", 4, 8);
  if (stamped.has(type)) return withoutTimes(box);
  if (!containers.has(type)) return box;
  const children = splitBoxes(box.subarray(8)).map((child) => mend(child, keyFrames));
  if (type === "stbl") children.push(keyFrameTable(keyFrames));
  return makeBox(type, children);
}

function splitBoxes(bytes: Buffer): Buffer[] {
  const boxes: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = bytes.readUInt32BE(at);
    boxes.push(bytes.subarray(at, at + size));
    at += size;
  }
  return boxes;
}

/** The times follow the version and flags; version 1 has them in 64 bits each, version 0 in 32. */
function withoutTimes(box: Buffer): Buffer {
  return Buffer.from(box).fill(0, 12, box[8] === 1 ? 28 : 20);
}

function keyFrameTable(keyFrames: readonly number[]): Buffer {
  const numbers = [0, keyFrames.length, ...keyFrames.map((index) => index + 1)];
  return makeBox("stss", numbers.map(toUint32));
}

function makeBox(type: string, contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  return Buffer.concat([toUint32(8 + content.length), Buffer.from(type, "latin1"), content]);
}

function toUint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
