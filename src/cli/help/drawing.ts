import type { ChalkInstance } from "chalk";
import { wrapAnsi } from "fast-wrap-ansi";
import { type Block, joinLines, readBlocks, readCells, readItems, readSpans, type Span } from "../../docs.ts";
import { padEnd, widthOf } from "../terminal/table.ts";

/** The terminal to draw a page for. */
export type PageTerminal = { columns: number; color: ChalkInstance; isAscii: boolean };

/**
 * A page for a terminal: headings at the margin, and below them text, lists and tables that are wrapped at
 * its width. Lines of code are never broken, so that they can be copied. If one of a block is too long, each
 * comment at the end of a line moves to a line above it.
 */
export function drawPage(text: string, terminal: PageTerminal): string {
  const blocks = readBlocks(text).filter(({ kind }) => kind !== "image");
  const gaps = blocks.map((_, index) => (blocks[index - 1]?.kind === "heading" ? "\n" : "\n\n"));
  const drawn = blocks.map(
    (block, index) => `${index === 0 ? "" : gaps[index]}${drawBlock(block, terminal).join("\n")}`,
  );
  return `${drawn.join("")}\n`;
}

const margin = "  ";

function drawBlock({ kind, lines }: Block, terminal: PageTerminal): string[] {
  if (kind === "heading") return lines.map((line) => drawHeading(line, terminal));
  if (kind === "code") return drawCode(lines, terminal).map((line) => `${margin}${margin}${line}`.trimEnd());
  if (kind === "table") return drawTable(lines, terminal).map((line) => `${margin}${line}`.trimEnd());
  if (kind === "list") return readItems(lines).flatMap((item) => drawItem(item, terminal));
  return wrap(drawSpans(joinLines(lines), terminal), terminal.columns - margin.length).map(
    (line) => `${margin}${line}`,
  );
}

function drawHeading(line: string, { color }: PageTerminal): string {
  const title = line.replace(/^#+ /, "");
  return line.startsWith("# ") ? color.bold.underline(title) : color.bold(title);
}

function drawCode(lines: readonly string[], { columns, color }: PageTerminal): string[] {
  const width = columns - 2 * margin.length;
  const hasRoom = lines.every((line) => line.length <= width);
  return lines.flatMap((line) => {
    const [, command = "", comment = ""] = /^(.*\S) +# (.+)$/.exec(line) ?? [];
    if (command === "") return line;
    const above = wrap(comment, width - 2).map((part) => color.dim(`# ${part}`));
    return hasRoom ? `${line.slice(0, -comment.length - 2)}${color.dim(`# ${comment}`)}` : [...above, command];
  });
}

function drawItem(item: string, terminal: PageTerminal): string[] {
  const lines = wrap(drawSpans(item, terminal), terminal.columns - 2 * margin.length);
  const bullet = terminal.isAscii ? "- " : "• ";
  return lines.map((line, index) => `${margin}${index === 0 ? bullet : margin}${line}`);
}

/** Without colours, code keeps its backticks. Its spaces do not break, so that a command stays on one line. */
function drawSpans(text: string, terminal: PageTerminal): string {
  return readSpans(text)
    .map((span) => drawSpan(span, terminal))
    .join("");
}

function drawSpan({ kind, text, href = "" }: Span, { color }: PageTerminal): string {
  const code = (words: string) => (color.level === 0 ? `\`${unbroken(words)}\`` : color.cyan(unbroken(words)));
  if (kind === "code") return code(text);
  if (kind === "bold") return color.bold(text);
  const [, page] = /^([\w-]+)\.md$/.exec(href) ?? [];
  return page === undefined ? text : `${text} (${code(`vidgen help ${page}`)})`;
}

const noBreakSpace = "\u00a0";

function unbroken(words: string): string {
  return words.replaceAll(" ", noBreakSpace);
}

function wrap(text: string, width: number): string[] {
  return wrapAnsi(text, width).replaceAll(noBreakSpace, " ").split("\n");
}

const gap = "  ";

/** Draws the columns side by side. If they do not fit, the last cell of each row, which explains the others, goes below. */
function drawTable(lines: readonly string[], terminal: PageTerminal): string[] {
  const { columns, color, isAscii } = terminal;
  const width = columns - margin.length;
  const [headers = [], _rule, ...rows] = lines.map(readCells);
  const cells = rows.map((row) => row.map((cell) => drawSpans(cell, terminal)));
  const widths = findWidths([headers, ...cells], width);
  if (widths === undefined) return cells.flatMap((row) => drawEntry(row, width));
  const rules = widths.map((each) => color.dim((isAscii ? "-" : "─").repeat(each)));
  return [headers.map((header) => color.bold(header)), rules, ...cells].flatMap((row) => drawRow(row, widths));
}

function drawRow(cells: readonly string[], widths: readonly number[]): string[] {
  const wrapped = widths.map((width, index) => wrap(cells[index] ?? "", width));
  const height = Math.max(...wrapped.map((lines) => lines.length));
  return Array.from({ length: height }, (_, line) =>
    wrapped.map((lines, index) => padEnd(lines[line] ?? "", widths[index] ?? 0)).join(gap),
  );
}

function drawEntry(cells: readonly string[], width: number): string[] {
  const terms = cells.slice(0, -1).filter((cell) => cell !== "");
  const meaning = wrap(cells.at(-1) ?? "", width - gap.length);
  return [...wrap(terms.join(gap), width), ...meaning.map((line) => `${gap}${line}`)];
}

/** The minimum width of a column whose text is wrapped. */
const minColumns = 16;

/**
 * The width of each column. If all fit, it is that of the widest cell; otherwise the narrow columns keep
 * theirs, and the wide ones share the rest. `undefined` if a column would be narrower than its longest word
 * or than `minColumns`.
 */
function findWidths(rows: readonly (readonly string[])[], width: number): number[] | undefined {
  const columns = (rows[0] ?? []).map((_, index) => rows.map((row) => row[index] ?? ""));
  const fullWidths = columns.map(widthOf);
  const minWidths = columns.map((cells, index) =>
    Math.max(Math.min(minColumns, fullWidths[index] ?? 0), widthOf(cells.flatMap((cell) => cell.split(" ")))),
  );
  let left = width - gap.length * (columns.length - 1);
  const widths: number[] = [];
  const narrowestFirst = [...fullWidths.keys()].sort((a, b) => (fullWidths[a] ?? 0) - (fullWidths[b] ?? 0));
  for (const [fixedColumns, index] of narrowestFirst.entries()) {
    const share = Math.floor(left / (columns.length - fixedColumns));
    widths[index] = Math.max(minWidths[index] ?? 0, Math.min(fullWidths[index] ?? 0, share));
    left -= widths[index];
  }
  return left < 0 ? undefined : widths;
}
