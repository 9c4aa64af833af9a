import { stripVTControlCharacters } from "node:util";

/** A long text with its end cut off. A key that is cut is recognised by the "…" after it, and by nothing else. */
export function shorten(text: string, length = 60): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** Text without characters that move the cursor, colour a terminal or change the reading direction; newlines and tabs stay. */
export function plain(text: string): string {
  return stripVTControlCharacters(text).replace(/[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "");
}
