import { imageName } from "../../jobs/images.ts";
import { type PictureHeader, pictureFormat, readPictureHeader } from "../../jobs/picture.ts";
import type { Frame } from "./frame.ts";
import { shrink } from "./pixels.ts";
import { toFrame } from "./planes.ts";
import { encodePng } from "./png.ts";
import { rasterize } from "./rasterize.ts";
import type { FrameSize } from "./size.ts";
import { isTurned, uprightSvg } from "./upright.ts";
import { decodeWebp } from "./webp.ts";

/** How much larger than the frame a picture is each way, so that there is room to move; and at most, where it has more to show. */
const [leastRoom, mostRoom] = [1.12, 1.3];

/** What resvg draws at once, in pixels of four bytes. */
const mostDrawn = 12_000_000;
/** A WebP is brought down to about this before resvg has it. */
const mostShrunk = 4_000_000;

/**
 * Returns a PNG, JPEG or WebP as a picture that covers a frame of `size` and has some room to move within it. What is transparent is
 * black. Throws an Error with the name of `source` when the bytes cannot be decoded.
 */
export async function decodePicture(bytes: Uint8Array, source: string, size: FrameSize): Promise<Frame> {
  try {
    return await draw(bytes, size);
  } catch (cause) {
    throw new Error(`${imageName(source)} cannot be decoded, or all of it is transparent`, { cause });
  }
}

async function draw(bytes: Uint8Array, frame: FrameSize): Promise<Frame> {
  const header = readPictureHeader(bytes);
  if (!header) throw new Error("the header cannot be read");
  const { scale, ...size } = cover(header, frame);
  // resvg looks at few of the pixels of a picture that it makes much smaller; drawn larger and averaged, all of them count.
  const most = Math.floor(Math.sqrt(mostDrawn / (size.width * size.height)));
  const side = Math.max(1, Math.min(Math.round(1 / scale), 4, most));
  const svg = uprightSvg(await toHref(bytes), header.orientation, {
    width: side * size.width,
    height: side * size.height,
  });
  const rgba = await rasterize(svg, []);
  // All that resvg says of what it cannot decode is that it draws nothing.
  if (isEmpty(rgba)) throw new Error("nothing was drawn");
  return toFrame(rgba, side, size);
}

/** Returns the size a picture is drawn at, and how much larger than it is that makes it. */
function cover({ width, height, orientation }: PictureHeader, frame: FrameSize): FrameSize & { scale: number } {
  const [across, down] = isTurned(orientation) ? [height, width] : [width, height];
  const scale = leastRoom * Math.max(frame.width / across, frame.height / down);
  const cut = (side: number, least: number) => 2 * Math.ceil(Math.min(side * scale, least * mostRoom) / 2);
  return { scale, width: cut(across, frame.width), height: cut(down, frame.height) };
}

/** Returns the picture as a data: URL of a format that resvg knows: a WebP, which it does not, becomes a PNG. */
async function toHref(bytes: Uint8Array): Promise<string> {
  const format = pictureFormat(bytes);
  if (format !== "webp") return toDataUrl(bytes, `image/${format}`);
  const pixels = await decodeWebp(bytes);
  const side = Math.ceil(Math.sqrt((pixels.width * pixels.height) / mostShrunk));
  return toDataUrl(encodePng(shrink(pixels, side)), "image/png");
}

function toDataUrl(bytes: Uint8Array, type: string): string {
  return `data:${type};base64,${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64")}`;
}

function isEmpty(rgba: Uint8Array): boolean {
  for (let at = 3; at < rgba.length; at += 4) if (rgba[at] !== 0) return false;
  return true;
}
