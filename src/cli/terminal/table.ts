import truncate from "cli-truncate";
import stringWidth from "string-width";

/** A column of a table: its header, and a cell for each row. */
export type Column = {
  header: string;
  cells: readonly string[];
  /** If the width is not enough, columns with a rank are left out, the highest first. */
  rank?: number;
};

/** `position` is the end to cut off; `mark` replaces it. */
type CutOptions = { position?: "start" | "end" | undefined; mark?: "..." | "\u2026" | undefined };

/** The width of a cell with long text: a fifth of the terminal, but room for a word or two. */
export function shareOf(width: number): number {
  return Math.max(12, Math.floor(width / 5));
}

/**
 * One line per row, after a line of headers, for a terminal of this width. The last column gets the rest of the width: at least a fifth while other
 * columns can be left out. Empty columns are left out.
 */
export function formatTable(columns: readonly Column[], width: number, how: CutOptions = {}): string[] {
  const used = columns.filter(({ cells }) => cells.some((cell) => cell !== ""));
  const shown = used.map((column) => ({ ...column, cells: [column.header, ...column.cells] }));
  for (;;) {
    const others = shown.slice(0, -1);
    const [next] = others.filter(({ rank }) => rank !== undefined).sort((a, b) => (b.rank ?? 0) - (a.rank ?? 0));
    const taken = others.reduce((sum, { cells }) => sum + widthOf(cells) + 2, 0);
    const wanted = Math.min(shareOf(width), widthOf(shown.at(-1)?.cells ?? []));
    if (next === undefined || taken + wanted <= width) break;
    shown.splice(shown.indexOf(next), 1);
  }
  const widths = shown.map(({ cells }) => widthOf(cells));
  const count = shown[0]?.cells.length ?? 0;
  return Array.from({ length: count }, (_, row) => {
    const cells = shown.map(({ cells }, i) => padEnd(cells[row] ?? "", widths[i] ?? 0));
    return cut(cells.join("  ").trimEnd(), width, { mark: how.mark });
  });
}

/** The text, cut at `width` columns. */
export function cut(text: string, width: number, { position = "end", mark = "\u2026" }: CutOptions = {}): string {
  if (width < 2) return "";
  const how = { position, truncationCharacter: mark };
  const shown = truncate(text, width, how);
  // cli-truncate keeps a letter of two columns even if there is room for only one.
  return stringWidth(shown) <= width ? shown : truncate(text, width - 1, how);
}

export function widthOf(cells: readonly string[]): number {
  return Math.max(0, ...cells.map((cell) => stringWidth(cell)));
}

export function padEnd(cell: string, width: number): string {
  return cell + " ".repeat(width - stringWidth(cell));
}
