import { imageName } from "../../images.ts";
import { type PictureHeader, pictureFormat, readPictureHeader } from "../../picture.ts";
import { blueDifferenceOf, lumaOf, redDifferenceOf } from "./color.ts";
import { createFrame, type Frame } from "./frame.ts";
import { averageBlocks } from "./overlay.ts";
import { shrink } from "./pixels.ts";
import { encodePng } from "./png.ts";
import { rasterize } from "./rasterize.ts";
import type { FrameSize } from "./size.ts";
import { decodeWebp } from "./webp.ts";

/** How much larger than the frame a picture is on both sides, so that there is room to move; and at most, where it has more to show. */
const room = 1.12;
const mostRoom = 1.3;

/** What resvg draws at once, in pixels of four bytes. */
const mostDrawn = 12_000_000;
/** A WebP is brought down to no more than this before resvg has it. */
const mostShrunk = 4_000_000;

/**
 * Returns a PNG, JPEG or WebP as a picture that covers a frame of `size` and has some room to move within it. What is transparent is
 * black. Throws an Error with the name of `source` when the bytes cannot be decoded.
 */
export async function decodePicture(bytes: Uint8Array, source: string, size: FrameSize): Promise<Frame> {
  const header = readPictureHeader(bytes);
  const picture = header && (await draw(bytes, header, size).catch(() => undefined));
  if (!picture) throw new Error(`${imageName(source)} cannot be decoded, or all of it is transparent`);
  return picture;
}

/** resvg says of what it cannot decode only that it draws nothing; therefore a picture of nothing is taken for a broken one. */
async function draw(bytes: Uint8Array, header: PictureHeader, frame: FrameSize): Promise<Frame | undefined> {
  const upright = header.orientation < 5 ? header : { width: header.height, height: header.width };
  const { scale, ...size } = cover(upright, frame);
  const detail = Math.min(Math.round(1 / scale), 4, Math.floor(Math.sqrt(mostDrawn / (size.width * size.height))));
  const side = Math.max(1, detail);
  const canvas = { width: side * size.width, height: side * size.height };
  const href = await toHref(bytes);
  if (href === undefined) return undefined;
  const rgba = await rasterize(pictureSvg(href, header.orientation, canvas), []);
  return isEmpty(rgba) ? undefined : toFrame(rgba, side, size);
}

/** Returns the size a picture is drawn at, and how much larger than it is that makes it. */
function cover(picture: { width: number; height: number }, frame: FrameSize): FrameSize & { scale: number } {
  const scale = room * Math.max(frame.width / picture.width, frame.height / picture.height);
  const cut = (side: number, least: number) => 2 * Math.ceil(Math.min(side * scale, least * mostRoom) / 2);
  return { scale, width: cut(picture.width, frame.width), height: cut(picture.height, frame.height) };
}

/** Returns the picture as a data: URL of a format that resvg knows: a WebP, which it does not, becomes a PNG. */
async function toHref(bytes: Uint8Array): Promise<string | undefined> {
  const format = pictureFormat(bytes);
  if (format !== "webp") return toDataUrl(bytes, `image/${format}`);
  const pixels = await decodeWebp(bytes);
  if (!pixels) return undefined;
  const side = Math.ceil(Math.sqrt((pixels.width * pixels.height) / mostShrunk));
  return toDataUrl(encodePng(shrink(pixels, side)), "image/png");
}

function toDataUrl(bytes: Uint8Array, type: string): string {
  return `data:${type};base64,${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64")}`;
}

/** How a stored picture is turned and mirrored to stand upright in a frame: EXIF's orientations 1 to 8, as SVG has it. */
const turns = (width: number, height: number) => [
  [1, 0, 0, 1, 0, 0],
  [-1, 0, 0, 1, width, 0],
  [-1, 0, 0, -1, width, height],
  [1, 0, 0, -1, 0, height],
  [0, 1, 1, 0, 0, 0],
  [0, 1, -1, 0, width, 0],
  [0, -1, -1, 0, width, height],
  [0, -1, 1, 0, 0, height],
];

function pictureSvg(href: string, orientation: number, { width, height }: FrameSize): string {
  const turn = turns(width, height)[orientation - 1];
  const [across, down] = orientation < 5 ? [width, height] : [height, width];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><g transform="matrix(${turn})">
<image width="${across}" height="${down}" preserveAspectRatio="xMidYMid slice" href="${href}"/></g></svg>`;
}

function isEmpty(rgba: Uint8Array): boolean {
  for (let at = 3; at < rgba.length; at += 4) if (rgba[at] !== 0) return false;
  return true;
}

/** Converts pixels of red, green, blue (each times alpha, so that they lie on black already) and alpha, `side` times as large each way. */
function toFrame(rgba: Uint8Array, side: number, size: FrameSize): Frame {
  const frame = createFrame(size);
  const [width, height] = [side * size.width, side * size.height];
  fill(frame.y, averageBlocks(rgba, width, height, side), 16, lumaOf);
  const chroma = averageBlocks(rgba, width, height, 2 * side);
  fill(frame.u, chroma, 128, blueDifferenceOf);
  fill(frame.v, chroma, 128, redDifferenceOf);
  return frame;
}

function fill(plane: Uint8Array, rgba: Float32Array, offset: number, component: typeof lumaOf): void {
  for (let i = 0, at = 0; i < plane.length; i++, at += 4) {
    const [red, green, blue] = [rgba[at] as number, rgba[at + 1] as number, rgba[at + 2] as number];
    plane[i] = Math.round(offset + component(red, green, blue));
  }
}
