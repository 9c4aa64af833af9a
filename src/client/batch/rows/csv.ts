import { Readable } from "node:stream";
import type { Faults } from "./faults.ts";

/** A record with the number of its first line. */
export type CsvRecord = { line: number; cells: string[] };

export type CsvFormat = "csv" | "tsv";

/** The records of a CSV or TSV (RFC 4180), with the header. Blank lines are skipped. */
export async function* readCsv(bytes: Buffer, format: CsvFormat, faults: Faults): AsyncGenerator<CsvRecord> {
  const { parse } = await import("csv-parse");
  const namedSeparator = format === "csv" ? findNamedSeparator(bytes) : undefined;
  let isSeparatorRecord = namedSeparator !== undefined;
  // The parser reports skipped records before it returns earlier records, and a line finder cannot go back, so there are two.
  const [lineAt, skippedLineAt] = [createLineFinder(bytes), createLineFinder(bytes)];
  const parser = parse({
    bom: true,
    delimiter: format === "csv" ? (namedSeparator ?? findSeparator(bytes)) : "\t",
    record_delimiter: ["\r\n", "\n", "\r"],
    skip_empty_lines: true,
    relax_column_count: true,
    skip_records_with_error: true,
    info: true,
    on_skip: (error) => {
      if (!error) return undefined;
      const line = skippedLineAt(startOfText(bytes, Number(error.bytes)));
      const where = `, column ${Number(error.column) + 1}`;
      faults.add(describeCsvError(error.code), { line, where });
      return undefined;
    },
  });
  for await (const found of Readable.from(split(bytes), { objectMode: false }).pipe(parser)) {
    const { record: cells, info }: ParsedRecord = found;
    // The line `sep=;` comes before the header.
    if (isSeparatorRecord) {
      isSeparatorRecord = false;
      continue;
    }
    // csv-parse counts the lines of a quoted CRLF twice, but its offsets are right.
    const line = lineAt(endOfText(bytes, info.bytes)) - countLineEnds(cells);
    // A row is the same request whether an editor or git saved the file with CRLF or LF.
    yield { line, cells: cells.map((cell) => cell.replaceAll("\r\n", "\n")) };
  }
}

type ParsedRecord = { record: string[]; info: { bytes: number } };

/** Splits the file into chunks, since the parser returns all records of a chunk at once. */
function* split(bytes: Buffer): Generator<Buffer> {
  const size = 2 ** 16;
  for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
}

/** The separator that a first line such as `sep=;` names, as Excel reads and writes it. */
function findNamedSeparator(bytes: Buffer): string | undefined {
  return /^\ufeff?"?sep=([,;\t|])"?[\r\n]/i.exec(bytes.toString("utf8", 0, 16))?.[1];
}

/** The separator of the header's cells: Excel writes `;` where a comma is the decimal mark, and tabs for "Unicode text". */
function findSeparator(bytes: Buffer): string {
  const [header = ""] = bytes
    .toString("utf8", 0, 2 ** 16)
    .trimStart()
    .split(/[\r\n]/, 1);
  const marks = header.replace(/"[^"]*"/g, "");
  const counts = [",", ";", "\t"].map((mark) => ({ mark, count: marks.split(mark).length }));
  return counts.reduce((most, each) => (each.count > most.count ? each : most)).mark;
}

function describeCsvError(code: string): string {
  if (code === "CSV_QUOTE_NOT_CLOSED") return "the cell's quote is not closed";
  if (code === "CSV_INVALID_CLOSING_QUOTE")
    return 'text follows the closing quote; a quote inside a cell is written ""';
  return 'a cell with a quote inside must be in quotes, with the quote written ""';
}

/** Returns the line of an offset. Offsets must not decrease. */
function createLineFinder(bytes: Buffer): (offset: number) => number {
  let at = 0;
  let line = 1;
  return (offset) => {
    for (; at < offset; at++) if (bytes[at] === lf || (bytes[at] === cr && bytes[at + 1] !== lf)) line++;
    return line;
  };
}

const lf = 10;
const cr = 13;

/** The end of a record without its line end. */
function endOfText(bytes: Buffer, end: number): number {
  if (bytes[end - 1] === cr) return end - 1;
  if (bytes[end - 1] !== lf) return end;
  return bytes[end - 2] === cr ? end - 2 : end - 1;
}

/** The offset of the next character that is not a line end. */
function startOfText(bytes: Buffer, start: number): number {
  let at = start;
  while (bytes[at] === lf || bytes[at] === cr) at++;
  return at;
}

function countLineEnds(cells: string[]): number {
  return cells.reduce((sum, cell) => sum + (cell.match(/\r\n|\r|\n/g)?.length ?? 0), 0);
}
