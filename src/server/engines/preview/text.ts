import type { Advances } from "./font.ts";

/** What stands for a character that the font lacks. */
export const placeholder = "·";

/**
 * Returns the text on one line and in characters that the font has. Accents are joined to their letters; marks that have no place of
 * their own are left out; anything else that the font lacks, half a surrogate pair included, becomes a placeholder.
 */
export function makeLegible(text: string, advances: Advances): string {
  const line = text
    .normalize("NFC")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
  return Array.from(line, (character) => replaceUnknown(character, advances)).join("");
}

function replaceUnknown(character: string, advances: Advances): string {
  if (/[\p{M}\p{Cf}\p{Emoji_Modifier}]/u.test(character)) return "";
  return advances.has(character.codePointAt(0) ?? 0) ? character : placeholder;
}

/** Returns the width of the text in ems. Kerning is left out; it is mostly negative. */
export function widthOf(text: string, advances: Advances): number {
  let width = 0;
  for (const character of text) width += advances.get(character.codePointAt(0) ?? 0) ?? 1;
  return width;
}

/** Returns the text if it is at most `width` ems wide, or as much of its beginning as fits with an ellipsis. */
export function shorten(text: string, width: number, advances: Advances): string {
  if (widthOf(text, advances) <= width) return text;
  const [head = ""] = splitAt(text, width - widthOf("…", advances), advances);
  return `${head.trimEnd()}…`;
}

/** Breaks the text at its spaces into lines of at most `width` ems; a word that is longer than a line is broken inside. */
export function wrap(text: string, width: number, advances: Advances): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (widthOf(longer, advances) <= width) {
      line = longer;
      continue;
    }
    if (line !== "") lines.push(line);
    const pieces = breakWord(word, width, advances);
    line = pieces.pop() ?? "";
    lines.push(...pieces);
  }
  return line === "" ? lines : [...lines, line];
}

/** Returns the lines of `wrap` in an even length, as far as that takes no further line and breaks no further word. */
export function wrapEvenly(text: string, width: number, advances: Advances): string[] {
  let lines = wrap(text, width, advances);
  const longestWord = Math.max(...text.split(" ").map((word) => widthOf(word, advances)));
  for (let narrower = 0.97 * width; lines.length > 1 && narrower >= longestWord; narrower *= 0.97) {
    const candidate = wrap(text, narrower, advances);
    if (candidate.length > lines.length) break;
    lines = candidate;
  }
  return lines;
}

function breakWord(word: string, width: number, advances: Advances): string[] {
  const pieces: string[] = [];
  let rest = word;
  while (widthOf(rest, advances) > width) {
    const [head, tail] = splitAt(rest, width, advances);
    pieces.push(head);
    rest = tail;
  }
  return [...pieces, rest];
}

/** Splits before the character that would not fit; the head has at least one, so that breaking a word comes to an end. */
function splitAt(text: string, width: number, advances: Advances): [head: string, tail: string] {
  const characters = Array.from(text);
  let used = widthOf(characters[0] ?? "", advances);
  let count = 1;
  for (; count < characters.length; count++) {
    used += widthOf(characters[count] ?? "", advances);
    if (used > width) break;
  }
  return [characters.slice(0, count).join(""), characters.slice(count).join("")];
}
