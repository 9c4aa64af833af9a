import type { RenderRequest } from "../../store/generations.ts";
import type { FrameSize } from "./frame.ts";
import { type CharacterWidths, makeLegible, placeholder, shorten, widthOf, wrap, wrapEvenly } from "./text.ts";

/** The character widths of the two font weights of captions. */
export type CaptionFonts = { medium: CharacterWidths; semiBold: CharacterWidths };

/** The text that marks every preview. */
export const notice = "local preview, not model output";

/** Font sizes of the prompt, each with its maximum number of lines; the first that fits the whole prompt is used. */
const promptSizes = [
  { size: 38, lines: 2 },
  { size: 32, lines: 3 },
  { size: 27, lines: 4 },
  { size: 23, lines: 5 },
  { size: 20, lines: 7 },
  { size: 17, lines: 11 },
];

/** More characters than any frame has room for. A longer prompt is cut, because the time to fit it grows faster than its length. */
const maxPromptLength = 2_000;

/** Kerning may make a line slightly wider than its characters, so lines use a little less than the available width. */
const usableShare = 0.98;

/**
 * Returns the caption of a clip as an SVG of the frame's size with a transparent background: a scrim, or a panel over images; the notice; the prompt;
 * and a line with the model, the ratio, the length and the size. Lengths inside are in units of 1/480 of the shorter side.
 */
export function captionSvg(
  request: RenderRequest,
  frame: FrameSize,
  fonts: CaptionFonts,
  { isOverPictures = false } = {},
): string {
  const unit = Math.min(frame.width, frame.height) / 480;
  const [width, height] = [frame.width / unit, frame.height / unit];
  const room = Math.min(width - 68, 780);
  const { size, lines } = fitPrompt(legiblePrompt(request.prompt, fonts.semiBold), room, fonts.semiBold);
  const bottom = height - 62;
  const leading = size * 1.28;
  const top = bottom - leading * lines.length;
  const prompt = lines.map((line, i) => `<text x="34" y="${top + leading * i + size}">${escapeXml(line)}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${frame.width}" height="${frame.height}" viewBox="0 0 ${width} ${height}">
${isOverPictures ? panel(width, height, top) : scrim(width, height, top)}
<g font-family="Inter" fill="#fff">
${noticePill(top - 42, fonts.medium)}
<g font-weight="600" font-size="${size}">${prompt.join("")}</g>
<text x="34" y="${height - 34}" font-weight="500" font-size="14.5" fill-opacity=".82">${detailLine(request, frame, { room, widths: fonts.medium })}</text>
</g></svg>`;
}

/** Returns an empty text when most of the prompt would be dots, because the fonts contain only Latin, Greek and Cyrillic letters. */
function legiblePrompt(prompt: string, widths: CharacterWidths): string {
  const text = makeLegible(prompt.slice(0, maxPromptLength), widths);
  const dots = text.split(placeholder).length - 1;
  return 2 * dots > text.replaceAll(" ", "").length ? "" : text;
}

/** Returns the largest font size that fits the prompt, and its lines. A prompt that is too long even for the smallest size ends in an ellipsis. */
function fitPrompt(prompt: string, room: number, widths: CharacterWidths): { size: number; lines: string[] } {
  let fitted = { size: 0, lines: [] as string[] };
  for (const { size, lines: maxLines } of promptSizes) {
    const width = (usableShare * room) / size;
    const lines = wrap(prompt, width, widths);
    if (lines.length <= maxLines) return { size, lines: wrapEvenly(prompt, width, widths) };
    const last = shorten(lines.slice(maxLines - 1, maxLines + 1).join(" "), width, widths);
    fitted = { size, lines: [...lines.slice(0, maxLines - 1), last] };
  }
  return fitted;
}

/** The height above the prompt over which the scrim grows to its strength behind the text. */
const scrimRise = 190;

/** Darkens the frame from above the prompt downwards. The opacity grows along an S-curve, because a linear gradient shows a line where it starts. */
function scrim(width: number, height: number, top: number): string {
  const depth = height - top + scrimRise;
  const rise = [0, 0.03, 0.12, 0.26, 0.4, 0.49, 0.54].map((opacity, i) => [(i / 6) * (scrimRise / depth), opacity]);
  const stops = [...rise, [1, 0.72]].map(([offset, opacity]) => `<stop offset="${offset}" stop-opacity="${opacity}"/>`);
  return `<linearGradient id="scrim" x1="0" y1="0" x2="0" y2="1">${stops.join("")}</linearGradient>
<rect y="${top - scrimRise}" width="${width}" height="${depth}" fill="url(#scrim)"/>`;
}

/** The height above the prompt at which the panel is opaque, and the height above that over which it fades in. */
const [panelRise, panelFade] = [54, 20];

/** Hides the lower part of the frame, because the picture may be the last frame of another preview, with its caption. */
function panel(width: number, height: number, top: number): string {
  const y = top - panelRise - panelFade;
  return `<linearGradient id="panel" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#0b0d0f" stop-opacity="0"/><stop offset="${panelFade / (height - y)}" stop-color="#0b0d0f"/></linearGradient>
<rect y="${y}" width="${width}" height="${height - y}" fill="url(#panel)"/>`;
}

function noticePill(top: number, widths: CharacterWidths): string {
  const size = 14;
  const width = widthOf(notice, widths) * size + 40;
  return `<rect x="34.5" y="${top}" width="${width}" height="28" rx="14" fill="#000" fill-opacity=".3" stroke="#fff" stroke-opacity=".35"/>
<circle cx="50" cy="${top + 14}" r="3.5" fill="#ffd27a"/>
<text x="62" y="${top + 19}" font-weight="500" font-size="${size}">${notice}</text>`;
}

/** Shortens only the model's name where the line is too long, so that the figures remain. */
function detailLine(
  request: RenderRequest,
  frame: FrameSize,
  { room, widths }: { room: number; widths: CharacterWidths },
): string {
  const ratio = shorten(makeLegible(request.aspectRatio, widths), 8, widths);
  const figures = ` · ${ratio} · ${request.duration} s · ${frame.width}×${frame.height}`;
  const modelWidth = (usableShare * room) / 14.5 - widthOf(figures, widths);
  return escapeXml(shorten(makeLegible(request.model, widths), modelWidth, widths) + figures);
}

function escapeXml(text: string): string {
  return text.replace(/[<>&"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
