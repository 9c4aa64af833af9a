import type { DiskFile } from "../io.ts";

// Numbers of sections are those of ISO/IEC 14496-12.

/**
 * Why a file is not a complete .mp4. `mayBeVideo` is set if it may be a video of another format. `isFinished`
 * is false for text, an empty file, and an .mp4 without `moov`, which the server may still be writing.
 */
export type Mp4Fault = {
  reason: string;
  mayBeVideo: boolean;
  isFinished: boolean;
  /** Why the file does not state its own length. It is then unknown whether the file was cut. */
  noLengthReason?: "another format" | "animated image" | "unknown format" | "open last box" | "fragments";
};

type Reader = Pick<DiskFile, "read" | "stat">;

/** The possible first boxes of an .mp4: the type of a file or a segment, or padding, as in QuickTime files. */
const firstTypes = ["ftyp", "styp", "free", "skip", "wide"];
/** Boxes that occur once per file (sections 4.3 and 8.2.1). */
const singleTypes = ["ftyp", "moov"];
/** The boxes that a video needs. Others may be cut off. */
const videoTypes = ["moov", "mdat", "moof"];

/**
 * Returns why a file is not a complete .mp4; `undefined` if it is one. The top-level boxes must end exactly
 * at the end of the file, with `moov` and `mdat` among them (section 4.2). Unless the length of the file is
 * known to be correct, the last box must state its size, and the video must not be in fragments; bytes after
 * a complete video are ignored.
 */
export async function faultOfMp4(file: Reader, { isLengthKnown = true } = {}): Promise<Mp4Fault | undefined> {
  const { size } = await file.stat();
  if (size === 0) return { reason: "it is empty", mayBeVideo: false, isFinished: false };
  if (await isText(file)) return { reason: "it is text", mayBeVideo: false, isFinished: false };
  // A box of size 0 extends to the end of the file, wherever that is.
  const end = isLengthKnown ? size : Number.POSITIVE_INFINITY;
  const seen = new Set<string>();
  for (let at = 0; at < size; ) {
    const box = await readBox(file, at, end);
    if (at === 0 && !firstTypes.includes(box?.type ?? "")) {
      const format = (await findOtherFormat(file)) ?? unknownFormat;
      return { ...format, mayBeVideo: true, isFinished: true };
    }
    if (!box || at + box.size > size) {
      const isAfterVideo = ["ftyp", "moov", "mdat"].every((type) => seen.has(type)) && !seen.has("moof");
      if (!isLengthKnown && isAfterVideo && !videoTypes.includes(box?.type ?? "")) return undefined;
      const cut: Mp4Fault = { reason: "it is incomplete or damaged", mayBeVideo: true, isFinished: seen.has("moov") };
      const extendsToEnd = box?.size === Number.POSITIVE_INFINITY;
      return extendsToEnd
        ? { ...cut, reason: "its last box extends to the end of the file", noLengthReason: "open last box" }
        : cut;
    }
    if (singleTypes.includes(box.type) && seen.has(box.type))
      return { reason: "it contains more than one file", mayBeVideo: false, isFinished: true };
    seen.add(box.type);
    at += box.size;
  }
  if (seen.has("moov") && seen.has("mdat")) return isLengthKnown || !seen.has("moof") ? undefined : fragmented;
  return { reason: "it contains no video", mayBeVideo: true, isFinished: seen.has("moov") };
}

const fragmented: Mp4Fault = {
  reason: "it is a fragmented .mp4",
  mayBeVideo: true,
  isFinished: true,
  noLengthReason: "fragments",
};

type Format = Pick<Mp4Fault, "reason" | "noLengthReason">;

const unknownFormat: Format = { reason: "it is not an .mp4", noLengthReason: "unknown format" };

/** The first bytes of other formats, one character per byte; WebM is Matroska with a marker a few bytes later. */
const videoFormats: readonly [RegExp, string][] = [
  [/^.E\xdf\xa3.*webm/s, "it is a WebM"],
  [/^.E\xdf\xa3/s, "it is a Matroska file"],
  [/^RIFF....AVI /s, "it is an AVI"],
  [/^G.{187}G/s, "it is an MPEG transport stream"],
  [/^....(ftypqt {2}|wide)/s, "it is a QuickTime movie"],
];
const animatedFormats: readonly [RegExp, string][] = [
  [/^GIF8/, "it is a GIF"],
  [/^RIFF....WEBPVP8X.*ANIM/s, "it is an animated WebP"],
  [/^\x89PNG\r\n.*acTL/s, "it is an animated PNG"],
];

/** Returns the format of a video that is not an .mp4, by its first bytes. A QuickTime movie has the boxes of an .mp4. */
export async function findOtherFormat(file: Reader): Promise<Format | undefined> {
  const { buffer, bytesRead } = await file.read(new Uint8Array(256), 0, 256, 0);
  const start = String.fromCharCode(...buffer.subarray(0, bytesRead));
  const find = (formats: readonly [RegExp, string][]) => formats.find(([pattern]) => pattern.test(start))?.[1];
  const [video, animation] = [find(videoFormats), find(animatedFormats)];
  if (video !== undefined) return { reason: video, noLengthReason: "another format" };
  return animation === undefined ? undefined : { reason: animation, noLengthReason: "animated image" };
}

