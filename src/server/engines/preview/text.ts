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

/** The widths of characters as `fonts/widths.json` has them, in units of the font; `unitsPerEm` of them are one em. */
export function parseWidths(json: string): { medium: CharacterWidths; semiBold: CharacterWidths } {
  const { unitsPerEm, medium, semiBold } = JSON.parse(json);
  const inEms = (units: Record<string, number>) =>
    new Map(Object.entries(units).map(([codePoint, width]) => [Number(codePoint), width / unitsPerEm]));
  return { medium: inEms(medium), semiBold: inEms(semiBold) };
}
