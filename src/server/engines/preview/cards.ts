import { readFile } from "node:fs/promises";
import type { ImageFile } from "../engine.ts";
import { decodeImage, uprightSize } from "./decode.ts";
import { createFrame, type Frame, type FrameSize, type Plane } from "./frame.ts";
import { largestWindow, paintWindow } from "./slideshow.ts";

/** The cards' height, the space around them, between them, and the width of their border, in units of 1/480 of the frame's shorter side. */
const [cardHeight, margin, gap, borderWidth] = [90, 34, 10, 2];

/** How much longer one side of a card may be than the other; of a longer picture, the middle is shown. */
const maxRatio = 2;

/**
 * Returns a function that draws the references along the upper edge of a frame of that size, each as a card in its own ratio. Decodes them one
 * after the other, because decoding a large image takes a few hundred megabytes. Throws an Error that names the image that cannot be decoded.
 */
export async function createCards(references: readonly ImageFile[], size: FrameSize): Promise<(frame: Frame) => void> {
  const unit = Math.min(size.width, size.height) / 480;
  const room = size.width - 2 * unit * margin;
  const width = (room + unit * gap) / references.length - unit * gap;
  const cards: { card: Frame; x: number }[] = [];
  let x = even(unit * margin);
  for (const reference of references) {
    const card = await createCard(reference, { width, height: unit * cardHeight }, even(unit * borderWidth));
    cards.push({ card, x });
    x += card.width + even(unit * gap);
  }
  return (frame) => {
    for (const { card, x } of cards) paste(card, frame, x, even(unit * margin));
  };
}

/** Returns a picture with a white border that fits into the box. */
async function createCard({ path, name }: ImageFile, box: FrameSize, border: number): Promise<Frame> {
  const bytes = await readFile(path);
  const stored = uprightSize(bytes);
  const ratio = Math.min(Math.max(stored.width / stored.height, 1 / maxRatio), maxRatio);
  const width = Math.min(box.width - 2 * border, (box.height - 2 * border) * ratio);
  const size = { width: even(width), height: even(width / ratio) };
  const decoded = await decodeImage(bytes, name, size);
  const picture = createFrame(size);
  paintWindow(decoded, largestWindow(decoded, size), picture);
  const card = createFrame({ width: size.width + 2 * border, height: size.height + 2 * border });
  const [luma, ...chroma] = card.planes;
  luma.bytes.fill(235);
  for (const { bytes } of chroma) bytes.fill(128);
  paste(picture, card, border, border);
  return card;
}

/** Copies a picture into a frame, at an even position, since the planes of chroma have half the size. */
function paste(picture: Frame, frame: Frame, x: number, y: number): void {
  for (const [i, { bytes, width, height }] of picture.planes.entries()) {
    const to = frame.planes[i] as Plane;
    const [left, top] = i === 0 ? [x, y] : [x / 2, y / 2];
    for (let row = 0; row < height; row++)
      to.bytes.set(bytes.subarray(row * width, (row + 1) * width), (top + row) * to.width + left);
  }
}

/** The nearest even number, at least 2. */
function even(value: number): number {
  return Math.max(2, 2 * Math.round(value / 2));
}
