import { fillIn, findNameFault, namesIn, placeholders, safeName } from "../../../video/naming.ts";
import { knownColumns, withColumnNames } from "./columns.ts";
import type { Faults } from "./faults.ts";
import type { Table, TableLine } from "./table.ts";

/** Fills in the values of a row and its number `n`; `undefined` if a value is missing. */
export type Fill = (row: TableLine, n: number) => string | undefined;

type TemplateSource = {
  /** The name of the template in a fault. */
  label: "--prompt" | "-o" | "output";
  /** The line, if the template is a cell. */
  line?: number;
};

type WordOptions = {
  eachNames: Iterable<string>;
  /** The defaults from the flags, by column. */
  flags: ReadonlyMap<string, string>;
};

/**
 * Prepares templates. An unknown name, and a name whose value is empty in a row, become faults. In an output path the values are made
 * safe for file names, and names that depend on the generation stay: `{slug}`, `{model}`, `{date}`, and `{id}` for a row without an id. A column of the
 * file takes precedence over `{slug}`, `{date}` and `{n}`.
 */
export function createTemplates({ columns }: Table, { eachNames, flags }: WordOptions, faults: Faults) {
  const own = new Set([...columns.keys(), ...eachNames]);
  const later = placeholders.filter((name) => name === "model" || name === "id" || (name !== "n" && !own.has(name)));
  const wordOf = (name: string, row: TableLine, n: number) =>
    row.texts.get(name) ?? flags.get(name) ?? (name === "n" && !own.has("n") ? String(n) : undefined);

  return (typed: string, { label, line }: TemplateSource): Fill => {
    const template = withColumnNames(typed);
    const kept: readonly string[] = label === "--prompt" ? [] : later;
    const unknown = findNameFault(template, [...new Set([...kept, "n", ...own, ...knownColumns])]);
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
        const stays = kept.includes(name) && (name === "model" || word === undefined);
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
