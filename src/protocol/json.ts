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

/**
 * Returns a JSON text in one form: without white space, the members of each object sorted, and texts and numbers as
 * JavaScript writes them. A whole number that JavaScript cannot hold keeps its digits. `doubled` is the name of a
 * member that stands twice in its object.
 */
export function sortMembers(text: string): { text: string; doubled: string | undefined } {
  const tokens = /[\s,:]*([[\]{}"]|[^\s,:[\]{}"]+)/y;
  let doubled: string | undefined;
  const next = (): string => {
    const [, token] = tokens.exec(text) ?? [];
    if (token === undefined) throw new SyntaxError("The text is not JSON.");
    if (token !== '"') return token;
    const start = tokens.lastIndex - 1;
    tokens.lastIndex = findClosingQuote(text, tokens.lastIndex) + 1;
    return text.slice(start, tokens.lastIndex);
  };
  const read = (token: string): string => {
    const parts: string[] = [];
    if (token === "[") {
      for (let item = next(); item !== "]"; item = next()) parts.push(read(item));
      return `[${parts.join()}]`;
    }
    if (token !== "{") return oneForm(token);
    const names = new Set<string>();
    for (let member = next(); member !== "}"; member = next()) {
      const name = oneForm(member);
      if (names.has(name)) doubled ??= JSON.parse(name) as string;
      names.add(name);
      parts.push(`${name}:${read(next())}`);
    }
    return `{${parts.sort().join()}}`;
  };
  return { text: read(next()), doubled };
}

/** Returns a value that is no list or object in one form. A text without a backslash has only one. */
function oneForm(token: string): string {
  if (token.startsWith('"') && !token.includes("\\")) return token;
  const value: unknown = JSON.parse(token);
  return hasChangedNumber(value) ? token : JSON.stringify(value);
}

/** Returns where a text of JSON ends that begins at `start`, behind its first quote. */
export function findClosingQuote(text: string, start: number): number {
  // Fast path: most strings, such as a large image, contain no escaped quote.
  const first = text.indexOf('"', start);
  if (first !== -1 && text[first - 1] !== "\\") return first;
  let at = start;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at;
}
