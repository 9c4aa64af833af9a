import type { DiskFile } from "../io.ts";

/** What keeps a file from being a whole .mp4, in a few words. It may still be a video, of a kind or a make that we do not know. */
export type Fault = { reason: string; mayBeVideo: boolean };

type Reader = Pick<DiskFile, "read" | "stat">;

/** The boxes that an .mp4 begins with: its type, or that of a segment, or padding, as QuickTime writes it too. */
const firstTypes = ["ftyp", "styp", "free", "skip", "wide"];
/** A file has one of each (sections 4.3 and 8.2.1). */
const singleTypes = ["ftyp", "moov"];

/**
 * Looks for what keeps a file from being a whole .mp4: its top-level boxes run exactly to the end of the file, with `moov` and `mdat` among
 * them (ISO/IEC 14496-12, section 4.2). Where its length is not known to be right, the last box has to say its size.
 */
export async function faultOfMp4(file: Reader, { isLengthKnown = true } = {}): Promise<Fault | undefined> {
  const { size } = await file.stat();
  if (size === 0) return { reason: "it is empty", mayBeVideo: false };
  if (await isText(file)) return { reason: "it is text", mayBeVideo: false };
  // A box without a size goes on to the end of the file, wherever that is.
  const end = isLengthKnown ? size : Number.POSITIVE_INFINITY;
  const seen = new Set<string>();
  for (let at = 0; at < size; ) {
    const box = await readBox(file, at, end);
    if (at === 0 && !firstTypes.includes(box?.type ?? "")) return { reason: "it is not an .mp4", mayBeVideo: true };
    if (!box || at + box.size > size) return { reason: "it is incomplete or damaged", mayBeVideo: true };
    if (singleTypes.includes(box.type) && seen.has(box.type))
      return { reason: "it contains more than one file", mayBeVideo: false };
    seen.add(box.type);
    at += box.size;
  }
  return seen.has("moov") && seen.has("mdat") ? undefined : { reason: "it contains no video", mayBeVideo: true };
}

/** Whether the file is HTML, JSON or the like: the first bytes of any video have some that are no text. */
async function isText(file: Reader): Promise<boolean> {
  const { buffer, bytesRead } = await file.read(new Uint8Array(512), 0, 512, 0);
  return buffer.subarray(0, bytesRead).every((byte) => byte > 8);
}

async function readBox(file: Reader, at: number, end: number): Promise<{ type: string; size: number } | undefined> {
  // Deno reads into no DataView.
  const bytes = new Uint8Array(16);
  const header = new DataView(bytes.buffer);
  const { bytesRead } = await file.read(bytes, 0, 16, at);
  if (bytesRead < 8) return undefined;
  const type = String.fromCharCode(...[4, 5, 6, 7].map((i) => header.getUint8(i)));
  const short = header.getUint32(0);
  // Zeros are no box.
  if (short === 0) return /^\w{4}$/.test(type) ? { type, size: end - at } : undefined;
  if (short >= 8) return { type, size: short };
  if (short !== 1 || bytesRead < 16) return undefined;
  const long = Number(header.getBigUint64(8));
  return long >= 16 ? { type, size: long } : undefined;
}
