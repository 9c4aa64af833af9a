import { randomUUID } from "node:crypto";

// A workflow may contain numbers that a JavaScript number cannot hold, such as a seed of 64 bits. Inside vidgen each of them is a text that begins with
// this mark, which no other text can contain.
const mark = randomUUID();

const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/gs;

/** Parses JSON, and keeps each number as it is written. Throws as `JSON.parse` does. */
export function parseExactJson(text: string): unknown {
  JSON.parse(text);
  return JSON.parse(
    text.replace(tokens, (token) => (token.startsWith('"') ? token : JSON.stringify(readExactNumber(token)))),
  );
}

/** Returns the value of a written number. */
export function readExactNumber(text: string): number | string {
  return String(Number(text)) === text ? Number(text) : mark + text;
}

/** Returns a value as JSON, with each number as it was written. */
export function writeExactJson(value: unknown): string {
  return JSON.stringify(value).replace(new RegExp(`"${mark}([^"]*)"`, "g"), "$1");
}

/** Returns a value as a part of a longer text. */
export function exactText(value: unknown): string {
  return (typeof value === "object" ? JSON.stringify(value) : String(value)).replace(mark, "");
}
