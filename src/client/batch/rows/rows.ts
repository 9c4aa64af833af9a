import { usage } from "../../../errors.ts";
import type { Io } from "../../../io.ts";
import { flattenName } from "../../../protocol/fields.ts";
import { type Destination, findDroppedImages, readSetFields } from "../../../protocol/request.ts";
import { shorten } from "../../../protocol/text.ts";
import { findExtensionNote, findNoFolderNote, namesIn } from "../../../video/naming.ts";
import { isFolder } from "../../save/output-path.ts";
import type { Row } from "../row.ts";
import { createRowCheck, type RowFlags } from "./check.ts";
import {
  columnName,
  findLikeness,
  isImageValue,
  isKnownColumn,
  type NameColumn,
  olderColumnName,
  withColumnNames,
} from "./columns.ts";
import { readEach } from "./each.ts";
import { createFaults } from "./faults.ts";
import { type Format, findFormat, readBytes, readUtf8 } from "./file.ts";
import { createImageCheck } from "./image-check.ts";
import { createLinks } from "./links.ts";
import { readTable, type Table } from "./table.ts";

export type RowOptions = RowFlags &
  Destination & {
    format?: Format | undefined;
    /** `--each` as typed, such as "model=wan-2.5,ray-3". */
    each: string[];
    /** The headers of columns to ignore. */
    ignoreColumns?: readonly string[] | undefined;
  };

export type ReadRows = {
  rows: Row[];
  /** How many rows the file has, before `--each` multiplies them. */
  total: number;
  /** Notes for the user, such as unused columns and local images that will be sent. */
  notes: string[];
  /** The unused columns. */
  unused: string[];
  /** The references that the rows use. */
  references: string[];
};

/** Reads and checks the rows of a file, or of stdin for "-". Throws `usage` with all faults of the file. */
export async function readRows(
  file: string,
  options: RowOptions,
  io: Pick<Io, "stdin" | "signal" | "date" | "platform" | "home" | "disk">,
): Promise<ReadRows> {
  if (await isFolder(file, io.disk)) throw usage(`Cannot read ${file}: it is a folder.`);
  const format = findFormat(file, options.format);
  const bytes = await readBytes(file, io);
  const name = file === "-" ? "stdin" : file;
  if (bytes.length === 0) throw usage(`${name} is empty.`);
  const text = readUtf8(bytes, name, format);
  const ignored = new Set(options.ignoreColumns?.map(flattenName));
  let hasHiddenCharacters = false;
  const nameOf = (header: string) => {
    const column = columnName(header);
    hasHiddenCharacters ||= column !== olderColumnName(header);
    return ignored.has(flattenName(column)) || ignored.has(flattenName(header)) ? undefined : column;
  };
  const read = await readTableRows(text, { ...options, name, format, nameOf }, io);
  if (hasHiddenCharacters) {
    const olderNameOf = (header: string) => (ignored.has(flattenName(header)) ? undefined : olderColumnName(header));
    // A file that older versions refused has none of their attempts.
    const older = await readTableRows(text, { ...options, name, format, nameOf: olderNameOf }, io).catch(
      () => undefined,
    );
    for (const [index, row] of read.rows.entries()) {
      const olderRow = older?.rows[index];
      if (olderRow) Object.assign(row, { typed: olderRow.typed, written: { ...olderRow, ...olderRow.written } });
    }
  }
  return read;
}

type TableOptions = RowOptions & { name: string; format: Format; nameOf: NameColumn };

/** Reads and checks the rows. `nameOf` gives the columns their names. */
async function readTableRows(
  text: Buffer,
  { name, format, nameOf, ...options }: TableOptions,
  io: Pick<Io, "date" | "platform" | "home" | "disk">,
): Promise<ReadRows> {
  const faults = createFaults(name);
  const table = await readTable(text, { format, nameOf }, faults);
  const templateNames = await findTemplateNames(table, options);
  const variants = await readEach({ each: options.each, templateNames }, table, faults);
  const eachNames = variants[0]?.map(([name]) => name) ?? [];
  const images = createImageCheck();
  const usedReferences = new Set<string>();
  const { isLocal } = options;
  const check = createRowCheck({ table, flags: options, eachNames, images, isLocal, usedReferences }, faults, io);
  const links = createLinks(table, variants.length, faults);
  const rows: Row[] = [];
  const unusedColumns = [...table.columns.keys()].filter(
    (column) => !isKnownColumn(column) && !templateNames.has(column),
  );
  const imageColumns = new Set<string>();
  let total = 0;
  for await (const line of table.lines()) {
    for (const column of unusedColumns)
      if (isImageValue(column, line.texts.get(column) ?? "")) imageColumns.add(column);
    for (const [index, variant] of variants.entries()) {
      const n = total * variants.length + index;
      links.add(line, variant, n);
      const row = await check(line, variant, n + 1);
      if (row && faults.isEmpty()) rows.push(row);
    }
    total++;
  }
  links.resolve(rows);
  for (const column of unusedColumns) {
    const likeness = findLikeness(column) ?? (imageColumns.has(column) ? "its images would not be sent." : undefined);
    if (likeness !== undefined) faults.add(describeUnused(column, likeness));
  }
  faults.throwIfAny();
  if (total === 0)
    throw usage(`${name} has ${table.columns.size > 0 && format !== "txt" ? "a header, but " : ""}no rows.`);
  const droppedImageNotes = findDroppedImages({ images: options.images, extra: readSetFields(options.set) }, "--image");
  return {
    rows,
    total,
    unused: unusedColumns,
    references: [...usedReferences],
    notes: [
      ...noteUnused(unusedColumns),
      ...droppedImageNotes,
      ...(await findOutputNotes(rows, io)),
      ...(isLocal ? [] : images.notes()),
    ],
  };
}

/** At most one note, because one row shows the problem. */
async function findOutputNotes(rows: readonly Row[], { disk }: Pick<Io, "disk">): Promise<string[]> {
  for (const { outputPath } of rows) {
    const note = outputPath && (findExtensionNote(outputPath) ?? findNoFolderNote(outputPath));
    if (note && !(await isFolder(outputPath, disk))) return [note];
  }
  return [];
}

/** The names that templates use. */
async function findTemplateNames({ lines, columns }: Table, { prompt, output }: RowOptions): Promise<Set<string>> {
  const used = new Set<string>();
  const add = (template = "") => {
    for (const name of namesIn(withColumnNames(template))) used.add(name);
  };
  for (const template of [prompt, output]) add(template);
  if (columns.has("output")) for await (const { texts } of lines()) add(texts.get("output"));
  return used;
}

/** The fault for an unused column that was probably meant to be used. */
function describeUnused(column: string, likeness: string): string {
  const name = shorten(column);
  const word = /^[\w-]+$/.test(name) ? name : `"${name}"`;
  return `nothing uses the column ${name}; ${likeness} Rename it, or add --ignore-columns ${word}`;
}

/** The note about unused columns, shown before anything is paid for. */
function noteUnused(columns: readonly string[]): string[] {
  if (columns.length === 0) return [];
  const columnList = `column${columns.length === 1 ? "" : "s"} ${columns.map((name) => shorten(name)).join(", ")}`;
  return [
    `Nothing uses the ${columnList}. A column set.<field> is sent as that field; --ignore-columns hides this note.`,
  ];
}
