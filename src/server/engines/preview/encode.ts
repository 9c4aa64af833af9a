import { closeSync, openSync, writeSync } from "node:fs";
import type { H264MP4Encoder } from "h264-mp4-encoder";
import type { Frame } from "./frame.ts";
import { createFrame } from "./frame.ts";
import { mendMovie } from "./movie.ts";
import type { FrameSize } from "./size.ts";

/** A clip to encode; `paint` draws the frame of an index over the one before it. */
export type Clip = FrameSize & {
  frameRate: number;
  frameCount: number;
  paint: (frame: Frame, index: number) => void;
};

const keyFrameSeconds = 2;

/** What the encoder's C++ has open at a moment; emscripten's type for it is empty. */
type OpenFile = { path: string; position: number };
type EncoderFiles = {
  write: (open: OpenFile, bytes: NodeJS.ArrayBufferView, offset: number, length: number) => number;
};

/** Loads the encoder, whose WebAssembly is compiled once in a thread. */
export async function loadEncoder(): Promise<H264MP4Encoder> {
  const { default: library } = await import("h264-mp4-encoder");
  return library.createH264MP4Encoder();
}

/** Encodes a clip as H.264 in an .mp4, frame by frame, and deletes the encoder. Throws what writing the file throws. */
export function encode(encoder: H264MP4Encoder, clip: Clip, file: string): void {
  const fd = openSync(file, "w+");
  try {
    writeThrough(encoder, fd, () => encodeFrames(encoder, clip));
    mendMovie(fd, keyFrames(clip));
  } finally {
    closeSync(fd);
  }
}

/** The indexes of the frames that stand alone, as `groupOfPictures` sets them. */
function keyFrames({ frameRate, frameCount }: Clip): number[] {
  const gap = keyFrameSeconds * frameRate;
  return Array.from({ length: Math.ceil(frameCount / gap) }, (_, i) => gap * i);
}

function encodeFrames(encoder: H264MP4Encoder, { width, height, frameRate, frameCount, paint }: Clip): void {
  Object.assign(encoder, { width, height, frameRate, outputFilename: "clip.mp4" });
  // The fastest search for motion, as soft light has no edges to follow; and a fine quantizer, as a coarse one turns it into blocks.
  Object.assign(encoder, { speed: 10, quantizationParameter: 14, groupOfPictures: keyFrameSeconds * frameRate });
  encoder.initialize();
  const frame = createFrame({ width, height });
  for (let index = 0; index < frameCount; index++) {
    paint(frame, index);
    encoder.addFrameYuv(frame.bytes);
  }
  encoder.finalize();
  encoder.delete();
}

/**
 * Runs `work` while the encoder's file lies on the disk. It would keep the file in memory, so its memory would grow with the length of
 * the clip; its writes are sent to `fd` instead, and those to its standard output nowhere. The file system is shared between encoders,
 * therefore `work` is synchronous, and the hook is gone when it is done.
 */
function writeThrough(encoder: H264MP4Encoder, fd: number, work: () => void): void {
  const files = encoder.FS as unknown as EncoderFiles;
  const inMemory = files.write;
  let failure: unknown;
  files.write = (open, bytes, offset, length) => {
    if (open.path !== "/clip.mp4") return length;
    try {
      const written = writeSync(fd, bytes, offset, length, open.position);
      open.position += written;
      return written;
    } catch (error) {
      failure = error;
      throw error;
    }
  };
  try {
    work();
  } catch (error) {
    // The encoder wraps the error of a full disk in one of its own, which says less.
    throw failure ?? error;
  } finally {
    files.write = inMemory;
  }
}
