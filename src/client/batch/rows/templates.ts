import { fillIn, findNameFault, names, namesIn, safeName } from "../../../video/naming.ts";
import { knownColumns, withColumnNames } from "./columns.ts";
import type { Faults } from "./faults.ts";
import type { Table, TableLine } from "./table.ts";

/** Fills in the words of a row, of which `n` is the number; `undefined` when one of them is a fault. */
export type Fill = (row: TableLine, n: number) => string | undefined;

type TemplateSource = {
  /** How a fault names the template. */
  label: "--prompt" | "-o" | "output";
  /** The line of a template that is a cell. */
  line?: number;
};

type WordOptions = {
  eachNames: Iterable<string>;
  /** What the flags give to rows that leave it out, by the names of the columns. */
  flags: ReadonlyMap<string, string>;
};

/**
 * Prepares templates. A name that is no word of the file, and a word that a row leaves empty, become faults. In a place the words are made
 * harmless, and what only the generation can tell stays: `{slug}`, `{model}`, `{date}`, and `{id}` for a row without one. A column of the
 * file has the precedence over `{slug}`, `{date}` and `{n}`.
 */
export function createTemplates({ columns }: Table, { eachNames, flags }: WordOptions, faults: Faults) {
  const own = new Set([...columns.keys(), ...eachNames]);
  const later = names.filter((name) => name === "model" || name === "id" || (name !== "n" && !own.has(name)));
  const wordOf = (name: string, row: TableLine, n: number) =>
    row.texts.get(name) ?? flags.get(name) ?? (name === "n" && !own.has("n") ? String(n) : undefined);

  return (typed: string, { label, line }: TemplateSource): Fill => {
    const template = withColumnNames(typed);
    const staying: readonly string[] = label === "--prompt" ? [] : later;
    const unknown = findNameFault(template, [...new Set([...staying, "n", ...own, ...knownColumns])]);
    if (unknown) {
      const where = columns.get("output");
      faults.add(
        `${line === undefined ? `${label} ` : ""}${unknown.text}. ${unknown.hint}`,
        line === undefined ? undefined : { line, where },
      );
      return () => undefined;
    }
    const used = namesIn(template);
    if (used.length === 0) return () => template;
    return (row, n) => {
      const words = new Map<string, string>();
      let isWhole = true;
      for (const name of used) {
        const word = wordOf(name, row, n);
        const stays = staying.includes(name) && (name === "model" || word === undefined);
        if (stays) continue;
        if (word !== undefined) {
          words.set(name, label === "--prompt" ? word : safeName(word));
          continue;
        }
        isWhole = false;
        const where = columns.get(name) ?? ` (${name})`;
        faults.add(`is empty, but ${label} uses {${name}}`, { line: row.line, where });
      }
      return isWhole ? fillIn(template, words) : undefined;
    };
  };
}
