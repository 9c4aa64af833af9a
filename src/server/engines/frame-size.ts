import { adaptiveRatio, resolutions, shorterSideOf } from "../../protocol/models.ts";
import { oneOf } from "../../protocol/text.ts";
import type { RenderRequest } from "../store/generations.ts";

/** A size in pixels. */
export type FrameSize = { width: number; height: number };

type Shape = Pick<RenderRequest, "aspectRatio" | "resolution">;

/** A ratio or a resolution that has no pixels. `text` follows the name of the field. */
export type ShapeFault = { field: keyof Shape; text: string };

/** The resolutions of previews. A preview at 4K would take minutes. */
export const previewResolutions = Object.keys(resolutions).filter((name) => Number(resolutions[name]) <= 1_080);

/** Why a request's frame has no size in pixels, or one that is too large for a preview; `undefined` if it has one, or if it does not ask for one. */
export function findShapeFault(
  { aspectRatio, resolution, unset = [], extras }: Omit<Parameters<typeof frameSize>[0], "model">,
  { isPreview = false } = {},
): ShapeFault | undefined {
  if (extras.size !== undefined) return undefined;
  const names = isPreview ? previewResolutions : Object.keys(resolutions);
  const isKnown = names.some((name) => resolutions[name] === shorterSideOf(resolution));
  if (!unset.includes("resolution") && !isKnown) return { field: "resolution", text: `must be ${oneOf(names)}` };
  if (aspectRatio !== adaptiveRatio) return undefined;
  return { field: "aspectRatio", text: 'must be a ratio such as "16:9"' };
}

/** Returns the same as text, for the `findFault` of an engine that needs pixels. */
export function describeShapeFault(...args: Parameters<typeof findShapeFault>): string | undefined {
  const fault = findShapeFault(...args);
  return fault && `${fault.field} ${fault.text}`;
}

/**
 * Returns the size of a frame, whose longer side is a multiple of `blockPx`. The resolution names the shorter side; the longer side follows from the
 * ratio, such as "16:9" or "2.39:1", which the API has checked. Throws for what `findShapeFault` finds.
 */
export function roundedSize({ aspectRatio, resolution }: Shape, blockPx: number): FrameSize {
  const [across = 1, down = 1] = aspectRatio.split(":").map(Number);
  const ratio = across / down;
  const shorter = shorterSideOf(resolution);
  if (shorter === undefined || Number.isNaN(ratio))
    throw new Error(`${resolution} in ${aspectRatio} has no size in pixels`);
  const longer = blockPx * Math.round((shorter * Math.max(ratio, 1 / ratio)) / blockPx);
  return ratio >= 1 ? { width: longer, height: shorter } : { width: shorter, height: longer };
}

/** The sizes that the models of a family use in place of the computed ones. `name` matches the names of its models. */
const familySizes: readonly { name: RegExp; sizes: Readonly<Record<string, FrameSize>> }[] = [
  {
    // SGLang warns that this family does not support the computed sizes.
    name: /\bwan(?![a-z])/i,
    sizes: { "848x480": { width: 832, height: 480 }, "480x848": { width: 480, height: 832 } },
  },
];

/** Returns the size that a model uses in place of a computed one. */
function familySize(model: string, size: FrameSize): FrameSize {
  return familySizes.find(({ name }) => name.test(model))?.sizes[sizeText(size)] ?? size;
}

/** Whether the size depends on the model's family, and the model's name does not show the family. */
export function needsFamily(model: string, size: FrameSize): boolean {
  const showsFamily = familySizes.some(({ name }) => name.test(model));
  return !showsFamily && familySizes.some(({ sizes }) => sizeText(size) in sizes);
}

/** Returns the size as text, such as "1280x720". */
export function sizeText({ width, height }: FrameSize): string {
  return `${width}x${height}`;
}

/** Returns the size of a request's frame as text, such as "1280x720". */
export function sizeOf(request: Parameters<typeof frameSize>[0]): string {
  return sizeText(frameSize(request));
}

/**
 * Returns the size of a request's frame. A size that the request names in pixels is returned unchanged, because the model's server checks it. Other
 * sizes are rounded, because diffusion models work on blocks of 16 pixels, and some were trained for sizes of their own.
 */
export function frameSize(
  request: Pick<RenderRequest, "model" | "aspectRatio" | "resolution" | "unset" | "extras">,
): FrameSize {
  const { size } = request.extras;
  const requestedSize = typeof size === "string" ? pixelsOf(size) : undefined;
  return requestedSize ?? familySize(request.model, roundedSize(request, 16));
}

/** OpenAI's sizes whose shorter side matches no resolution. Models use the nearest ratio and resolution. */
const nearestShapes = new Map<string, Shape>([
  ["1024x1792", { aspectRatio: "9:16", resolution: "1080p" }],
  ["1792x1024", { aspectRatio: "16:9", resolution: "1080p" }],
]);

/** Reads a size such as "1280x720"; `undefined` when it is invalid, or its shorter side matches no resolution. */
export function readSize(text: string): Shape | undefined {
  const size = pixelsOf(text);
  if (!size) return undefined;
  const shape = shapeOf(size);
  const hasResolution = resolutions[shape.resolution] === Math.min(size.width, size.height);
  return hasResolution || nearestShapes.has(text) ? shape : undefined;
}

/** Reads the pixels of a size such as "1280x720"; `undefined` when it is invalid. */
export function pixelsOf(text: string): FrameSize | undefined {
  const [, width, height] = /^([1-9]\d{0,4})x([1-9]\d{0,4})$/.exec(text) ?? [];
  return width === undefined ? undefined : { width: Number(width), height: Number(height) };
}

/** Returns the shape of any size: its ratio, and the resolution with the nearest shorter side. */
export function shapeOf(size: FrameSize): Shape {
  const known = nearestShapes.get(sizeText(size));
  if (known) return known;
  const { width, height } = size;
  const distance = ([, shorter]: [string, number]) => Math.abs(shorter - Math.min(width, height));
  const [[resolution] = ["480p"]] = Object.entries(resolutions).sort((a, b) => distance(a) - distance(b));
  const divisor = findDivisor(width, height);
  return { resolution, aspectRatio: `${width / divisor}:${height / divisor}` };
}

function findDivisor(a: number, b: number): number {
  return b === 0 ? a : findDivisor(b, a % b);
}
