import { readFile, writeFile } from "node:fs/promises";
import { type Images, listImages, type RenderRequest } from "../../store/generations.ts";
import type { ImageFile, RenderTask } from "../engine.ts";
import { createBackground } from "./background.ts";
import { captionSvg } from "./caption.ts";
import { createCards } from "./cards.ts";
import { decodeImage } from "./decode.ts";
import { type Clip, encode } from "./encode.ts";
import { createFrame, type Frame, type FrameSize, frameSize, type Plane } from "./frame.ts";
import { blend, createOverlay, type Overlay } from "./overlay.ts";
import { encodePng, rasterize, toPixels } from "./pixels.ts";
import { createSlideshow } from "./slideshow.ts";
import { parseWidths } from "./text.ts";

/** Frames per second. A low rate suffices, because the background moves slowly. */
const frameRate = 12;

/** The maximum length of a thumbnail's longer side. */
const maxThumbnailSidePx = 480;

/** Renders the preview of a request and its thumbnail. Blocks this thread for a second or more. */
export async function renderPreview(task: RenderTask): Promise<void> {
  const { file, thumbnail } = task;
  const clip = await createClip(task);
  await writeFile(file, await encode(clip));
  await writeFile(thumbnail, drawThumbnail(clip));
}

/**
 * Returns the clip of a request, of at least one frame: its images or else a background, then its last image; over that its references, the caption
 * and a progress bar. Colours and movement depend on the prompt and the id, so that takes of one prompt differ. Throws an Error that names the
 * image that cannot be decoded.
 */
export async function createClip({
  id,
  request,
  images,
  lastImage,
  references = [],
}: Pick<RenderTask, "id" | "request" | keyof Images<unknown>>): Promise<Clip> {
  const size = frameSize(request.aspectRatio, request.resolution);
  const frameCount = Math.max(1, Math.round(request.duration * frameRate));
  const pictures = await decodeAll(listImages({ images, lastImage }), size);
  const caption = await drawCaption(request, size, { isOverPictures: pictures.length > 0 });
  const paintCards = await createCards(references, size);
  const seed = `${request.prompt} ${id}`;
  const background = images.length > 0 ? [] : [createBackground(size, seed)];
  const show = { seconds: frameCount / frameRate, seed, endsWhole: lastImage !== undefined };
  const paintPicture = createSlideshow([...background, ...pictures], size, show);
  const paint = (frame: Frame, index: number) => {
    paintPicture(frame, index / frameRate);
    paintCards(frame);
    blend(caption, frame);
    drawProgress(frame, (index + 1) / frameCount);
  };
  return { ...size, frameRate, frameCount, paint };
}

/** Decodes the images one after the other, because decoding a large image takes a few hundred megabytes. */
async function decodeAll(images: ImageFile[], size: FrameSize): Promise<Frame[]> {
  const pictures: Frame[] = [];
  for (const { path, name } of images) pictures.push(await decodeImage(await readFile(path), name, size));
  return pictures;
}

async function drawCaption(
  request: RenderRequest,
  size: FrameSize,
  options: { isOverPictures: boolean },
): Promise<Overlay> {
  const readFont = (name: string) => readFile(new URL(`./fonts/${name}`, import.meta.url));
  const fonts = await Promise.all([readFont("Inter-Medium.otf"), readFont("Inter-SemiBold.otf")]);
  const widths = parseWidths(String(await readFont("widths.json")));
  return createOverlay(await rasterize(captionSvg(request, size, widths, options), fonts));
}

/** Draws a thin bar along the lower edge, filled up to `share` (from 0 to 1) of the width. */
export function drawProgress(frame: Frame, share: number): void {
  const rows = Math.round((2 * Math.min(frame.width, frame.height)) / 480);
  const columns = Math.round((share * frame.width) / 2);
  const [y, u, v] = frame.planes;
  fillCorner(y, { rows: 2 * rows, columns: 2 * columns }, 225);
  fillCorner(u, { rows, columns }, 128);
  fillCorner(v, { rows, columns }, 128);
}

function fillCorner({ bytes, width, height }: Plane, size: { rows: number; columns: number }, value: number): void {
  for (let row = height - size.rows; row < height; row++) {
    bytes.fill(value, row * width, row * width + size.columns);
  }
}

/** Returns the frame in the middle of a clip as a PNG, whose sides are those of the frame divided by a whole number. */
export function drawThumbnail(clip: Clip): Buffer {
  const frame = createFrame(clip);
  clip.paint(frame, Math.floor(clip.frameCount / 2));
  return encodePng(toPixels(frame, Math.ceil(Math.max(clip.width, clip.height) / maxThumbnailSidePx)));
}
