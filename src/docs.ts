import { readdirSync, readFileSync } from "node:fs";

/** A page of `src/docs`, in Markdown: `vidgen help <name>` prints it. */
export type Page = { name: string; title: string; text: string };

/** A row of a table, each cell by the name of its column. */
export type TableRow = Readonly<Record<string, string>>;

// The same from `src/` and from `dist/`: the package has the pages where README links to them.
const folder = new URL("../src/docs/", import.meta.url);

/** The names of all pages, in alphabetical order: a file more is a page more. */
export function listPages(): string[] {
  const names = readdirSync(folder).map((file) => file.replace(/\.md$/, ""));
  return names.sort();
}

/** Returns a page; its title is its first line. Throws when there is none of that name. */
export function readPage(name: string): Page {
  const text = readFileSync(new URL(`${name}.md`, folder), "utf8").trimEnd();
  const [first = ""] = text.split("\n");
  return { name, title: first.replace(/^# /, ""), text };
}

/** A part of a page: consecutive lines of one kind. Code is given without its indentation or fence. */
type Block = { kind: "heading" | "text" | "code" | "table" | "image" | "blank"; lines: string[] };

/** The parts of a page in their order. It reads what the pages are written in, which is little of Markdown: no lists, no quotes. */
export function readBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  let isFenced = false;
  for (const line of text.split("\n")) {
    if (line.startsWith("```")) {
      isFenced = !isFenced;
      continue;
    }
    const kind = isFenced ? "code" : kindOf(line);
    const last = blocks.at(-1);
    const read = isFenced ? line : line.replace(/^ {4}/, "");
    if (last?.kind === kind) last.lines.push(read);
    else blocks.push({ kind, lines: [read] });
  }
  return blocks.filter(({ kind }) => kind !== "blank");
}

function kindOf(line: string): Block["kind"] {
  if (line === "") return "blank";
  if (line.startsWith("#")) return "heading";
  if (line.startsWith("|")) return "table";
  if (line.startsWith("![")) return "image";
  return line.startsWith("    ") ? "code" : "text";
}

/** The tables of a page in their order, each as its rows. */
export function readTables(text: string): TableRow[][] {
  const tables = readBlocks(text).filter(({ kind }) => kind === "table");
  return tables.map(({ lines }) => {
    const [columns = [], , ...rows] = lines.map(readCells);
    return rows.map((cells) => Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? ""])));
  });
}

/** The cells of a line of a table. One that is `code` and nothing else is given without the backticks. */
export function readCells(line: string): string[] {
  const cells = line.split("|").slice(1, -1);
  return cells.map((cell) => cell.trim().replace(/^`([^`]*)`$/, "$1"));
}
