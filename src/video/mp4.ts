import type { DiskFile } from "../io.ts";

/**
 * Why a file is not a whole .mp4, in a few words. It may still be a video of a kind that we do not know. `isFinished` is false for text, an empty
 * file, and an .mp4 without `moov`: the server has not finished the video, and may still do so.
 */
export type Fault = {
  reason: string;
  mayBeVideo: boolean;
  isFinished: boolean;
  /** Why the file does not state its own length; then it cannot be known whether it was cut. */
  noLength?: "another kind" | "unknown kind" | "open last box" | "fragments";
};

type Reader = Pick<DiskFile, "read" | "stat">;

/** The boxes that an .mp4 begins with: its type, or that of a segment, or padding, as QuickTime writes it too. */
const firstTypes = ["ftyp", "styp", "free", "skip", "wide"];
/** A file has one of each (sections 4.3 and 8.2.1). */
const singleTypes = ["ftyp", "moov"];
/** The boxes that a video needs. Any other may be cut off. */
const videoTypes = ["moov", "mdat", "moof"];

/**
 * Checks whether a file is a whole .mp4: its top-level boxes run exactly to the end of the file, with `moov` and `mdat` among
 * them (ISO/IEC 14496-12, section 4.2). Unless its length is known to be right, the last box must state its size, and the video must not be in
 * fragments; bytes after a whole video are ignored.
 */
