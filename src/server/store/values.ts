/**
 * Neither database keeps a NUL or half a pair of surrogates in a text: SQLite would end it at the NUL, and so find or change another row. Each driver
 * replaces them in all texts that it is given; in JSON they are escapes.
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

/** Reads the JSON of a column: SQLite has its text. */
export function readJson<Value>(column: unknown): Value {
  return typeof column === "string" ? JSON.parse(column) : (column as Value);
}