/** Whether the file is text, such as HTML or JSON. Every video has non-text bytes near its start. */
async function isText(file: Reader): Promise<boolean> {
  const { buffer, bytesRead } = await file.read(new Uint8Array(512), 0, 512, 0);
  return buffer.subarray(0, bytesRead).every((byte) => byte > 8);
}

/** The properties of a video from the headers of its file; missing values are left out. */
export type VideoFacts = { seconds?: number; width?: number; height?: number };

/** The maximum number of boxes to read; a video has a few dozen. */
const maxBoxes = 1_000;

/**
 * Reads the length and size of an .mp4 from its headers (`mvhd` and `tkhd`, sections 8.2.2 and 8.3.2).
 * Rejects with the system's error.
 */
export async function readVideoFacts(file: Reader): Promise<VideoFacts> {
  const facts: VideoFacts = {};
  const { size } = await file.stat();
  const [moov] = await findBoxes(file, "moov", { at: 0, end: size });
  if (!moov) return facts;
  const [mvhd] = await findBoxes(file, "mvhd", moov);
  if (mvhd) Object.assign(facts, readLength(await readBoxBody(file, mvhd)));
  for (const trak of await findBoxes(file, "trak", moov)) {
    const [tkhd] = await findBoxes(file, "tkhd", trak);
    // Audio tracks have no size.
    if (tkhd && facts.width === undefined) Object.assign(facts, readFrameSize(await readBoxBody(file, tkhd)));
  }
  return facts;
}

/** The bytes of a file from `at` to before `end`. */
type ByteRange = { at: number; end: number };

/** The bodies of all boxes of a type at one level. */
async function findBoxes(file: Reader, type: string, { at, end }: ByteRange): Promise<ByteRange[]> {
  const found: ByteRange[] = [];
  for (let next = at, count = 0; next < end && count < maxBoxes; count++) {
    const box = await readBox(file, next, end);
    if (!box || next + box.size > end) break;
    if (box.type === type) found.push({ at: next + box.headerSize, end: next + box.size });
    next += box.size;
  }
  return found;
}

/** The maximum number of bytes to read of a box, more than any of these headers has. */
const maxBody = 128;

async function readBoxBody(file: Reader, { at, end }: ByteRange): Promise<DataView> {
  const bytes = new Uint8Array(Math.min(end - at, maxBody));
  const { bytesRead } = await file.read(bytes, 0, bytes.length, at);
  return new DataView(bytes.buffer, 0, bytesRead);
}

/** Whether a box has version 1, in which times and lengths have 64 bits instead of 32. */
function hasLongTimes(body: DataView): boolean {
  return body.byteLength > 0 && body.getUint8(0) === 1;
}

function readLength(body: DataView): VideoFacts {
  const isLong = hasLongTimes(body);
  if (body.byteLength < (isLong ? 32 : 20)) return {};
  const timescale = body.getUint32(isLong ? 20 : 12);
  // A fragmented file has the length 0 here, and an unfinished recording the maximum.
  const [length, unknownLength] = isLong
    ? [body.getBigUint64(24), 0xffff_ffff_ffff_ffffn]
    : [BigInt(body.getUint32(16)), 0xffff_ffffn];
  return timescale === 0 || length === 0n || length === unknownLength ? {} : { seconds: Number(length) / timescale };
}

function readFrameSize(body: DataView): VideoFacts {
  const at = hasLongTimes(body) ? 88 : 76;
  if (body.byteLength < at + 8) return {};
  // Fixed-point numbers of 16.16 bits.
  const [width, height] = [Math.round(body.getUint32(at) / 65_536), Math.round(body.getUint32(at + 4) / 65_536)];
  return width === 0 || height === 0 ? {} : { width, height };
}

type Box = { type: string; size: number; headerSize: number };

async function readBox(file: Reader, at: number, end: number): Promise<Box | undefined> {
  // Deno cannot read into a DataView.
  const bytes = new Uint8Array(16);
  const header = new DataView(bytes.buffer);
  const { bytesRead } = await file.read(bytes, 0, 16, at);
  if (bytesRead < 8) return undefined;
  const type = String.fromCharCode(...[4, 5, 6, 7].map((i) => header.getUint8(i)));
  const short = header.getUint32(0);
  // Zeros without a type are not a box.
  if (short === 0) return /^\w{4}$/.test(type) ? { type, size: end - at, headerSize: 8 } : undefined;
  if (short >= 8) return { type, size: short, headerSize: 8 };
  if (short !== 1 || bytesRead < 16) return undefined;
  const long = Number(header.getBigUint64(8));
  return long >= 16 ? { type, size: long, headerSize: 16 } : undefined;
}
