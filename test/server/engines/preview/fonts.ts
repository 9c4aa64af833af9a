import { readFileSync } from "node:fs";
import type { CaptionFonts } from "../../../../src/server/engines/preview/caption.ts";
import { parseWidths } from "../../../../src/server/engines/preview/text.ts";

const readFont = (name: string) =>
  readFileSync(new URL(`../../../../src/server/engines/preview/fonts/${name}`, import.meta.url));

/** The fonts as the renderer of captions takes them. */
export const fontFiles = { medium: readFont("Inter-Medium.otf"), semiBold: readFont("Inter-SemiBold.otf") };

/** The widths of their characters. */
export const fonts: CaptionFonts = parseWidths(String(readFont("widths.json")));
