import { type PictureHeader, pictureFormat, readPictureHeader } from "../../media/picture.ts";
import type { Frame, FrameSize } from "./frame.ts";
import { encodePng, rasterize, shrink, toFrame } from "./pixels.ts";

/** How many times larger than the frame a picture is drawn, so that the camera can move. The maximum is for a picture of another ratio. */
const [minRoom, maxRoom] = [1.12, 1.3];

/** The largest picture that resvg draws, in pixels of four bytes. */
const maxDrawnPixels = 12_000_000;

/** A WebP is shrunk to about this size before it is passed to resvg. */
const maxWebpPixels = 4_000_000;

/**
 * Returns a PNG, JPEG or WebP as a picture that covers a frame of `size` and has some room to move within it. Transparent parts become black. Throws
 * an Error with the image's name when the bytes cannot be decoded.
 */
export async function decodeImage(bytes: Uint8Array, name: string, size: FrameSize): Promise<Frame> {
  try {
    return await draw(bytes, size);
  } catch (cause) {
    throw new Error(`${name} cannot be decoded, or all of it is transparent`, { cause });
  }
}

async function draw(bytes: Uint8Array, frame: FrameSize): Promise<Frame> {
  const header = readPictureHeader(bytes);
  if (!header) throw new Error("the header cannot be read");
  const { scale, width, height } = cover(header, frame);
  // When resvg shrinks a picture much, it reads few of its pixels. Drawing it larger and averaging then uses all of them.
  const maxSide = Math.floor(Math.sqrt(maxDrawnPixels / (width * height)));
  const side = Math.max(1, Math.min(Math.round(1 / scale), 4, maxSide));
  const drawn = { width: side * width, height: side * height };
  const pixels = await rasterize(uprightSvg(await toDataUrl(bytes), header.orientation, drawn), []);
  // resvg reports no error when it cannot decode an image; it draws nothing.
  if (isEmpty(pixels.rgba)) throw new Error("nothing was drawn");
  return toFrame(pixels, side);
}

/** Returns the size of an upright picture; that of a square if its header cannot be read. */
export function uprightSize(bytes: Uint8Array): FrameSize {
  const { width, height, orientation } = readPictureHeader(bytes) ?? { width: 1, height: 1, orientation: 1 };
  return isTurned(orientation) ? { width: height, height: width } : { width, height };
}

/** Returns the size at which a picture is drawn, and its scale relative to the stored picture. */
function cover({ width, height, orientation }: PictureHeader, frame: FrameSize): FrameSize & { scale: number } {
  const [across, down] = isTurned(orientation) ? [height, width] : [width, height];
  const scale = minRoom * Math.max(frame.width / across, frame.height / down);
  const cut = (side: number, frameSide: number) => 2 * Math.ceil(Math.min(side * scale, frameSide * maxRoom) / 2);
  return { scale, width: cut(across, frame.width), height: cut(down, frame.height) };
}

/** Whether the stored width is the height of the upright picture. */
function isTurned(orientation: number): boolean {
  return orientation >= 5;
}

/** Returns the picture as a data: URL of a format that resvg decodes; a WebP becomes a PNG. */
async function toDataUrl(bytes: Uint8Array): Promise<string> {
  const format = pictureFormat(bytes);
  const [decodableBytes, type] = format === "webp" ? [await webpToPng(bytes), "png"] : [bytes, format];
  return `data:image/${type};base64,${Buffer.from(decodableBytes.buffer, decodableBytes.byteOffset, decodableBytes.byteLength).toString("base64")}`;
}

async function webpToPng(bytes: Uint8Array): Promise<Buffer> {
  const { decode } = await import("@cwasm/webp");
  const { width, height, data } = decode(bytes);
  const side = Math.ceil(Math.sqrt((width * height) / maxWebpPixels));
  return encodePng(shrink({ width, height, rgba: new Uint8Array(data.buffer) }, side));
}

/**
 * Returns an SVG of the given size that a picture covers, cropped on both sides where it is too long. `orientation` is that of EXIF, 1 to 8: how the
 * picture must be mirrored and rotated to be upright.
 */
function uprightSvg(href: string, orientation: number, { width, height }: FrameSize): string {
  const matrices = [
    [1, 0, 0, 1, 0, 0],
    [-1, 0, 0, 1, width, 0],
    [-1, 0, 0, -1, width, height],
    [1, 0, 0, -1, 0, height],
    [0, 1, 1, 0, 0, 0],
    [0, 1, -1, 0, width, 0],
    [0, -1, -1, 0, width, height],
    [0, -1, 1, 0, 0, height],
  ];
  const [across, down] = isTurned(orientation) ? [height, width] : [width, height];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><g transform="matrix(${matrices[orientation - 1]})">
<image width="${across}" height="${down}" preserveAspectRatio="xMidYMid slice" href="${href}"/></g></svg>`;
}

function isEmpty(rgba: Uint8Array): boolean {
  for (let at = 3; at < rgba.length; at += 4) if (rgba[at] !== 0) return false;
  return true;
}
