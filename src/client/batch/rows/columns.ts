import { extname } from "node:path";
import { fieldSpellings, fields, flattenName } from "../../../protocol/fields.ts";
import { findSimilar } from "../../../protocol/models.ts";

/** The columns that vidgen knows: the request's fields, and `id`, `from`, `output` and `exactPrompt`. */
export const knownColumns: readonly string[] = [
  "id",
  ...fields.map(({ name }) => name),
  "from",
  "output",
  "exactPrompt",
];

const knownSpellings = new Map(knownColumns.map((name) => [flattenName(name), name]));

const spellings = new Map<string, string>([...fieldSpellings, ...knownSpellings]);

/** How a version names the column of a header; `undefined` for an ignored column. */
export type NameColumn = (header: string) => string | undefined;

/**
 * The known column for any of its spellings, such as "aspect_ratio", "Aspect Ratio" or "Duration (s)"; other
 * names unchanged. Invisible characters do not count.
 */
export function columnName(typed: string): string {
  return olderColumnName(typed.replace(/\p{Cf}/gu, ""));
}

/** As older versions named a column, to which invisible characters counted. */
export function olderColumnName(typed: string): string {
  const name = typed.trim();
  if (/^set\./i.test(name)) return `set.${name.slice(4)}`;
  const whole = spellings.get(flattenName(name));
  if (whole !== undefined) return whole;
  const { column, unit, units } = readUnit(name) ?? {};
  return column !== undefined && unit !== undefined && units?.includes(unit) ? column : name;
}

/** Units of time that no field uses. A number in such a column would be read as seconds. */
const otherUnits = ["ms", "msec", "millis", "milliseconds", "min", "mins", "minute", "minutes", "h", "hours", "frames"];

/** The known column and the unit of a header: the unit is in brackets, or the last word. */
function readUnit(name: string) {
  const [, nameBefore = "", bracketed] = /^(.+?)\s*[([]([^()[\]]*)[)\]]$/.exec(name) ?? [];
  const words = name.replace(/(?<=[a-z])(?=[A-Z])/g, " ");
  const [, start = "", last = ""] = /^(.+?)[-_\s]+(?:in[-_\s]+)?([a-z]+)$/i.exec(words) ?? [];
  const column = spellings.get(flattenName(bracketed === undefined ? start : nameBefore));
  const { units = [] } = fields.find((field) => field.name === column) ?? {};
  const unit = flattenName(bracketed ?? last);
  const isUnit = units.includes(unit) || (units.includes("s") && otherUnits.includes(unit));
  return column !== undefined && (isUnit || bracketed !== undefined) ? { column, unit, units } : undefined;
}

/** Whether a column has a meaning besides templates. */
export function isKnownColumn(name: string): boolean {
  return knownColumns.includes(name) || name.startsWith("set.");
}

/** The known column that a misspelled word such as "modle" probably means; `undefined` for short words. */
export function guessColumn(word: string): string | undefined {
  return word.length < 4
    ? undefined
    : knownSpellings.get(findSimilar(flattenName(word), [...knownSpellings.keys()]) ?? "");
}

/** Why an unused column looks like a known one; `undefined` if it does not. */
export function findLikeness(name: string): string | undefined {
  const { column, unit = "", units: [fieldUnit] = [] } = readUnit(name) ?? {};
  if (fieldUnit !== undefined && otherUnits.includes(unit)) return `${column} is in ${fieldUnit}.`;
  const guess = column ?? guessColumn(name);
  return guess && `did you mean ${guess}?`;
}

const imageEnding = /\.(?:png|jpe?g|webp|gif|avif|heic|bmp|tiff?)(?=$|["?#&])/i;

/** Whether a value of an unused column is probably an image that should be sent. */
export function isImageValue(name: string, value: string): boolean {
  if (/^data:image\//i.test(value)) return true;
  const isAddress = /^https?:\/\/\S+$/i.test(value);
  if (isAddress && /image|img|pic|photo|frame/i.test(name)) return true;
  // JSON may contain the name of an image.
  if (isAddress || /^[[{]/.test(value)) return imageEnding.test(value);
  return imageEnding.exec(value)?.[0] === extname(value);
}

/** A template with its names in braces replaced by `columnName`. */
export function withColumnNames(template: string): string {
  return template.replace(/\{([^{}]+)\}/g, (_, name: string) => `{${columnName(name)}}`);
}
