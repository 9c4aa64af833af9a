import { isUtf8 } from "node:buffer";
import { stripVTControlCharacters } from "node:util";

/** Cuts a long text and adds "…", by which the redaction recognizes a key that was cut. */
export function shorten(text: string, length = 60): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** Lists values in words, as in "480p, 720p or 1080p". */
export function oneOf(values: readonly unknown[]): string {
  return [values.slice(0, -1).join(", "), values.at(-1)].filter((part) => part !== "").join(" or ");
}

/** Removes white space and invisible characters at both ends, such as the carriage return of a file from Windows. */
export function trimInvisible(text: string): string {
  return text.replace(/^[\s\u200b-\u200d\u2060]+|[\s\u200b-\u200d\u2060]+$/g, "");
}

/** The value of a variable without white space and invisible characters around it, and without one pair of quotes. */
export function readVariable(text: string): string {
  const trimmed = trimInvisible(text);
  const [, , inside] = /^(["'])(.*)\1$/s.exec(trimmed) ?? [];
  return inside === undefined ? trimmed : trimInvisible(inside);
}

/** Removes characters that move the cursor, color the terminal or change the text direction; newlines and tabs stay. */
export function plainText(text: string): string {
  return stripVTControlCharacters(text).replace(/[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "");
}

/**
 * Converts text to UTF-8 without a byte order mark; UTF-16, as from Windows programs, is converted. Without a
 * mark, UTF-16 is recognized if the first character is ASCII. Returns `undefined` for bytes that are not
 * text.
 */
export function toUtf8(bytes: Buffer): Buffer | undefined {
  const encoding = findEncoding(bytes);
  if (encoding === "utf-8")
    return isUtf8(bytes) && !bytes.includes(0) ? bytes.subarray(hasByteOrderMark(bytes) ? 3 : 0) : undefined;
  try {
    const text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
    return text.includes("\0") ? undefined : Buffer.from(text);
  } catch {
    return undefined;
  }
}

function hasByteOrderMark(bytes: Buffer): boolean {
  return bytes.toString("utf8", 0, 3) === "\ufeff";
}

/** A byte that is missing counts as any byte but 0. */
function findEncoding([first = 1, second = 1]: Buffer): "utf-8" | "utf-16le" | "utf-16be" {
  if ((first === 0xff && second === 0xfe) || (first !== 0 && second === 0)) return "utf-16le";
  return (first === 0xfe && second === 0xff) || (first === 0 && second !== 0) ? "utf-16be" : "utf-8";
}

/** Formats US dollars, such as "$0.40", "$0.0125" or, for a price per token, "$0.000012". */
export function formatUsd(value: number): string {
  const maximumFractionDigits = value > 0 && value < 0.0001 ? 12 : 4;
  return `$${value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits })}`;
}

export function formatNumber(value: number): string {
  return value.toLocaleString("en-US");
}

export function countCredits(credits: number): string {
  return credits === 1 ? "1 credit" : `${formatNumber(credits)} credits`;
}
