import { type Images, imageFields } from "../../../protocol/fields.ts";
import { isRecord, parseJson } from "../../../protocol/json.ts";
import { findJsonFault, jsonHint } from "../../../protocol/json-fault.ts";
import { readValue } from "../../../protocol/request.ts";
import { isKnownColumn, type NameColumn } from "./columns.ts";
import { type CsvRecord, readCsv } from "./csv.ts";
import type { Faults } from "./faults.ts";
import type { Format } from "./file.ts";
import { readYaml } from "./yaml.ts";

/** One line of the file, without empty cells. */
export type TableLine = {
  line: number;
  /** By column name: see `columnName`. */
  texts: Map<string, string>;
  /** The values of image columns. */
  images?: Images;
  /** The values to send for the columns `set.<field>`. */
  extra?: Record<string, unknown>;
};

export type Table = {
  /** The position of each column in a fault, such as ", column 2 (aspect_ratio)". */
  columns: Map<string, string>;
  /** Parses the rows from the file's bytes at each call: 100,000 parsed rows would need too much memory. */
  lines(): AsyncIterable<TableLine>;
};

/** Reads the rows of a file without the columns that have no name. An invalid row is added to the faults and skipped. */
export async function readTable(
  bytes: Buffer,
  { format, nameOf }: { format: Format; nameOf: NameColumn },
  faults: Faults,
): Promise<Table> {
  if (format === "txt") return readPrompts(bytes);
  if (format === "jsonl" || format === "json")
    return readObjects(() => readValues(bytes, faults), { nameOf, kind: "a JSON object" }, faults);
  if (format === "yaml") {
    const rows = await readYaml(bytes, faults);
    return readObjects(() => rows, { nameOf, kind: "a map, such as - prompt: a red fox" }, faults);
  }
  return readCells(() => readCsv(bytes, format, faults), nameOf, faults);
}

/** Sets a cell from its text. In `set.<field>`, text that is valid JSON is parsed. */
export function setCell(row: TableLine, column: string, text: string): void {
  const value = text.trim();
  if (value === "") return;
  if (column.startsWith("set.")) row.extra = { ...row.extra, [column.slice(4)]: readValue(value) };
  if (isImageColumn(column)) row.images = { ...row.images, [column]: [value] };
  row.texts.set(column, value);
}

function isImageColumn(name: string): boolean {
  return imageFields.some((field) => field.name === name);
}

function readPrompts(bytes: Buffer): Table {
  async function* lines(): AsyncGenerator<TableLine> {
    for (const { line, text } of splitLines(bytes))
      if (!text.startsWith("#")) yield { line, texts: new Map([["prompt", text]]) };
  }
  return { lines, columns: new Map([["prompt", ""]]) };
}

/** The lines that are not blank, without the spaces around them. */
function* splitLines(bytes: Buffer): Generator<{ line: number; text: string }> {
  let line = 1;
  for (let start = 0; start < bytes.length; line++) {
    const found = bytes.indexOf("\n", start);
    const end = found === -1 ? bytes.length : found;
    // `trim` removes a BOM, too.
    const text = bytes.toString("utf8", start, end).trim();
    if (text !== "") yield { line, text };
    start = end + 1;
  }
}

/**
 * The values of a JSON file: one per line, or the elements of an array. An object on several lines is one
 * value. Text that is not JSON is a fault.
 */
function* readValues(bytes: Buffer, faults: Faults): Generator<{ line: number; value: unknown }> {
  const [first] = splitLines(bytes);
  // A first line that is not JSON by itself begins an object on several lines.
  const isWhole = first !== undefined && (first.text.startsWith("[") || parseJson(first.text) === undefined);
  const text = isWhole ? bytes.toString("utf8") : "";
  const whole = isWhole ? parseJson(text) : undefined;
  if (!Array.isArray(whole) && !isRecord(whole)) {
    // A first line that only ends too early begins a document, whose fault is told once.
    const isDocument = isWhole && parseJson(first.text) === undefined && findJsonFault(first.text).isCut;
    for (const { line, text: each } of isDocument ? [{ line: 1, text }] : splitLines(bytes)) {
      const value = parseJson(each);
      if (value !== undefined) {
        yield { line, value };
        continue;
      }
      const fault = findJsonFault(each);
      faults.add(`is not JSON: ${jsonHint}`, { line: line + fault.line - 1, where: `, column ${fault.column}` });
    }
    return;
  }
  const lines = findLines(text, Array.isArray(whole) ? 1 : 0);
  for (const [index, value] of [whole].flat().entries()) yield { line: lines[index] ?? 1, value };
}

/** The line numbers at which the values of this depth start, in valid JSON. */
function findLines(text: string, depth: number): number[] {
  const lines: number[] = [];
  let [line, currentDepth, isValue] = [1, 0, true];
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},\n]|[^\s[\]{},"]+/g)) {
    if (token === "\n") line++;
    else if (token === ",") isValue = true;
    else {
      if (currentDepth === depth && isValue && !/[\]}]/.test(token)) {
        lines.push(line);
        isValue = false;
      }
      if (token === "[" || token === "{") currentDepth++;
      if (token === "]" || token === "}") currentDepth--;
    }
  }
  return lines;
}

