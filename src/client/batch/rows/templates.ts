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
 * Prepares templates. An unknown name, and a name whose value is empty in a row, become faults. In an output
 * path the values are made safe for file names, and names that depend on the generation stay: `{slug}`,
 * `{model}`, `{date}`, and `{id}` for a row without an id. A column of the file takes precedence over
 * `{slug}`, `{date}` and `{n}`.
 */
export function createTemplates({ columns }: Table, { eachNames, flags }: WordOptions, faults: Faults) {
  const rowNames = new Set([...columns.keys(), ...eachNames]);
  const laterNames = placeholders.filter(
    (name) => name === "model" || name === "id" || (name !== "n" && !rowNames.has(name)),
  );
  const wordOf = (name: string, row: TableLine, n: number) =>
    row.texts.get(name) ?? flags.get(name) ?? (name === "n" && !rowNames.has("n") ? String(n) : undefined);

  return (typed: string, { label, line }: TemplateSource): Fill => {
    const template = withColumnNames(typed);
    const keptNames: readonly string[] = label === "--prompt" ? [] : laterNames;
    const nameFault = findNameFault(template, [...new Set([...keptNames, "n", ...rowNames, ...knownColumns])]);
    if (nameFault) {
      const where = columns.get("output");
      faults.add(
        `${line === undefined ? `${label} ` : ""}${nameFault.text}. ${nameFault.hint}`,
        line === undefined ? undefined : { line, where },
      );
      return () => undefined;
    }
    const usedNames = namesIn(template);
    if (usedNames.length === 0) return () => template;
    return (row, n) => {
      const words = new Map<string, string>();
      let isComplete = true;
      for (const name of usedNames) {
        const word = wordOf(name, row, n);
        const stays = keptNames.includes(name) && (name === "model" || word === undefined);
        if (stays) continue;
        if (word !== undefined) {
          words.set(name, label === "--prompt" ? word : safeName(word));
          continue;
        }
        isComplete = false;
        const where = columns.get(name) ?? ` (${name})`;
        faults.add(`is empty, but ${label} uses {${name}}`, { line: row.line, where });
      }
      return isComplete ? fillIn(template, words) : undefined;
    };
  };
}
