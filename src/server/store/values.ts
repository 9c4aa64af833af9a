/**
 * Replaces NULs and lone surrogates, which neither database can store: SQLite would cut the text at the NUL, and so find or change another row. Each
 * driver does so with all texts; in JSON they are escapes.
 */
export function toText(text: string): string {
  return text.replaceAll("\0", "\ufffd").replace(/\p{Surrogate}/gu, "\ufffd");
}

/** The JSON of a column. */
export function toJson(value: object): string {
  return JSON.stringify(value).replace(/\\(?:u0000|ud[89a-f]..|.)/g, (escaped) =>
    escaped.length > 2 ? "\ufffd" : escaped,
  );
}

/** Reads the JSON of a column, which SQLite returns as text. */
export function readJson<Value>(column: unknown): Value {
  return typeof column === "string" ? JSON.parse(column) : (column as Value);
}