async function readCells(read: () => AsyncIterable<CsvRecord>, nameOf: NameColumn, faults: Faults): Promise<Table> {
  const columns = new Map<string, string>();
  /** The column names: "" for an empty header, `undefined` for an ignored column. */
  const names: (string | undefined)[] = [];
  let headerLine = 0;
  for await (const { line, cells } of read()) {
    if (isEmpty(cells)) continue;
    headerLine = line;
    cells.forEach((cell, index) => {
      const name = nameOf(cell);
      names.push(name);
      if (!name) return;
      const where = `, column ${index + 1}`;
      const fault = findHeaderFault(name, columns);
      if (fault !== undefined) faults.add(fault, { line, where });
      else columns.set(name, `${where} (${cell.trim()})`);
    });
    break;
  }
  while (names.at(-1) === "") names.pop();
  const setCellAt = (row: TableLine, index: number, cell: string) => {
    const name = names[index];
    if (name) setCell(row, name, cell);
    else if (name === "" && cell.trim() !== "")
      faults.add("the header cell is empty", { line: headerLine, where: `, column ${index + 1}` });
  };
  async function* lines(): AsyncGenerator<TableLine> {
    for await (const { line, cells } of read()) {
      if (line === headerLine || isEmpty(cells)) continue;
      const row: TableLine = { line, texts: new Map() };
      if (cells.length >= names.length && isEmpty(cells.slice(names.length))) {
        for (const [index, cell] of cells.entries()) setCellAt(row, index, cell);
        yield row;
      } else {
        const where = `, column ${Math.min(cells.length, names.length) + 1}`;
        const text = `the row has ${countCells(cells.length)}, but the header has ${countCells(names.length)}`;
        faults.add(text, { line, where });
      }
    }
  }
  return { lines, columns };
}

function isEmpty(cells: readonly string[]): boolean {
  return cells.every((cell) => cell.trim() === "");
}

function countCells(count: number): string {
  return count === 1 ? "1 cell" : `${count} cells`;
}

function findHeaderFault(name: string, columns: Table["columns"]): string | undefined {
  if (columns.has(name)) return `the header has ${name} twice`;
  if (name === "set" || name === "set.") return "the header must be set.<field>, such as set.seed";
  return undefined;
}

function readObjects(
  read: () => Iterable<{ line: number; value: unknown }>,
  { nameOf, kind }: { nameOf: NameColumn; kind: string },
  faults: Faults,
): Table {
  const columns = new Map<string, string>();
  const fieldsIn = (value: unknown) =>
    fieldsOf(value).flatMap(([typed, field]) => {
      const name = nameOf(typed);
      return name === undefined ? [] : [{ typed, name, field }];
    });
  for (const { line, value } of read()) {
    if (!isRecord(value)) faults.add(`is not ${kind}`, { line });
    for (const { typed, name } of fieldsIn(value)) if (!columns.has(name)) columns.set(name, ` (${typed})`);
  }
  async function* lines(): AsyncGenerator<TableLine> {
    for (const { line, value } of read()) {
      const row: TableLine = { line, texts: new Map() };
      const seen = new Set<string>();
      for (const { typed, name, field } of fieldsIn(value)) {
        const fault = seen.has(name) ? `the object has ${name} twice` : setValue(row, name, field);
        if (fault !== undefined) faults.add(fault, { line, where: ` (${typed})` });
        seen.add(name);
      }
      if (isRecord(value)) yield row;
    }
  }
  return { lines, columns };
}

/** The fields of an object. An object in `set` is expanded to fields such as `set.seed`. */
function fieldsOf(object: unknown): [string, unknown][] {
  return Object.entries(isRecord(object) ? object : {}).flatMap(([name, value]): [string, unknown][] => {
    if (name !== "set" || !isRecord(value)) return [[name, value]];
    return Object.entries(value).map(([field, inner]) => [`set.${field}`, inner]);
  });
}

/** Sets a cell from a JSON value. Returns the fault, if any. */
function setValue(row: TableLine, name: string, value: unknown): string | undefined {
  if (name === "set") return "must be an object";
  if (name.startsWith("set.")) {
    row.extra = { ...row.extra, [name.slice(4)]: value };
    row.texts.set(name, typeof value === "string" ? value : JSON.stringify(value));
    return undefined;
  }
  if (value === null) return undefined;
  const takesList = imageFields.some((field) => field.name === name && field.takes === "images");
  if (takesList && Array.isArray(value) && value.every((image) => typeof image === "string")) {
    if (value.length === 0) return undefined;
    row.images = { ...row.images, [name]: value };
    row.texts.set(name, value.join(" "));
    return undefined;
  }
  const isText = typeof value === "string" || typeof value === "number" || name === "exactPrompt";
  if (!isText && isKnownColumn(name)) return `must be text${takesList ? " or a list of texts" : ""}`;
  setCell(row, name, isText ? String(value) : JSON.stringify(value));
  return undefined;
}
