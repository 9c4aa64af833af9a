import { toText } from "./values.ts";

/** Returns the text that the search reads. */
export function searchText(...parts: readonly (string | null)[]): string {
  return toText(parts.filter((part) => part !== null).join("\n")).toLowerCase();
}

/** Limits the conditions of a query, which has one for each word. */
const maxWords = 100;

/** Returns the words that must all be in the text, in any order; at most `maxWords`. */
export function searchWords(text = ""): string[] {
  return searchText(text)
    .split(/\s+/)
    .filter((word) => word !== "")
    .slice(0, maxWords);
}

/** How many texts a search without an index reads at once: first those of the newest generations, then those of the next older ones. */
export const maxScanned = 20_000;

/** Whether no word has three characters, which PostgreSQL's index needs. */
export function isShortSearch(text: string | undefined): boolean {
  const words = searchWords(text);
  return words.length > 0 && words.every((word) => word.length < 3);
}
