// Reads the two tables out of .github/MONEY.md, so that the model is of the page.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const states = ["sending", "unsent", "refused", "unknown", "running", "ready", "delivered", "failed", "lost"];
export const leases = ["alive", "unsure", "dead"];
export const modes = ["same", "reuse", "again", "named"];

const page = new URL("../../.github/MONEY.md", import.meta.url);

/**
 * Returns `table1[state][event]`, the next state, and `table2["state|lease|mode"]`, the cell as the page has it. The state of an attempt of `--no-wait`
 * whose id was told is "running+told". Throws if a table has no answer to a question, or two.
 */
export function readTables(path = process.env.PAGE ?? fileURLToPath(page)) {
  const lines = readFileSync(path, "utf8").split("\n");
  const [events, ...rows1] = readTable(lines, "| state \\ event");
  const table1 = {};
  for (const [name, ...cells] of rows1)
    for (const state of statesOf(name))
      table1[state] = Object.fromEntries(
        cells.map((cell, index) => [events[index + 1], cell === "-" ? state : cell.split(" ")[0]]),
      );
  const table2 = {};
  for (const [name, lease, ...cells] of readTable(lines, "| state | lease").slice(1))
    for (const state of statesOf(name).map((each) => (name.includes("told") ? `${each}+told` : each)))
      for (const each of lease === "any" ? leases : [lease])
        for (const [index, mode] of modes.entries()) {
          const key = `${state}|${each}|${mode}`;
          if (table2[key] !== undefined) throw new Error(`table 2 has two answers for ${key}`);
          table2[key] = cells[index];
        }
  for (const state of states) {
    if (table1[state] === undefined) throw new Error(`table 1 has no row for ${state}`);
    for (const lease of leases)
      for (const mode of modes)
        if (table2[`${state}|${lease}|${mode}`] === undefined)
          throw new Error(`table 2 has no answer for ${state}|${lease}|${mode}`);
  }
  return { table1, table2, events: events.slice(1) };
}

function statesOf(name) {
  return states.filter((state) =>
    name
      .replace(/\(.*\)/, "")
      .split(",")
      .some((each) => each.trim() === state),
  );
}

/** The rows of the table that begins with this line, without the line of dashes. */
function readTable(lines, start) {
  const first = lines.findIndex((line) => line.startsWith(start));
  const rows = lines.slice(first);
  const cells = rows
    .slice(
      0,
      rows.findIndex((line) => !line.startsWith("|")),
    )
    .map((line) =>
      line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim()),
    );
  return cells.filter(([cell]) => !cell.startsWith("---"));
}
