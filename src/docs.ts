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
export type Block = { kind: "heading" | "text" | "list" | "code" | "table" | "image" | "blank"; lines: string[] };

/** The parts of a page in their order. It reads what the pages are written in, which is little of Markdown: no numbered lists, no quotes. */
export function readBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  let isFenced = false;
  for (const line of text.split("\n")) {
    if (line.startsWith("```")) {
      isFenced = !isFenced;
      continue;
    }
    const kind = isFenced ? "code" : blockKind(line);
    const last = blocks.at(-1);
    const read = isFenced ? line : line.replace(/^ {4}/, "");
    if (last?.kind === kind) last.lines.push(read);
    else blocks.push({ kind, lines: [read] });
  }
  return blocks.filter(({ kind }) => kind !== "blank");
}

function blockKind(line: string): Block["kind"] {
  if (line === "") return "blank";
  if (line.startsWith("#")) return "heading";
  if (line.startsWith("|")) return "table";
  if (line.startsWith("![")) return "image";
  if (line.startsWith("    ")) return "code";
  return /^(- | {2})/.test(line) ? "list" : "text";
}

/** The items of a list, each as one line. */
export function readItems(lines: readonly string[]): string[] {
  return lines.join("\n").split(/^- /m).slice(1).map(joinLines);
}

/** Lines of text as one line, without the indentation of what continues an item. */
export function joinLines(lines: string | readonly string[]): string {
  return [lines].flat().join("\n").trim().replace(/\n */g, " ");
}

/** A part of a line of text. A link has the address that it leads to. */
export type Span = { kind: "plain" | "code" | "bold" | "link"; text: string; href?: string };

/** The parts of a line of text, or of a cell of a table, in their order. */
export function readSpans(text: string): Span[] {
  const spans: Span[] = [];
  let end = 0;
  for (const match of text.matchAll(/`([^`]*)`|\*\*(.+?)\*\*|\[([^\]]*)\]\(([^)]*)\)/g)) {
    const [whole, code, bold, words, href = ""] = match;
    if (match.index > end) spans.push({ kind: "plain", text: text.slice(end, match.index) });
    if (code !== undefined) spans.push({ kind: "code", text: code });
    else if (bold !== undefined) spans.push({ kind: "bold", text: bold });
    else spans.push({ kind: "link", text: words ?? "", href });
    end = match.index + whole.length;
  }
  if (end < text.length) spans.push({ kind: "plain", text: text.slice(end) });
  return spans;
}

/** The tables of a page in their order, each as its rows. */
export function readTables(text: string): TableRow[][] {
  const tables = readBlocks(text).filter(({ kind }) => kind === "table");
  return tables.map(({ lines }) => {
    const [columns = [], , ...rows] = lines.map(readCells);
    return rows.map((cells) => Object.fromEntries(columns.map((column, index) => [column, bare(cells[index] ?? "")])));
  });
}

/** A cell that is `code` and nothing else is given without the backticks. */
function bare(cell: string): string {
  return cell.replace(/^`([^`]*)`$/, "$1");
}

/** The cells of a line of a table, in Markdown. */
export function readCells(line: string): string[] {
  const cells = line.split("|").slice(1, -1);
  return cells.map((cell) => cell.trim());
}
