import type { FrameSize } from "./size.ts";

/**
 * Returns an SVG of that size which a picture covers, cut on both sides where it is too long. `orientation` is that of EXIF, 1 to 8: how
 * the picture is mirrored and turned to stand upright.
 */
export function uprightSvg(href: string, orientation: number, { width, height }: FrameSize): string {
  const turn = turns(width, height)[orientation - 1];
  const [across, down] = isTurned(orientation) ? [height, width] : [width, height];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><g transform="matrix(${turn})">
<image width="${across}" height="${down}" preserveAspectRatio="xMidYMid slice" href="${href}"/></g></svg>`;
}

/** Whether the stored width is the height of the upright picture. */
export const isTurned = (orientation: number) => orientation >= 5;

/** The orientations in order, each as the matrix of SVG that leads into a frame of that size. */
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
