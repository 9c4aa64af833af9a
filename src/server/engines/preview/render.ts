import { readFile } from "node:fs/promises";
import type { RenderRequest } from "../engine.ts";
import { createBackground } from "./background.ts";
import { captionSvg } from "./caption.ts";
import { encode, loadEncoder } from "./encode.ts";
import { readAdvances } from "./font.ts";
import type { Overlay } from "./overlay.ts";
import { blend, createOverlay } from "./overlay.ts";
import { drawProgress } from "./progress.ts";
import { rasterize } from "./rasterize.ts";
import type { FrameSize } from "./size.ts";
import { frameSize } from "./size.ts";

/** Frames per second: enough for light that drifts slowly. */
export const frameRate = 12;

/** Renders the preview of a request to `file`, in this thread, which it keeps busy for a second or more. */
export async function renderPreview(request: RenderRequest, file: string): Promise<void> {
  const size = frameSize(request.aspectRatio, request.resolution);
  const [overlay, encoder] = await Promise.all([drawCaption(request, size), loadEncoder()]);
  const paintBackground = createBackground(size, request.prompt);
  const frameCount = Math.max(1, Math.round(request.duration * frameRate));
  encode(
    encoder,
    {
      ...size,
      frameRate,
      frameCount,
      paint: (frame, index) => {
        paintBackground(frame, index / frameRate);
        blend(overlay, frame);
        drawProgress(frame, (index + 1) / frameCount);
      },
    },
    file,
  );
}

async function drawCaption(request: RenderRequest, size: FrameSize): Promise<Overlay> {
  const [medium, semiBold] = await Promise.all([readFont("Inter-Medium.otf"), readFont("Inter-SemiBold.otf")]);
  const svg = captionSvg(request, size, { medium: readAdvances(medium), semiBold: readAdvances(semiBold) });
  return createOverlay(await rasterize(svg, [medium, semiBold]), size);
}

function readFont(name: string): Promise<Uint8Array> {
  return readFile(new URL(`./fonts/${name}`, import.meta.url));
}
