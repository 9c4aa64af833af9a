import { shorten } from "../../../protocol/text.ts";
import { columnName, guessColumn, isKnownColumn } from "./columns.ts";
import type { Faults } from "./faults.ts";
import type { Table } from "./table.ts";

/** The `--each` values of one row: pairs of a column and its text. */
export type Variant = readonly (readonly [column: string, text: string])[];

type EachOptions = {
  /** As typed, such as "model=wan-2.5,ray-3". */
  each: readonly string[];
  /** The names that templates use. */
  templateNames: ReadonlySet<string>;
};

/** More rows per line are probably a mistake, such as one `--each` too many. */
const maxVariants = 10_000;

/** All combinations of the values of `--each`; the last field changes fastest. Without `--each` one empty combination. */
export async function readEach({ each, templateNames }: EachOptions, table: Table, faults: Faults): Promise<Variant[]> {
  const fields = new Map<string, string[]>();
  const validFields: string[] = [];
  for (const typed of each) {
    const at = typed.indexOf("=");
    const name = columnName(typed.slice(0, Math.max(at, 0)));
    const values = typed
      .slice(at + 1)
      .split(",")
      .map((value) => value.trim());
    const fault = fields.has(name) ? "is given twice" : findEachFault(name, values, templateNames);
    if (name === "") faults.add(`--each must be field=value,value, not "${shorten(typed)}"`);
    else if (fault !== undefined) faults.add(`--each ${name} ${fault}`);
    else validFields.push(name);
    if (!["id", "from", "output"].includes(name)) fields.set(name, values);
  }
  for (const [name, line] of await findOwnValues(validFields, table)) {
    const where = `line ${line}${table.columns.get(name) ?? ""}`;
    faults.add(`--each ${name} is not possible: ${where} has a value of its own`);
  }
  const count = [...fields.values()].reduce((product, values) => product * values.length, 1);
  if (count > maxVariants) {
    faults.add(`--each makes ${count} rows from each line; the limit is ${maxVariants}`);
    return [[]];
  }
  return [...fields].reduce<Variant[]>(
    (variants, [name, values]) =>
      variants.flatMap((variant) => values.map((value) => [...variant, [name, value] as const])),
    [[]],
  );
}

function findEachFault(name: string, values: string[], used: ReadonlySet<string>): string | undefined {
  if (["id", "from", "output"].includes(name)) return "is not possible: a row has one of its own";
  if (values.includes("")) return "has an empty value";
  if (new Set(values).size < values.length) return "has a value twice";
  if (isKnownColumn(name) || used.has(name)) return undefined;
  const guess = guessColumn(name);
  return `changes nothing: no template uses {${name}}${guess === undefined ? "" : `; did you mean ${guess}?`}`;
}

/** The first line that sets a field itself, for each such field. */
async function findOwnValues(names: string[], { columns, lines }: Table): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  const possibleColumns = names.filter((name) => columns.has(name) || columns.has(`set.${name}`));
  if (possibleColumns.length === 0) return found;
  for await (const { line, texts } of lines()) {
    for (const name of possibleColumns)
      if (!found.has(name) && (texts.has(name) || texts.has(`set.${name}`))) found.set(name, line);
  }
  return found;
}
