import { readFile } from "node:fs/promises";
import type { RenderRequest } from "../engine.ts";
import { createBackground } from "./background.ts";
import { captionSvg } from "./caption.ts";
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

/** Frames per second: enough for light that drifts slowly. */
const frameRate = 12;

/** Renders the preview of a request to `file`, in this thread, which it keeps busy for a second or more. */
export async function renderPreview(request: RenderRequest, file: string): Promise<void> {
  const [clip, encoder] = await Promise.all([createClip(request), loadEncoder()]);
  encode(encoder, clip, file);
}

/** Returns the clip of a request, of whole frames and at least one: the background, the caption over it, and a bar that grows. */
export async function createClip(request: RenderRequest): Promise<Clip> {
  const size = frameSize(request.aspectRatio, request.resolution);
  const frameCount = Math.max(1, Math.round(request.duration * frameRate));
  const overlay = await drawCaption(request, size);
  const paintBackground = createBackground(size, request.prompt);
  const paint = (frame: Frame, index: number) => {
    paintBackground(frame, index / frameRate);
    blend(overlay, frame);
    drawProgress(frame, (index + 1) / frameCount);
  };
  return { ...size, frameRate, frameCount, paint };
}

async function drawCaption(request: RenderRequest, size: FrameSize): Promise<Overlay> {
  const [medium, semiBold] = await Promise.all([readFont("Inter-Medium.otf"), readFont("Inter-SemiBold.otf")]);
  const svg = captionSvg(request, size, { medium: readAdvances(medium), semiBold: readAdvances(semiBold) });
  return createOverlay(await rasterize(svg, [medium, semiBold]), size);
}

function readFont(name: string): Promise<Uint8Array> {
  return readFile(new URL(`./fonts/${name}`, import.meta.url));
}
