import type { FileHandle } from "node:fs/promises";

/**
 * What keeps a file from being a whole .mp4, in a few words; `undefined` when it is one: its top-level boxes run from `ftyp` exactly to
 * the end of the file, with `moov` and `mdat` among them (ISO/IEC 14496-12, section 4.2).
 */
export async function faultOfMp4(file: FileHandle): Promise<string | undefined> {
  const { size } = await file.stat();
  if (size === 0) return "it is empty";
  const seen = new Set<string>();
  for (let at = 0; at < size; ) {
    const box = await readBox(file, at, size);
    if (at === 0 && box?.type !== "ftyp") return "it is no .mp4";
    if (!box || at + box.size > size) return "it is cut or damaged";
    // Two files in a row: the standard wants exactly one `ftyp` (section 4.3).
    if (at > 0 && box.type === "ftyp") return "it is more than one file";
    seen.add(box.type);
    at += box.size;
  }
  return seen.has("moov") && seen.has("mdat") ? undefined : "it holds no video";
}

async function readBox(file: FileHandle, at: number, end: number): Promise<{ type: string; size: number } | undefined> {
  const header = new DataView(new ArrayBuffer(16));
  const { bytesRead } = await file.read(header, 0, 16, at);
  if (bytesRead < 8) return undefined;
  const type = String.fromCharCode(...[4, 5, 6, 7].map((i) => header.getUint8(i)));
  const short = header.getUint32(0);
  if (short === 0) return type === "mdat" ? { type, size: end - at } : undefined;
  if (short >= 8) return { type, size: short };
  if (short !== 1 || bytesRead < 16) return undefined;
  const long = Number(header.getBigUint64(8));
  return long >= 16 ? { type, size: long } : undefined;
}
