import { shorten } from "../../../protocol/text.ts";
import type { Row } from "../row.ts";
import type { Variant } from "./each.ts";
import type { Faults } from "./faults.ts";
import type { Table, TableLine } from "./table.ts";

/** The id of a row; rows that `--each` makes from one line differ in the values of the variant. */
export function idOf(ownId: string | undefined, variant: Variant): string | undefined {
  return ownId === undefined ? undefined : [ownId, ...variant.map(([, text]) => text)].join("/");
}

type Link = { index: number; line: number; from: string; variant: Variant };

/** Resolves the column `from`, which has an id or "previous". With `--each`, rows with the same values are linked. */
export function createLinks({ columns }: Table, variantCount: number, faults: Faults) {
  const indexes = new Map<string, number>();
  const links: Link[] = [];
  const where = columns.get("from");

  /** The lines of the circle that a row is in, starting and ending with the row. */
  const findCircle = (start: Link, sources: ReadonlyMap<number, Link & { source: number }>) => {
    const lines = [start.line];
    for (let at = sources.get(start.index); at !== undefined; at = sources.get(at.source)) {
      // A row that only leads to a circle is not in it, and its chain never comes back to it.
      if (lines.length > sources.size) return undefined;
      // Each circle is reported once, for its first row.
      if (at.source < start.index) return undefined;
      lines.push(sources.get(at.source)?.line ?? 0);
      if (at.source === start.index) return lines;
    }
    return undefined;
  };

  return {
    add({ texts, line }: TableLine, variant: Variant, index: number): void {
      if (where === undefined) return;
      const [id, from] = [idOf(texts.get("id"), variant), texts.get("from")];
      if (id !== undefined) indexes.set(id, index);
      if (from !== undefined) links.push({ index, line, from, variant });
    },
    /** Sets `from` of the rows, unless there are faults. */
    resolve(rows: readonly Row[]): void {
      const sources = new Map<number, Link & { source: number }>();
      for (const link of links) {
        const { index, line, from, variant } = link;
        const source = from === "previous" ? index - variantCount : indexes.get(idOf(from, variant) ?? "");
        if (source === undefined) faults.add(`no row has the id "${shorten(from)}"`, { line, where });
        else if (source < 0) faults.add("there is no row before it", { line, where });
        else sources.set(index, { ...link, source });
      }
      for (const link of sources.values()) {
        const circle = findCircle(link, sources);
        if (!circle) continue;
        const [first, ...others] = circle;
        const chain = others.join(", which begins from line ");
        faults.add(`is a circle: line ${first} begins from line ${chain}`, { line: link.line, where });
      }
      if (!faults.isEmpty()) return;
      for (const { index, line, source } of sources.values()) {
        const row = rows[index];
        if (row) row.from = source;
        if (rows[source]?.outputPath === undefined)
          faults.add(`needs -o: line ${rows[source]?.line} is not saved, and its last frame is needed`, {
            line,
            where,
          });
      }
    },
  };
}
