import library from "h264-mp4-encoder";
import { checkAddressSpace } from "../../../address-space.ts";
import { createFrame, type Frame, type FrameSize } from "./frame.ts";

/** A clip to encode. `paint` draws the frame with an index over the previous frame. */
export type Clip = FrameSize & {
  frameRate: number;
  frameCount: number;
  paint: (frame: Frame, index: number) => void;
};

const keyFrameSeconds = 2;

/** Returns a clip as the bytes of an .mp4 with H.264. The same frames give the same bytes. */
export async function encode(clip: Clip): Promise<Buffer> {
  const { width, height, frameRate, frameCount, paint } = clip;
  const groupOfPictures = keyFrameSeconds * frameRate;
  checkAddressSpace(1);
  const encoder = await library.createH264MP4Encoder();
  // `speed` selects the fastest motion search, because soft light has no edges to follow. A coarser quantizer would turn the light into blocks.
  Object.assign(encoder, { width, height, frameRate, groupOfPictures, speed: 10, quantizationParameter: 14 });
  encoder.initialize();
  const frame = createFrame(clip);
  for (let index = 0; index < frameCount; index++) {
    paint(frame, index);
    encoder.addFrameYuv(frame.bytes);
  }
  encoder.finalize();
  const movie = encoder.FS.readFile(encoder.outputFilename);
  encoder.delete();
  const keyFrameCount = Math.ceil(frameCount / groupOfPictures);
  return completeMovie(
    Buffer.from(movie.buffer, movie.byteOffset, movie.byteLength),
    Array.from({ length: keyFrameCount }, (_, i) => i * groupOfPictures),
  );
}

const containerBoxes = new Set(["moov", "trak", "mdia", "minf", "stbl"]);
const timestampedBoxes = new Set(["mvhd", "tkhd", "mdhd"]);

/** `keyFrameTable` is the list of key frames as a box; `shift` is the number of bytes by which the media moves within the file. */
type BoxChanges = { keyFrameTable: Buffer; shift: number };

/**
 * Completes the encoder's .mp4. The creation times become zero ("not known"), because the same request must give the same bytes. The list of key
 * frames (indexes from 0) is added, because without the list players treat every frame as a key frame and show nothing after a seek. The index,
 * "moov", is put before the media, because a player that reads from a pipe cannot seek back from the end.
 */
function completeMovie(movie: Buffer, keyFrames: readonly number[]): Buffer {
  const boxes = splitBoxes(movie);
  const find = (type: string) => boxes.find((box) => typeOf(box) === type) ?? Buffer.alloc(0);
  const [ftyp, moov, mdat] = [find("ftyp"), find("moov"), find("mdat")];
  const keyFrameTable = makeKeyFrameTable(keyFrames);
  const shift = ftyp.length + moov.length + keyFrameTable.length - (mdat.byteOffset - movie.byteOffset);
  return Buffer.concat([ftyp, completeBox(moov, { keyFrameTable, shift }), mdat]);
}

function completeBox(box: Buffer, changes: BoxChanges): Buffer {
  const type = typeOf(box);
  if (timestampedBoxes.has(type)) return withoutTimes(box);
  if (type === "stco") return moveChunks(box, changes.shift);
  if (!containerBoxes.has(type)) return box;
  const children = splitBoxes(box.subarray(8)).map((child) => completeBox(child, changes));
  if (type === "stbl") children.push(changes.keyFrameTable);
  return makeBox(type, children);
}

function typeOf(box: Buffer): string {
  return box.toString("latin1", 4, 8);
}

/** Returns the boxes of an .mp4 or of a container in it. */
function splitBoxes(bytes: Buffer): Buffer[] {
  const boxes: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = bytes.readUInt32BE(at);
    boxes.push(bytes.subarray(at, at + size));
    at += size;
  }
  return boxes;
}

/** The times follow the version and flags: 64 bits each in version 1, 32 bits in version 0. */
function withoutTimes(box: Buffer): Buffer {
  return Buffer.from(box).fill(0, 12, box[8] === 1 ? 28 : 20);
}

/** Moves the offsets of the chunks, which are relative to the start of the file. They follow the version, the flags and their number. */
function moveChunks(box: Buffer, shift: number): Buffer {
  const moved = Buffer.from(box);
  for (let at = 16; at < moved.length; at += 4) moved.writeUInt32BE(moved.readUInt32BE(at) + shift, at);
  return moved;
}

function makeKeyFrameTable(keyFrames: readonly number[]): Buffer {
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
