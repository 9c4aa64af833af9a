import { createHash } from "node:crypto";
import { join } from "node:path";
import { usage, VidgenError } from "../../errors.ts";
import type { DiskFile, Io } from "../../io.ts";
import { outputError, readWhole } from "../save/files.ts";
import { commonArgs, type Ffmpeg, inputArgs, lastLine, runProgram } from "./ffmpeg.ts";
import { checkWhole, endsEarly, notWholeError } from "./whole.ts";

export type LastFrame = {
  /** The PNG. */
  path: string;
  /** Its hash, in hexadecimal. */
  sha256: string;
  width: number;
  height: number;
  /** Whether it has nearly one color, as at the end of a fade: the caller should warn before the next clip is paid for. */
  isNearlyOneColor: boolean;
};

type FrameOptions = { ffmpeg: Ffmpeg; signal: AbortSignal };
type FrameIo = Pick<Io, "env" | "run" | "limit" | "disk" | "uuid">;

/** The maximum length of the longer side in pixels: a noisy 4K PNG as a data: URL is too large for services. */
const maxSide = 1_920;

/**
 * The filter works with any time base and frame rate, since each frame gets the next number as its time.
 * Without the flags of `scale`, each color would be darker by up to 5 of 255, which adds up from shot to
 * shot.
 */
const filter =
  "settb=1/25,setpts=N,scale='trunc(iw*sar/2)*2':'trunc(ih/2)*2':out_range=pc:flags=bicubic+accurate_rnd+full_chroma_int,setsar=1,format=bgr24";

/**
 * For ordinary clips it is enough to read the last second. The last second has no frames if the sound is
 * longer than the picture, an edit list ends early, or a frame lasts longer. ffmpeg exits with 0 even then,
 * and the whole clip is read.
 */
const seeks = [["-sseof", "-1"], []];

/**
 * Writes the last frame of a video as a PNG to a new file in an existing folder. Throws `usage` for an incomplete video, `output`
 * if ffmpeg fails, or the signal's reason; then it leaves no file.
 */
export async function lastFrame(file: string, folder: string, options: FrameOptions, io: FrameIo): Promise<LastFrame> {
  const { disk } = io;
  await checkWhole(file, disk);
  const name = io.uuid();
  // First a BMP that each frame overwrites: encoding each frame as a PNG would take ten times as long.
  const bitmap = join(folder, `.${name}.bmp`);
  const path = join(folder, `${name}.png`);
  try {
    await writeBitmap(file, bitmap, options, io);
    const bitmapFile = await disk.open(bitmap, "r");
    const isNearlyOneColor = await isOneColor(bitmapFile).finally(() => bitmapFile.close());
    const result = await convert(bitmap, path, options, io);
    const bytes = await readWhole(path, disk).catch((error) => {
      throw result.code === 0 ? error : frameError(file, lastLine(result));
    });
    if (result.code !== 0 || bytes.length < 24) throw frameError(file, lastLine(result));
    const header = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    // PNG, section 11.2.2: both are at the start of the first chunk.
    const [width, height] = [header.getUint32(16), header.getUint32(20)];
    return { path, sha256: createHash("sha256").update(bytes).digest("hex"), width, height, isNearlyOneColor };
  } catch (error) {
    await disk.rm(path, { force: true }).catch(() => {});
    if (options.signal.aborted) throw options.signal.reason;
    throw outputError(error, path);
  } finally {
    await disk.rm(bitmap, { force: true }).catch(() => {});
  }
}

function frameError(file: string, reason: string): VidgenError {
  return new VidgenError("output", `Cannot take the last frame of ${file}: ${reason}.`);
}

async function writeBitmap(file: string, bitmap: string, { ffmpeg, signal }: FrameOptions, io: FrameIo): Promise<void> {
  for (const seek of seeks) {
    const output = ["-r", "25", "-c:v", "bmp", "-f", "image2", "-update", "1", `file:${bitmap}`];
    const args = [...commonArgs, ...seek, ...inputArgs(file), "-map", "0:V:0", "-vf", filter, ...output];
    const result = await runProgram(ffmpeg.ffmpeg, args, { signal, output: bitmap }, io);
    if (endsEarly(result)) throw notWholeError(file, lastLine(result));
    const isLast = seek.length === 0;
    if (result.code !== 0 && isLast) throw frameError(file, lastLine(result));
    const { size } = await io.disk.stat(bitmap).catch(() => ({ size: 0 }));
    if (result.code === 0 && size > 0) return;
  }
  throw usage(`${file} has no picture that ffmpeg can read.`);
}

function convert(bitmap: string, path: string, { ffmpeg, signal }: FrameOptions, io: FrameIo) {
  const scale = `scale='min(iw,${maxSide})':'min(ih,${maxSide})':force_original_aspect_ratio=decrease,format=rgb24`;
  // Not with image2, which would treat a percent sign in the folder's name as a pattern.
  const input = ["-protocol_whitelist", "file", "-f", "bmp_pipe", "-i", `file:${bitmap}`];
  const output = ["-frames:v", "1", "-c:v", "png", "-f", "image2", "-update", "1", `file:${path}`];
  return runProgram(ffmpeg.ffmpeg, [...commonArgs, ...input, "-vf", scale, ...output], { signal }, io);
}

/** The maximum number of rows and columns to compare. */
const maxSamples = 128;
/** The tolerance of each channel, out of 255, for noise and dithering in a fade. */
const tolerance = 12;
/** The minimum share of pixels near the mean. */
const minShare = 0.98;

/** Whether nearly all pixels of a BMP with 24 bits per pixel have one color. */
async function isOneColor(file: DiskFile): Promise<boolean> {
  const header = new DataView((await file.read(new Uint8Array(54), 0, 54, 0)).buffer.buffer);
  const [start, width] = [header.getUint32(10, true), header.getInt32(18, true)];
  // A negative height means that the rows go from top to bottom.
  const height = Math.abs(header.getInt32(22, true));
  // Each row begins at a multiple of four bytes.
  const row = new Uint8Array(Math.ceil((3 * width) / 4) * 4);
  const pixels: number[][] = [];
  for (let y = 0; y < height; y += Math.ceil(height / maxSamples)) {
    await file.read(row, 0, row.length, start + y * row.length);
    for (let x = 0; x < width; x += Math.ceil(width / maxSamples)) pixels.push([...row.subarray(3 * x, 3 * x + 3)]);
  }
  const mean = [0, 1, 2].map((i) => pixels.reduce((sum, pixel) => sum + (pixel[i] as number), 0) / pixels.length);
  const isNear = (pixel: number[]) => pixel.every((value, i) => Math.abs(value - (mean[i] as number)) <= tolerance);
  return pixels.filter(isNear).length >= minShare * pixels.length;
}
