export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Whether a parsed value contains a whole number that a JavaScript number cannot hold, so that it is not the
 * one that was written.
 */
export function hasChangedNumber(value: unknown): boolean {
  if (typeof value === "number")
    return !Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value));
  return typeof value === "object" && value !== null && Object.values(value).some(hasChangedNumber);
}

/** Like JSON.parse, but returns `undefined` for invalid JSON, and drops `__proto__`, which could change an object's prototype. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text, (key, value) => (key === "__proto__" ? undefined : value));
  } catch {
    return undefined;
  }
}

/**
 * Like `parseJson`, for replies: where a text is not JSON, the words NaN, Infinity and -Infinity outside of
 * strings are null. Python writes them for numbers that JSON does not have.
 */
export function parseReplyJson(text: string): unknown {
  const json = parseJson(text);
  return json === undefined && numberWords.test(text) ? parseJson(withoutNumberWords(text)) : json;
}

const numberWords = /NaN|Infinity/;

/** Replaces the words NaN, Infinity and -Infinity of a JSON text with null, outside of strings. */
export function withoutNumberWords(text: string): string {
  if (!numberWords.test(text)) return text;
  let isInString = false;
  return text.replace(/\\.|"|-?\b(?:NaN|Infinity)\b/gs, (token) => {
    if (token === '"') isInString = !isInString;
    return isInString || token.startsWith("\\") || token === '"' ? token : "null";
  });
}
