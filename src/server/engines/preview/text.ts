/** The width of each character of a font, by code point, in ems. */
export type CharacterWidths = ReadonlyMap<number, number>;

/** Shown in place of a character that the font does not have. */
export const placeholder = "·";

/**
 * Returns the text on one line and in characters that the font has. Accents are composed with their letters, and remaining marks are removed. Any
 * other character that the font does not have, including half a surrogate pair, becomes a placeholder.
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

/** Returns the width of the text in ems. Kerning is ignored; it is mostly negative. */
export function widthOf(text: string, widths: CharacterWidths): number {
  let width = 0;
  for (const character of text) width += widths.get(character.codePointAt(0) ?? 0) ?? 1;
  return width;
}

/** Returns the text if it is at most `width` ems wide; else its first words that fit, or the start of a long first word, with an ellipsis. */
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

/** Splits before the first character that does not fit. The head has at least one character, so that breaking a word ends. */
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

/** Reads the character widths from `fonts/widths.json`, which are in units of the font; `unitsPerEm` units are one em. */
export function parseWidths(json: string): { medium: CharacterWidths; semiBold: CharacterWidths } {
  const { unitsPerEm, medium, semiBold } = JSON.parse(json);
  const inEms = (units: Record<string, number>) =>
    new Map(Object.entries(units).map(([codePoint, width]) => [Number(codePoint), width / unitsPerEm]));
  return { medium: inEms(medium), semiBold: inEms(semiBold) };
}
