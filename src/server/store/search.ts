import { toText } from "./values.ts";

/** What the search looks at, in one text. */
export function searchText(...parts: readonly (string | null)[]): string {
  return toText(parts.filter((part) => part !== null).join("\n")).toLowerCase();
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

/** A search without an index reads so many texts at once: those of the newest generations, or of the next older ones. */
export const maxScanned = 20_000;

/** Whether no word has three characters, which PostgreSQL's index needs. */
export function isShortSearch(text: string | undefined): boolean {
  const words = searchWords(text);
  return words.length > 0 && words.every((word) => word.length < 3);
}
