import { readdirSync, readFileSync } from "node:fs";

/** A page of `src/docs`, in Markdown: `vidgen help <name>` prints it. */
export type Page = { name: string; title: string; text: string };

/** A row of a table: its cells by column. */
export type TableRow = Readonly<Record<string, string>>;

// Resolves from both `src/` and `dist/`.
const folder = new URL("../src/docs/", import.meta.url);

/** The names of all pages, sorted. */
export function listPages(): string[] {
  const pages = readdirSync(folder).filter((file) => file.endsWith(".md"));
  return pages.map((file) => file.replace(/\.md$/, "")).sort();
}

/** Returns a page; its title is its first line. Throws if it does not exist. */
export function readPage(name: string): Page {
  const text = readFileSync(new URL(`${name}.md`, folder), "utf8").trimEnd();
  const [first = ""] = text.split("\n");
  return { name, title: first.replace(/^# /, ""), text };
}

/** A part of a page: consecutive lines of one kind. Lines of code come without their indentation or fence. */
export type Block = { kind: "heading" | "text" | "list" | "code" | "table" | "image" | "blank"; lines: string[] };

/** The parts of a page, in order. Supports only the Markdown that the pages use: no numbered lists, no quotes. */
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
    const content = isFenced ? line : line.replace(/^ {4}/, "");
    if (last?.kind === kind) last.lines.push(content);
    else blocks.push({ kind, lines: [content] });
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

/** Joins lines of text into one, without the indentation of list items. */
export function joinLines(lines: string | readonly string[]): string {
  return [lines].flat().join("\n").trim().replace(/\n */g, " ");
}

/** A part of a line of text. */
export type Span = { kind: "plain" | "code" | "bold" | "link"; text: string; href?: string };

/** The parts of a line of text, or of a table cell, in order. */
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

/** The tables of a page, in order, as rows. */
export function readTables(text: string): TableRow[][] {
  const tables = readBlocks(text).filter(({ kind }) => kind === "table");
  return tables.map(({ lines }) => {
    const [columns = [], _rule, ...rows] = lines.map(readCells);
    return rows.map((cells) =>
      Object.fromEntries(columns.map((column, index) => [column, withoutBackticks(cells[index] ?? "")])),
    );
  });
}

/** Removes the backticks of a cell that is only code. */
function withoutBackticks(cell: string): string {
  return cell.replace(/^`([^`]*)`$/, "$1");
}

/** The cells of a table row, in Markdown. */
export function readCells(line: string): string[] {
  const cells = line.split("|").slice(1, -1);
  return cells.map((cell) => cell.trim());
}
