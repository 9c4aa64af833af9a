import type { Io } from "../../io.ts";
import { formatNumber } from "../../protocol/text.ts";

/** Whether the locale is ASCII only. */
export function isAscii({ LC_ALL, LC_CTYPE, LANG }: Io["env"]): boolean {
  return /^(C|POSIX)$/.test(LC_ALL || LC_CTYPE || LANG || "");
}

/** The ellipsis for a text that is cut off, in ASCII if the locale is ASCII. */
export function ellipsisFor(env: Io["env"]): "..." | "\u2026" {
  return isAscii(env) ? "..." : "\u2026";
}

/** The minimum width of a terminal at which text is wrapped: in fewer columns, hardly two words fit on a line. */
const minColumns = 20;

/**
 * The text as it fits a terminal; unchanged elsewhere. `taken` is the number of columns of each line that
 * something else needs.
 */
export function wrapFor(
  { isTTY, columns = 0 }: Pick<Io["stdout"], "isTTY" | "columns">,
  text: string,
  taken = 0,
): string {
  return isTTY && columns >= minColumns ? wrapWords(text, Math.max(columns - taken, minColumns)) : text;
}

export type Cell = string | number;

/**
 * A table at a terminal, with separators in its numbers; elsewhere, and without rows, a line for each row
 * with tabs between its cells.
 */
export async function formatRows(
  headers: readonly string[],
  rows: readonly (readonly Cell[])[],
  { stdout, env }: Pick<Io, "stdout" | "env">,
): Promise<string> {
  if (!stdout.isTTY || rows.length === 0) return rows.map((row) => row.join("\t")).join("\n");
  const { formatTable } = await import("./table.ts");
  const show = (cell: Cell = "") => (typeof cell === "number" ? formatNumber(cell) : cell);
  const columns = headers.map((header, index) => ({ header, cells: rows.map((row) => show(row[index])) }));
  return formatTable(columns, stdout.columns ?? 80, { ellipsis: ellipsisFor(env) }).join("\n");
}

/** Wraps lines that are wider than the terminal, between words and with the same indentation. */
export function wrapWords(text: string, columns: number): string {
  return text.replace(/.+/g, (line) => wrapLine(line, columns));
}

/**
 * The parts of a line between which it may be wrapped. A command is one part: pasted with a line break, it
 * would run as two commands.
 */
const words = /(?:(?<=: )|^ *)(?:npx |(?:printf|echo|["']).*\| )?vidgen .*|[^\s`]*`[^`]*`\S*|\S+/g;

function wrapLine(line: string, columns: number): string {
  if (line.length <= columns) return line;
  const indent = /^ */.exec(line)?.[0] ?? "";
  const lines = [""];
  for (const [word] of line.slice(indent.length).matchAll(words)) {
    const last = lines.at(-1) ?? "";
    const whole = last === "" ? `${indent}${word}` : `${last} ${word}`;
    if (last === "" || whole.length <= columns) lines[lines.length - 1] = whole;
    else lines.push(`${indent}${word}`);
  }
  return lines.join("\n");
}