export async function faultOfMp4(file: Reader, { isLengthKnown = true } = {}): Promise<Fault | undefined> {
  const { size } = await file.stat();
  if (size === 0) return { reason: "it is empty", mayBeVideo: false, isFinished: false };
  if (await isText(file)) return { reason: "it is text", mayBeVideo: false, isFinished: false };
  // A box of size 0 extends to the end of the file, wherever that is.
  const end = isLengthKnown ? size : Number.POSITIVE_INFINITY;
  const seen = new Set<string>();
  for (let at = 0; at < size; ) {
    const box = await readBox(file, at, end);
    if (at === 0 && !firstTypes.includes(box?.type ?? ""))
      return { ...(await describeKind(file)), mayBeVideo: true, isFinished: true };
    if (!box || at + box.size > size) {
      const isAfterVideo = ["ftyp", "moov", "mdat"].every((type) => seen.has(type)) && !seen.has("moof");
      if (!isLengthKnown && isAfterVideo && !videoTypes.includes(box?.type ?? "")) return undefined;
      const cut: Fault = { reason: "it is incomplete or damaged", mayBeVideo: true, isFinished: seen.has("moov") };
      const isOpen = box?.size === Number.POSITIVE_INFINITY;
      return isOpen
        ? { ...cut, reason: "its last box goes on to the end of the file", noLength: "open last box" }
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

const fragmented: Fault = {
  reason: "it is a fragmented .mp4",
  mayBeVideo: true,
  isFinished: true,
  noLength: "fragments",
};

/** The first bytes of other kinds of video, one character a byte; WebM is a kind of Matroska and says so a few bytes later. */
const kinds: readonly [RegExp, string][] = [
  [/^.E\xdf\xa3.*webm/s, "it is a WebM"],
  [/^.E\xdf\xa3/s, "it is a Matroska file"],
  [/^GIF8/, "it is a GIF"],
  [/^RIFF....AVI /s, "it is an AVI"],
  [/^G.{187}G/s, "it is an MPEG transport stream"],
];

async function describeKind(file: Reader): Promise<Pick<Fault, "reason" | "noLength">> {
  const { buffer, bytesRead } = await file.read(new Uint8Array(256), 0, 256, 0);
  const start = String.fromCharCode(...buffer.subarray(0, bytesRead));
  const [, reason] = kinds.find(([pattern]) => pattern.test(start)) ?? [];
  if (reason === undefined) return { reason: "it is not an .mp4", noLength: "unknown kind" };
  return { reason, noLength: "another kind" };
}

/** Whether the file is HTML, JSON or the like: the first bytes of every video include some that are not text. */
async function isText(file: Reader): Promise<boolean> {
  const { buffer, bytesRead } = await file.read(new Uint8Array(512), 0, 512, 0);
  return buffer.subarray(0, bytesRead).every((byte) => byte > 8);
}

/** What the headers of a file say about its video; values that are not in their usual place are left out. */
export type VideoFacts = { seconds?: number; width?: number; height?: number };

/** A video has a few dozen boxes beside each other; a file with more is not read to its end for a note. */
const maxBoxes = 1_000;

/** How long and how large the video of an .mp4 is, by its headers (`mvhd` and `tkhd`, sections 8.2.2 and 8.3.2). Rejects with the system's error. */
export async function readVideoFacts(file: Reader): Promise<VideoFacts> {
  const facts: VideoFacts = {};
  const { size } = await file.stat();
  const [moov] = await findBoxes(file, "moov", { at: 0, end: size });
  if (!moov) return facts;
  const [mvhd] = await findBoxes(file, "mvhd", moov);
  if (mvhd) Object.assign(facts, readLength(await readBody(file, mvhd)));
  for (const trak of await findBoxes(file, "trak", moov)) {
    const [tkhd] = await findBoxes(file, "tkhd", trak);
    // A track of sound has no size.
    if (tkhd && facts.width === undefined) Object.assign(facts, readSize(await readBody(file, tkhd)));
  }
  return facts;
}

/** The places in a file from `at` to `end`, both in bytes. */
type Span = { at: number; end: number };

/** The bodies of all boxes of one type at the same level of a part of a file. */
async function findBoxes(file: Reader, type: string, { at, end }: Span): Promise<Span[]> {
  const found: Span[] = [];
  for (let next = at, count = 0; next < end && count < maxBoxes; count++) {
    const box = await readBox(file, next, end);
    if (!box || next + box.size > end) break;
    if (box.type === type) found.push({ at: next + box.headerSize, end: next + box.size });
    next += box.size;
  }
  return found;
}

/** Longer than any header that is read here. */
const maxBody = 128;

async function readBody(file: Reader, { at, end }: Span): Promise<DataView> {
  const bytes = new Uint8Array(Math.min(end - at, maxBody));
  const { bytesRead } = await file.read(bytes, 0, bytes.length, at);
  return new DataView(bytes.buffer, 0, bytesRead);
}

function readLength(body: DataView): VideoFacts {
  const isLong = body.byteLength > 0 && body.getUint8(0) === 1;
  if (body.byteLength < (isLong ? 32 : 20)) return {};
  const timescale = body.getUint32(isLong ? 20 : 12);
  // A fragmented file has no length here, and a recording that was not closed has the largest number.
  const [length, unknown] = isLong
    ? [body.getBigUint64(24), 0xffff_ffff_ffff_ffffn]
    : [BigInt(body.getUint32(16)), 0xffff_ffffn];
  return timescale === 0 || length === 0n || length === unknown ? {} : { seconds: Number(length) / timescale };
}

function readSize(body: DataView): VideoFacts {
  const at = body.byteLength > 0 && body.getUint8(0) === 1 ? 88 : 76;
  if (body.byteLength < at + 8) return {};
  // Fixed-point numbers of 16.16 bits.
  const [width, height] = [Math.round(body.getUint32(at) / 65_536), Math.round(body.getUint32(at + 4) / 65_536)];
  return width === 0 || height === 0 ? {} : { width, height };
}

type Box = { type: string; size: number; headerSize: number };

async function readBox(file: Reader, at: number, end: number): Promise<Box | undefined> {
  // Deno reads into no DataView.
  const bytes = new Uint8Array(16);
  const header = new DataView(bytes.buffer);
  const { bytesRead } = await file.read(bytes, 0, 16, at);
  if (bytesRead < 8) return undefined;
  const type = String.fromCharCode(...[4, 5, 6, 7].map((i) => header.getUint8(i)));
  const short = header.getUint32(0);
  // Zeros are not a box.
  if (short === 0) return /^\w{4}$/.test(type) ? { type, size: end - at, headerSize: 8 } : undefined;
  if (short >= 8) return { type, size: short, headerSize: 8 };
  if (short !== 1 || bytesRead < 16) return undefined;
  const long = Number(header.getBigUint64(8));
  return long >= 16 ? { type, size: long, headerSize: 16 } : undefined;
}
