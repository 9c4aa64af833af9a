/** The width of each character that a font has, by code point, in ems. */
export type CharacterWidths = ReadonlyMap<number, number>;

/** Shown in the place of a character that the font does not have. */
export const placeholder = "·";

/**
 * Returns the text on one line and in characters that the font has. Accents are composed with their letters, and marks that remain are
 * removed; any other character that the font does not have, half a surrogate pair included, becomes a placeholder.
 */
export function makeLegible(text: string, widths: CharacterWidths): string {
  const line = text
    .normalize("NFC")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
  return Array.from(line, (character) => replaceUnknown(character, widths)).join("");
}

function replaceUnknown(character: string, widths: CharacterWidths): string {
  if (/[\p{M}\p{Cf}\p{Emoji_Modifier}]/u.test(character)) return "";
  return widths.has(character.codePointAt(0) ?? 0) ? character : placeholder;
}

/** Returns the width of the text in ems. Kerning is left out; it is mostly negative. */
export function widthOf(text: string, widths: CharacterWidths): number {
  let width = 0;
  for (const character of text) width += widths.get(character.codePointAt(0) ?? 0) ?? 1;
  return width;
}

/** Returns the text if it is at most `width` ems wide, or as many of its first words as fit with an ellipsis; of a long word its beginning. */
export function shorten(text: string, width: number, widths: CharacterWidths): string {
  if (widthOf(text, widths) <= width) return text;
  const [head, tail] = splitAt(text, width - widthOf("…", widths), widths);
  const words = tail.startsWith(" ") ? head : head.replace(/ \S*$/, "");
  return `${words.trimEnd()}…`;
}

/** Breaks the text at its spaces into lines of at most `width` ems; a word that is longer than a line is broken inside. */
export function wrap(text: string, width: number, widths: CharacterWidths): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (widthOf(longer, widths) <= width) {
      line = longer;
      continue;
    }
    if (line !== "") lines.push(line);
    const pieces = breakWord(word, width, widths);
    line = pieces.pop() ?? "";
    lines.push(...pieces);
  }
  return line === "" ? lines : [...lines, line];
}

/** Returns the lines of `wrap` with similar lengths, without adding a line or breaking another word. */
export function wrapEvenly(text: string, width: number, widths: CharacterWidths): string[] {
  let lines = wrap(text, width, widths);
  const longestWord = Math.max(...text.split(" ").map((word) => widthOf(word, widths)));
  for (let narrower = 0.97 * width; lines.length > 1 && narrower >= longestWord; narrower *= 0.97) {
    const candidate = wrap(text, narrower, widths);
    if (candidate.length > lines.length) break;
    lines = candidate;
  }
  return lines;
}

function breakWord(word: string, width: number, widths: CharacterWidths): string[] {
  const pieces: string[] = [];
  let rest = word;
  while (widthOf(rest, widths) > width) {
    const [head, tail] = splitAt(rest, width, widths);
    pieces.push(head);
    rest = tail;
  }
  return [...pieces, rest];
}

/** Splits before the character that would not fit; the head has at least one, so that breaking a word comes to an end. */
function splitAt(text: string, width: number, widths: CharacterWidths): [head: string, tail: string] {
  const characters = Array.from(text);
  let used = widthOf(characters[0] ?? "", widths);
  let count = 1;
  for (; count < characters.length; count++) {
    used += widthOf(characters[count] ?? "", widths);
    if (used > width) break;
  }
  return [characters.slice(0, count).join(""), characters.slice(count).join("")];
}

/**
 * Reads from an OpenType font which characters it has and how wide they are: the tables `cmap` (in its format 4, which holds the code
 * points up to U+FFFF), `hhea` and `hmtx`. Throws if one of them is missing.
 */
export function readCharacterWidths(font: Uint8Array): CharacterWidths {
  const view = new DataView(font.buffer, font.byteOffset, font.byteLength);
  const table = findTables(view);
  const unitsPerEm = view.getUint16(table("head") + 18);
  const lastMetric = view.getUint16(table("hhea") + 34) - 1;
  const metrics = table("hmtx");
  const advanceOf = (glyph: number) => view.getUint16(metrics + 4 * Math.min(glyph, lastMetric)) / unitsPerEm;
  return new Map(readGlyphs(view, table("cmap")).map(([codePoint, glyph]) => [codePoint, advanceOf(glyph)]));
}

function findTables(view: DataView): (name: string) => number {
  const offsets = new Map<string, number>();
  for (let i = 0, at = 12; i < view.getUint16(4); i++, at += 16) {
    const name = [0, 1, 2, 3].map((byte) => String.fromCharCode(view.getUint8(at + byte))).join("");
    offsets.set(name, view.getUint32(at + 8));
  }
  return (name) => {
    const offset = offsets.get(name);
    if (offset === undefined) throw new Error(`The font has no table "${name}".`);
    return offset;
  };
}

/** Reads the pairs of code point and glyph. */
function readGlyphs(view: DataView, cmap: number): [codePoint: number, glyph: number][] {
  const start = findFormat4(view, cmap);
  const segments = view.getUint16(start + 6) / 2;
  const ends = start + 14;
  const starts = ends + 2 * segments + 2;
  const glyphs: [number, number][] = [];
  for (let i = 0; i < segments; i++) {
    const at = starts + 2 * i;
    const first = view.getUint16(at);
    const shift = view.getUint16(at + 2 * segments);
    // Zero means "add the shift to the code point"; anything else is a distance in bytes from this very field to the glyph numbers.
    const list = view.getUint16(at + 4 * segments);
    for (let code = first; code <= view.getUint16(ends + 2 * i); code++) {
      const glyph = list === 0 ? code : view.getUint16(at + 4 * segments + list + 2 * (code - first));
      if (glyph !== 0 && code !== 0xffff) glyphs.push([code, (glyph + shift) & 0xffff]);
    }
  }
  return glyphs;
}

function findFormat4(view: DataView, cmap: number): number {
  for (let i = 0; i < view.getUint16(cmap + 2); i++) {
    const start = cmap + view.getUint32(cmap + 4 + 8 * i + 4);
    if (view.getUint16(start) === 4) return start;
  }
  throw new Error("The font has no cmap of format 4.");
}
