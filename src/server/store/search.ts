/** Neither database has a NUL in a text: PostgreSQL refuses it, and SQLite would end the text there, and so find or change another row. */
export function withoutNul(text: string): string {
  return text.replaceAll("\0", "\ufffd");
}

/** What the search looks at, in one text: neither database keeps a NUL or half a pair of surrogates in it. */
export function searchText(...parts: readonly (string | null)[]): string {
  const text = parts.filter((part) => part !== null).join("\n");
  return text.replace(/[\0\p{Surrogate}]/gu, " ").toLowerCase();
}

/** Each is a condition of a query. */
const maxWords = 100;

/** The words that are all to be in the text, whatever their order; of very many, the first ones. */
export function searchWords(text = ""): string[] {
  return searchText(text)
    .split(/\s+/)
    .filter((word) => word !== "")
    .slice(0, maxWords);
}

/** So many of the newest generations are searched where no word has three characters, which an index needs. */
export const maxScanned = 100_000;

export function isShortSearch(text: string | undefined): boolean {
  const words = searchWords(text);
  return words.length > 0 && words.every((word) => word.length < 3);
}
