import { readFileSync } from "node:fs";

/** One box of an .mp4: its type and what it holds. */
export type Box = { type: string; content: Buffer };

/** Reads the boxes that fill the bytes exactly; throws if the last one ends anywhere but at the end. */
function readBoxes(bytes: Buffer): Box[] {
  const boxes: Box[] = [];
  let at = 0;
  while (at < bytes.length) {
    const size = bytes.readUInt32BE(at);
    if (size < 8 || at + size > bytes.length) throw new Error(`a box of ${size} bytes at ${at} of ${bytes.length}`);
    boxes.push({ type: bytes.toString("latin1", at + 4, at + 8), content: bytes.subarray(at + 8, at + size) });
    at += size;
  }
  return boxes;
}

function find(bytes: Buffer, ...path: string[]): Buffer {
  return path.reduce((content, type) => {
    const box = readBoxes(content).find((candidate) => candidate.type === type);
    if (!box) throw new Error(`no box ${type} of ${path.join("/")}`);
    return box.content;
  }, bytes);
}

/** Reads what a player needs to know of a video with one track. All numbers are read from version 0 of the boxes. */
export function readMovie(file: string) {
  const bytes = readFileSync(file);
  const types = readBoxes(bytes).map((box) => box.type);
  const [mvhd, tkhd] = [find(bytes, "moov", "mvhd"), find(bytes, "moov", "trak", "tkhd")];
  const mdhd = find(bytes, "moov", "trak", "mdia", "mdhd");
  const table = find(bytes, "moov", "trak", "mdia", "minf", "stbl");
  const [entry] = readBoxes(find(table, "stsd").subarray(8));
  const [stts, stss] = [find(table, "stts"), find(table, "stss")];
  return {
    types,
    codec: entry?.type,
    codedSize: [entry?.content.readUInt16BE(24), entry?.content.readUInt16BE(26)],
    shownSize: [tkhd.readUInt32BE(76) / 65536, tkhd.readUInt32BE(80) / 65536],
    created: [mvhd, tkhd, mdhd].map((box) => box.readUInt32BE(4) + box.readUInt32BE(8)),
    movieSeconds: mvhd.readUInt32BE(16) / mvhd.readUInt32BE(12),
    trackSeconds: mdhd.readUInt32BE(16) / mdhd.readUInt32BE(12),
    frames: Array.from({ length: stts.readUInt32BE(4) }, (_, i) => stts.readUInt32BE(8 + 8 * i)).reduce(
      (a, b) => a + b,
    ),
    keyFrames: Array.from({ length: stss.readUInt32BE(4) }, (_, i) => stss.readUInt32BE(8 + 4 * i)),
  };
}

/** Reads the kind of the first NAL unit of each sample, in order: 5 is a frame that stands alone, 1 is any other. */
export function readNalKinds(file: string): number[] {
  const bytes = readFileSync(file);
  const table = find(bytes, "moov", "trak", "mdia", "minf", "stbl");
  const [stsz, stsc, stco] = [find(table, "stsz"), find(table, "stsc"), find(table, "stco")];
  const perChunk = stsc.readUInt32BE(12);
  const kinds: number[] = [];
  for (let i = 0, at = 0; i < stsz.readUInt32BE(8); i++) {
    if (i % perChunk === 0) at = stco.readUInt32BE(8 + 4 * (i / perChunk));
    kinds.push((bytes[at + 4] ?? 0) & 31);
    at += stsz.readUInt32BE(12 + 4 * i);
  }
  return kinds;
}
