import { fields } from "../../request/fields.ts";
import { findSimilar } from "../../request/models.ts";

/** The columns that vidgen knows: the request's fields by their own names, and what a row has besides. */
export const knownColumns: readonly string[] = ["id", ...fields.map(({ name }) => name), "from", "output"];

const spellings = new Map(knownColumns.map((name) => [flatten(name), name]));

/** The known column for any of its spellings, such as "aspect_ratio" or "Aspect-Ratio"; any other name as it is. */
export function columnName(typed: string): string {
  const name = typed.trim();
  return spellings.get(flatten(name)) ?? name;
}

function flatten(name: string): string {
  return name.replace(/[-_]/g, "").toLowerCase();
}

/** Whether a column is more than a word for templates. */
export function isKnown(name: string): boolean {
  return knownColumns.includes(name) || name.startsWith("set.");
}

/** The known column that was probably meant by a word, such as "imageUrls"; of short words none. */
export function guessColumn(word: string): string | undefined {
  return word.length < 4 ? undefined : spellings.get(findSimilar(flatten(word), [...spellings.keys()]) ?? "");
}

/** A template with the names in braces as `columnName` gives them. */
export function withColumnNames(template: string): string {
  return template.replace(/\{([^{}]+)\}/g, (_, name: string) => `{${columnName(name)}}`);
}
