import truncate from "cli-truncate";
import stringWidth from "string-width";

/** A column of a table: its header, and a cell for each row. */
export type Column = {
  header: string;
  cells: readonly string[];
  /** If the table is too wide, columns with a rank are left out, the highest rank first. */
  rank?: number;
};

/** `position` is the end that is cut off; `ellipsis` replaces it. */
type CutOptions = { position?: "start" | "end" | undefined; ellipsis?: "..." | "\u2026" | undefined };

/** The width of a cell with long text: a fifth of the terminal, but room for a word or two. */
export function longCellWidth(width: number): number {
  return Math.max(12, Math.floor(width / 5));
}

/**
 * One line per row, after a line of headers, for a terminal of this width. The last column gets the rest of
 * the width: at least a fifth while other columns can be left out. Empty columns are left out.
 */
export function formatTable(columns: readonly Column[], width: number, options: CutOptions = {}): string[] {
  const used = columns.filter(({ cells }) => cells.some((cell) => cell !== ""));
  const shown = used.map((column) => ({ ...column, cells: [column.header, ...column.cells] }));
  for (;;) {
    const others = shown.slice(0, -1);
    const [next] = others.filter(({ rank }) => rank !== undefined).sort((a, b) => (b.rank ?? 0) - (a.rank ?? 0));
    const usedWidth = others.reduce((sum, { cells }) => sum + widthOf(cells) + 2, 0);
    const lastWidth = Math.min(longCellWidth(width), widthOf(shown.at(-1)?.cells ?? []));
    if (next === undefined || usedWidth + lastWidth <= width) break;
    shown.splice(shown.indexOf(next), 1);
  }
  const widths = shown.map(({ cells }) => widthOf(cells));
  const count = shown[0]?.cells.length ?? 0;
  return Array.from({ length: count }, (_, row) => {
    const cells = shown.map(({ cells }, i) => padEnd(cells[row] ?? "", widths[i] ?? 0));
    return cut(cells.join("  ").trimEnd(), width, { ellipsis: options.ellipsis });
  });
}

/** The text, cut at `width` columns. */
export function cut(text: string, width: number, { position = "end", ellipsis = "\u2026" }: CutOptions = {}): string {
  if (width < 2) return "";
  const options = { position, truncationCharacter: ellipsis };
  const shown = truncate(text, width, options);
  // cli-truncate keeps a letter of two columns even if there is room for only one.
  return stringWidth(shown) <= width ? shown : truncate(text, width - 1, options);
}

export function widthOf(cells: readonly string[]): number {
  return Math.max(0, ...cells.map((cell) => stringWidth(cell)));
}

export function padEnd(cell: string, width: number): string {
  return cell + " ".repeat(width - stringWidth(cell));
}
