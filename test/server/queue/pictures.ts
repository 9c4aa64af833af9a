import { crc32, deflateSync, inflateSync } from "node:zlib";

const fromBase64 = (text: string) => new Uint8Array(Buffer.from(text, "base64"));

/** 16 by 16 pixels in four squares, row by row red, green, blue and white. */
export const squaresJpeg = fromBase64(
  "/9j/2wBDAAgGBgcGBwgICAgICAkJCQoKCgkJCQkKCgoKCgoMDAwKCgoKCgoKDAwMDA0ODQ0NDA0ODg8PDxISEREVFRUZGR//xABNAAEBAAAAAAAAAAAAAAAAAAAGBwEBAQEAAAAAAAAAAAAAAAAABwgGEAEAAAAAAAAAAAAAAAAAAAAAEQEAAAAAAAAAAAAAAAAAAAAA/8AAEQgAEAAQAwESAAISAAMSAP/aAAwDAQACEQMRAD8AFiDKKqP6a15WlFhUFJrf/9k=",
);

/** The same as a lossy WebP. */
export const squaresWebp = fromBase64(
  "UklGRkIAAABXRUJQVlA4IDYAAACwAQCdASoQABAAAUAmJaACdLoABKoAAP2z//k+P/zKv//c3sf+bA/+58//Spv/9Lg/+RxpoAA=",
);

/** As a lossless WebP, whose left half is transparent. */
export const halfWebp = fromBase64("UklGRigAAABXRUJQVlA4TBwAAAAvD8ADEBcw//M///MfkAaBAGHSpFMHEf0P0FsP");

/** As an extended WebP, lossy with an alpha channel, whose left half is transparent. */
export const extendedWebp = fromBase64(
  "UklGRmwAAABXRUJQVlA4WAoAAAAQAAAADwAADwAAQUxQSBIAAAABDzD/ERFCLJjMX7o7g4j+hy5WUDggNAAAALABAJ0BKhAAEAACADQloAJ0ugAEqgAA/bP/9ZV/vL//0FIv/IMf+rQ/+Paf/yA//ve7YAA=",
);

/** Red, green, blue and alpha. */
export type Color = [red: number, green: number, blue: number, alpha: number];

/** A PNG of that size, each pixel of the colour that `colorAt` says; grey when it says nothing. */
export function aPng(
  width: number,
  height: number,
  colorAt: (x: number, y: number) => Color = () => [120, 120, 120, 255],
): Uint8Array {
  const rows = Buffer.alloc((4 * width + 1) * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) rows.set(colorAt(x, y), (4 * width + 1) * y + 1 + 4 * x);
  }
  return pngOf(width, height, deflateSync(rows));
}

/** A PNG whose header says that size, whatever its data holds. */
export function pngOf(width: number, height: number, data: Uint8Array): Uint8Array {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 6], 8);
  const signature = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
  const chunks = [chunk("IHDR", header), chunk("IDAT", data), chunk("IEND", Buffer.alloc(0))];
  return new Uint8Array(Buffer.concat([signature, ...chunks]));
}

function chunk(type: string, data: Uint8Array): Buffer {
  const content = Buffer.concat([Buffer.from(type, "latin1"), data]);
  return Buffer.concat([uint32(data.length), content, uint32(crc32(content))]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Puts into a JPEG the segment of EXIF that says how it is to be turned; `order` is that of the bytes. */
export function oriented(jpeg: Uint8Array, orientation: number, order: "II" | "MM" = "II"): Uint8Array {
  const isLittle = order === "II";
  const exif = new DataView(new ArrayBuffer(36));
  exif.setUint16(0, 0xffe1);
  exif.setUint16(2, 34);
  new Uint8Array(exif.buffer).set(Buffer.from(`Exif\0\0${order}`, "latin1"), 4);
  exif.setUint16(12, 42, isLittle);
  exif.setUint32(14, 8, isLittle);
  exif.setUint16(18, 1, isLittle);
  exif.setUint16(20, 0x0112, isLittle);
  exif.setUint16(22, 3, isLittle);
  exif.setUint32(24, 1, isLittle);
  exif.setUint16(28, orientation, isLittle);
  return new Uint8Array([...jpeg.subarray(0, 2), ...new Uint8Array(exif.buffer), ...jpeg.subarray(2)]);
}

/** Reads a PNG of 8 bits each of red, green, blue and alpha, whose rows are stored as differences from those above. */
export function readPng(png: Uint8Array): { width: number; height: number; colorAt(x: number, y: number): Color } {
  const bytes = Buffer.from(png);
  const [width, height] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
  const stride = 4 * width + 1;
  const rows = inflateSync(bytes.subarray(41, 41 + bytes.readUInt32BE(33)));
  for (let at = stride; at < rows.length; at++) {
    if (at % stride !== 0) rows[at] = (rows[at] as number) + (rows[at - stride] as number);
  }
  return { width, height, colorAt: (x, y) => [...rows.subarray(stride * y + 1 + 4 * x).subarray(0, 4)] as Color };
}
