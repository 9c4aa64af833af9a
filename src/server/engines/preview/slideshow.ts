import { createFrame, type Frame } from "./frame.ts";
import { createRandom, hashText } from "./seed.ts";
import type { FrameSize } from "./size.ts";
import { between, type Random } from "./swing.ts";
import { paintWindow } from "./window.ts";

/** The longest cross-fade, in seconds; where pictures are shown but shortly, it takes half of their time. */
const longestFade = 1;

/** When one picture of several is seen, in seconds: it fades in over the one before, which is gone `fade` after it began. */
type Span = { begin: number; end: number };

/**
 * Returns a painter that fills the frame with the pictures as they are `seconds` after the start: each for the same time, moving slowly,
 * and fading one into the next. The same prompt moves them in the same way.
 */
export function createSlideshow(pictures: Frame[], size: FrameSize, { seconds: length, prompt }: Show) {
  const share = length / pictures.length;
  const fade = Math.min(longestFade, share / 2);
  const random = createRandom(hashText(`camera of ${prompt}`));
  const slides = pictures.map((picture, i) => {
    const span = { begin: i === 0 ? 0 : i * share - fade / 2, end: Math.min(length, (i + 1) * share + fade / 2) };
    return { ...span, paint: createCamera(picture, size, span, random) };
  });
  const over = createFrame(size);
  return (frame: Frame, seconds: number): void => {
    const [first, second] = slides.filter(({ begin, end }) => begin <= seconds && seconds < end);
    first?.paint(frame, seconds);
    if (!second) return;
    second.paint(over, seconds);
    mix(frame.bytes, over.bytes, (seconds - second.begin) / fade);
  };
}

/** How long the slideshow is, in seconds, and whose. */
export type Show = { seconds: number; prompt: string };

/** Returns a painter that moves over a picture in a straight line, and nearer to it or away from it. */
function createCamera(picture: Frame, size: FrameSize, { begin, end }: Span, random: Random) {
  const widest = Math.min(picture.width / size.width, picture.height / size.height);
  const zoom = random() < 0.5 ? [widest, 1] : [1, widest];
  const [fromX, fromY] = [between(random, 0, 0.3), between(random, 0, 0.3)].map((at) => (random() < 0.5 ? at : 1 - at));
  return (frame: Frame, seconds: number) => {
    const progress = (seconds - begin) / (end - begin);
    const move = (from = 0, to = 1 - from) => from + (to - from) * progress;
    const width = (move(...zoom) * size.width) / picture.width;
    const height = (move(...zoom) * size.height) / picture.height;
    paintWindow(picture, { left: (1 - width) * move(fromX), top: (1 - height) * move(fromY), width, height }, frame);
  };
}

function mix(bytes: Uint8Array, over: Uint8Array, share: number): void {
  const weight = Math.round(256 * share);
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = ((bytes[i] as number) * (256 - weight) + (over[i] as number) * weight + 128) >> 8;
  }
}
