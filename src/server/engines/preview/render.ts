import { readFile, writeFile } from "node:fs/promises";
import type { RenderRequest, RenderTask } from "../engine.ts";
import { createBackground } from "./background.ts";
import { captionSvg } from "./caption.ts";
import { decodePicture } from "./decode.ts";
import type { Clip } from "./encode.ts";
import { encode, loadEncoder } from "./encode.ts";
import { readAdvances } from "./font.ts";
import type { Frame } from "./frame.ts";
import type { Overlay } from "./overlay.ts";
import { blend, createOverlay } from "./overlay.ts";
import { drawProgress } from "./progress.ts";
import { rasterize } from "./rasterize.ts";
import type { FrameSize } from "./size.ts";
import { frameSize } from "./size.ts";
import { createSlideshow } from "./slideshow.ts";
import { drawThumbnail } from "./thumbnail.ts";

/** Frames per second: enough for light that drifts slowly. */
const frameRate = 12;

/** Renders the preview of a request and its thumbnail, in this thread, which it keeps busy for a second or more. */
export async function renderPreview({ request, images, file, thumbnail }: RenderTask): Promise<void> {
  const [clip, encoder] = await Promise.all([createClip(request, images), loadEncoder()]);
  encode(encoder, clip, file);
  await writeFile(thumbnail, drawThumbnail(clip));
}

/**
 * Returns the clip of a request, of whole frames and at least one: its images or else a background, the caption over that, and a bar that
 * grows. Throws an Error that names the image that cannot be decoded.
 */
export async function createClip(request: RenderRequest, images: Uint8Array[]): Promise<Clip> {
  const size = frameSize(request.aspectRatio, request.resolution);
  const frameCount = Math.max(1, Math.round(request.duration * frameRate));
  const overlay = await drawCaption(request, size);
  const show = { seconds: frameCount / frameRate, prompt: request.prompt };
  const pictures = await decodeAll(request, images, size);
  const hasPictures = pictures.length > 0;
  const paintBelow = hasPictures ? createSlideshow(pictures, size, show) : createBackground(size, request.prompt);
  const paint = (frame: Frame, index: number) => {
    paintBelow(frame, index / frameRate);
    blend(overlay, frame);
    drawProgress(frame, (index + 1) / frameCount);
  };
  return { ...size, frameRate, frameCount, paint };
}

/** One after the other: a large one takes a few hundred megabytes while it is decoded. */
async function decodeAll(request: RenderRequest, images: Uint8Array[], size: FrameSize): Promise<Frame[]> {
  const pictures: Frame[] = [];
  for (const [i, image] of images.entries()) {
    pictures.push(await decodePicture(image, request.images[i] ?? "", size));
  }
  return pictures;
}

async function drawCaption(request: RenderRequest, size: FrameSize): Promise<Overlay> {
  const [medium, semiBold] = await Promise.all([readFont("Inter-Medium.otf"), readFont("Inter-SemiBold.otf")]);
  const svg = captionSvg(request, size, { medium: readAdvances(medium), semiBold: readAdvances(semiBold) });
  return createOverlay(await rasterize(svg, [medium, semiBold]), size);
}

function readFont(name: string): Promise<Uint8Array> {
  return readFile(new URL(`./fonts/${name}`, import.meta.url));
}
