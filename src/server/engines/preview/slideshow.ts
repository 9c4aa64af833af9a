import { createFrame, type Frame, type FrameSize, type Plane } from "./frame.ts";
import { between, createRandom, type Random } from "./random.ts";

/** The maximum cross-fade, in seconds. Where each picture is shown only briefly, the fade takes half of the picture's time. */
const maxFadeSeconds = 1;

/** Fills a frame with what is visible at a time in seconds. */
export type Painter = (frame: Frame, seconds: number) => void;

/** When one picture of several is visible, in seconds. It fades in over the previous one, which disappears when the fade ends. */
type VisibleTime = { begin: number; end: number };

/** A part of a picture, in fractions of its width and height. */
export type Window = { left: number; top: number; width: number; height: number };

/**
 * Returns a function that fills the frame with the pictures at a time in seconds. Each picture is shown for the same time, moves slowly, and fades
 * into the next. A function among them paints by itself. The same seed gives the same movement. `show.seconds` is the length of the whole clip, and
 * with `show.endsWhole` the last picture is shown whole at the end.
 */
export function createSlideshow(
  pictures: readonly (Frame | Painter)[],
  size: FrameSize,
  show: { seconds: number; seed: string; endsWhole?: boolean },
): Painter {
  const secondsEach = show.seconds / pictures.length;
  const fade = Math.min(maxFadeSeconds, secondsEach / 2);
  const random = createRandom(`camera of ${show.seed}`);
  const slides = pictures.map((picture, i) => {
    const begin = i === 0 ? 0 : i * secondsEach - fade / 2;
    const span = { begin, end: Math.min(show.seconds, (i + 1) * secondsEach + fade / 2) };
    if (typeof picture === "function") return { ...span, paint: picture };
    const endsWhole = show.endsWhole === true && i === pictures.length - 1;
    return { ...span, paint: createCamera(picture, size, { ...span, endsWhole }, random) };
  });
  const nextFrame = createFrame(size);
  return (frame, seconds) => {
    const [first, second] = slides.filter(({ begin, end }) => begin <= seconds && seconds < end);
    first?.paint(frame, seconds);
    if (!second) return;
    second.paint(nextFrame, seconds);
    mix(frame.bytes, nextFrame.bytes, (seconds - second.begin) / fade);
  };
}

/**
 * Returns a function that moves over a picture in a straight line while it zooms in or out. The first picture may be the last frame of another
 * preview, with a caption at the bottom. So it is shown whole at the beginning, and then its caption moves downwards, behind the caption of this
 * preview.
 */
function createCamera(
  picture: Frame,
  size: FrameSize,
  { begin, end, endsWhole }: VisibleTime & { endsWhole: boolean },
  random: Random,
): Painter {
  const isFirst = begin === 0;
  const whole = largestWindow(picture, size);
  const widest = (whole.width * picture.width) / size.width;
  const [zoomFrom, zoomTo] = isFirst || (!endsWhole && random() < 0.5) ? [widest, 1] : [1, widest];
  const [nearX, nearY] = [between(random, 0, 0.3), between(random, 0, 0.3)];
  const fromX = random() < 0.5 ? nearX : 1 - nearX;
  const fromY = !isFirst && random() < 0.5 ? nearY : 1 - nearY;
  return (frame, seconds) => {
    const progress = (seconds - begin) / (end - begin);
    const move = (from: number, to: number) => from + (to - from) * progress;
    const zoom = move(zoomFrom, zoomTo);
    const width = (zoom * size.width) / picture.width;
    const height = (zoom * size.height) / picture.height;
    const left = (1 - width) * move(fromX, 1 - fromX);
    const top = (1 - height) * move(fromY, 1 - fromY);
    paintWindow(picture, { left, top, width, height }, frame);
  };
}

/** The largest part of a picture with the ratio of a frame, from its middle. */
export function largestWindow(picture: FrameSize, size: FrameSize): Window {
  const scale = Math.min(picture.width / size.width, picture.height / size.height);
  const [width, height] = [(scale * size.width) / picture.width, (scale * size.height) / picture.height];
  return { left: (1 - width) / 2, top: (1 - height) / 2, width, height };
}

function mix(bytes: Uint8Array, over: Uint8Array, share: number): void {
  const weight = Math.round(256 * share);
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = ((bytes[i] as number) * (256 - weight) + (over[i] as number) * weight + 128) >> 8;
  }
}

/** Fills a frame with a part of a picture, by bilinear interpolation, so that the part can start between pixels and move smoothly. */
export function paintWindow(picture: Frame, window: Window, frame: Frame): void {
  for (const [i, plane] of frame.planes.entries()) paintPlane(picture.planes[i] as Plane, window, plane);
}

function paintPlane(from: Plane, window: Window, to: Plane): void {
  const columns = samplePoints(to.width, from.width, window.left, window.width);
  const rows = samplePoints(to.height, from.height, window.top, window.height);
  for (let y = 0; y < to.height; y++) {
    const upper = from.bytes.subarray((rows.at[y] as number) * from.width);
    const line = to.bytes.subarray(y * to.width, (y + 1) * to.width);
    mixLine(upper, upper.subarray(from.width), rows.share[y] as number, columns, line);
  }
}

/** The position of each pixel of a line between two source pixels: the first of them, and the share of the second, out of 256. */
type SamplePoints = { at: Int32Array; share: Int32Array };

function samplePoints(count: number, size: number, start: number, length: number): SamplePoints {
  const points = { at: new Int32Array(count), share: new Int32Array(count) };
  for (let i = 0; i < count; i++) {
    const middle = size * (start + (length * (i + 0.5)) / count) - 0.5;
    const within = Math.min(Math.max(middle, 0), size - 1);
    const at = Math.min(Math.floor(within), size - 2);
    points.at[i] = at;
    points.share[i] = Math.round(256 * (within - at));
  }
  return points;
}

/** Takes five parameters instead of an object, because it runs for every line of every frame. */
function mixLine(
  upper: Uint8Array,
  lower: Uint8Array,
  below: number,
  { at, share }: SamplePoints,
  line: Uint8Array,
): void {
  for (let x = 0; x < line.length; x++) {
    const i = at[x] as number;
    const right = share[x] as number;
    const above = (upper[i] as number) * (256 - right) + (upper[i + 1] as number) * right;
    const under = (lower[i] as number) * (256 - right) + (lower[i + 1] as number) * right;
    line[x] = (above * (256 - below) + under * below + 32768) >> 16;
  }
}
