/** The picture formats that the service accepts. */
export type PictureFormat = "png" | "jpeg" | "webp";

/** Limits the memory, because a decoded pixel takes four bytes, and a file of a few kilobytes may hold billions of pixels. */
export const maxMegapixels = 50;

/**
 * The header of a picture. `orientation` is EXIF's, from 1 (upright) to 8, and is read only from a JPEG. An animated PNG counts as still,
 * since every decoder shows its first picture.
 */
export type PictureHeader = { width: number; height: number; orientation: number; isAnimated: boolean };

/** Recognizes a PNG, JPEG or WebP by its first bytes; `undefined` for anything else. */
export function pictureFormat(bytes: Uint8Array): PictureFormat | undefined {
  const start = toBuffer(bytes).toString("latin1", 0, 12);
  if (start.startsWith("\x89PNG\r\n\x1a\n")) return "png";
  if (start.startsWith("\xff\xd8\xff")) return "jpeg";
  return start.startsWith("RIFF") && start.endsWith("WEBP") ? "webp" : undefined;
}

/** Reads the header without decoding the picture. Width and height are before rotation. `undefined` when the header is cut off or invalid. */
export function readPictureHeader(bytes: Uint8Array): PictureHeader | undefined {
  const format = pictureFormat(bytes);
  if (!format) return undefined;
  try {
    const header = { orientation: 1, isAnimated: false, ...readers[format](toBuffer(bytes)) };
    return header.width > 0 && header.height > 0 ? header : undefined;
  } catch {
    // An invalid header causes a read beyond the end, or an error thrown below.
    return undefined;
  }
}

type HeaderFields = Pick<PictureHeader, "width" | "height"> & Partial<PictureHeader>;

const readers: Record<PictureFormat, (bytes: Buffer) => HeaderFields> = {
  png: readPng,
  jpeg: readJpeg,
  webp: readWebp,
};

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function readPng(bytes: Buffer): HeaderFields {
  if (bytes.toString("latin1", 12, 16) !== "IHDR") throw new Error("a PNG without a header");
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
}

/** Whether a marker starts a frame, which contains the size. Three markers of the range start tables. */
const isFrame = (marker: number) => marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);

/** Reads the segments up to the first frame. */
function readJpeg(bytes: Buffer): HeaderFields {
  let orientation = 1;
  for (let at = 2; bytes.readUInt8(at) === 0xff; ) {
    const marker = bytes.readUInt8(at + 1);
    if (isFrame(marker)) return { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7), orientation };
    // Any number of 0xff bytes may come before a marker: fill bytes, not segments.
    const length = marker === 0xff ? -1 : bytes.readUInt16BE(at + 2);
    if (marker === 0xe1) orientation = readOrientation(bytes.subarray(at + 4, at + 2 + length)) ?? orientation;
    at += 2 + length;
  }
  throw new Error("a JPEG without a frame");
}

/** Reads the orientation from an EXIF segment; `undefined` when it is missing or invalid, since the picture can be shown without it. */
function readOrientation(segment: Buffer): number | undefined {
  if (segment.toString("latin1", 0, 6) !== "Exif\0\0") return undefined;
  try {
    return findOrientation(new DataView(segment.buffer, segment.byteOffset + 6, segment.length - 6));
  } catch {
    return undefined;
  }
}

const orientationTag = 0x0112;

/** Searches the tags of a TIFF file's first directory. */
function findOrientation(tiff: DataView): number | undefined {
  const isLittleEndian = tiff.getUint16(0) === 0x4949;
  const tags = tiff.getUint32(4, isLittleEndian);
  for (let i = 0, at = tags + 2; i < tiff.getUint16(tags, isLittleEndian); i++, at += 12) {
    if (tiff.getUint16(at, isLittleEndian) !== orientationTag) continue;
    const orientation = tiff.getUint16(at + 8, isLittleEndian);
    return orientation >= 1 && orientation <= 8 ? orientation : undefined;
  }
  return undefined;
}

/** The first chunk of a WebP is lossy, lossless or extended; the extended one contains the size of the canvas. */
function readWebp(bytes: Buffer): HeaderFields {
  const kind = bytes.toString("latin1", 12, 16);
  if (kind === "VP8 ") return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
  if (kind === "VP8X") {
    const isAnimated = (bytes.readUInt8(20) & 2) !== 0;
    return { width: 1 + bytes.readUIntLE(24, 3), height: 1 + bytes.readUIntLE(27, 3), isAnimated };
  }
  if (kind !== "VP8L") throw new Error("a WebP without a picture");
  const bits = bytes.readUInt32LE(21);
  return { width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) };
}

/** Decodes a data: URL (RFC 2397) of any type. Throws an Error whose message starts with `name`. */
export function readData(url: string, name: string): Uint8Array<ArrayBuffer> {
  const comma = url.indexOf(",");
  if (comma < 0) throw new Error(`${name} has no data`);
  const data = decodePercent(url.slice(comma + 1));
  if (!/;\s*base64\s*$/i.test(url.slice(0, comma))) return data;
  const base64 = data.toString("latin1").replace(/[\t\n\f\r ]/g, "");
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) throw new Error(`${name} is not valid base64`);
  return Buffer.from(base64, "base64");
}

function decodePercent(text: string): Buffer<ArrayBuffer> {
  const decoded = text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(decoded, "latin1");
}
