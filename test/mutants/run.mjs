// Applies the changes of list.mjs to the source, one by one, and prints which test finds each. Exits with 1 if none does, or if a change does not apply.
//
//     node test/mutants/run.mjs                     the tests named in the list, then all fast tests, until one fails
//     node test/mutants/run.mjs --related           only the tests named in the list
//     node test/mutants/run.mjs --simulation 5      the simulation alone, for 5 minutes each
//     node test/mutants/run.mjs 3 17                only these mutants, counted from 1
//     node test/mutants/run.mjs --random 10         ten of them
//
// The source is changed while it runs, and restored after each mutant, also after Ctrl-C.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { mutants } from "./list.mjs";

const { values, positionals } = parseArgs({
  options: { related: { type: "boolean" }, simulation: { type: "string" }, random: { type: "string" } },
  allowPositionals: true,
});
const print = (text) => process.stdout.write(`${text}\n`);
const vitest = ["vitest", "run", "--config", "test/vitest.config.ts", "--project", "fast", "--bail=1"];

/** Returns the first test that fails, or `undefined`. */
function findFailure(command, args) {
  // The process group of a terminal gets Ctrl-C too; this process then restores the source.
  const { status, signal, stdout, stderr } = spawnSync(command, args, {
    encoding: "utf8",
    maxBuffer: 2 ** 28,
    env: { ...process.env, NO_COLOR: "1" },
  });
  if (signal !== null) throw new Error(`stopped by ${signal}`);
  if (status === 0) return undefined;
  const output = stdout + stderr;
  return /FAIL\s+(.*)/.exec(output)?.[1] ?? /x rule .*/.exec(output)?.[0] ?? output.trim().split("\n").at(-1);
}

function tryMutant({ tests }) {
  if (values.simulation !== undefined)
    return findFailure("node", ["test/simulation/simulate.mjs", "--kind", "client", "--minutes", values.simulation]);
  return findFailure("npx", [...vitest, ...tests]) ?? (values.related ? undefined : findFailure("npx", vitest));
}

process.on("SIGINT", () => {});
const all = mutants.map((_, index) => index + 1);
const drawn = values.random && all.sort(() => Math.random() - 0.5).slice(0, Number(values.random));
const chosen = drawn || (positionals.length === 0 ? all : positionals.map(Number));
let missed = 0;
for (const number of chosen) {
  const { file, text, replacement, breaks, ...mutant } = mutants[number - 1];
  const source = readFileSync(file, "utf8");
  const parts = source.split(text);
  if (parts.length !== 2) {
    print(`${number}. ${breaks}: its text occurs ${parts.length - 1} times in ${file}`);
    missed++;
    continue;
  }
  let failure;
  try {
    writeFileSync(file, parts.join(replacement));
    failure = tryMutant(mutant);
  } finally {
    writeFileSync(file, source);
  }
  if (failure === undefined) missed++;
  print(`${number}. ${breaks}: ${failure === undefined ? "NO TEST FINDS IT" : `found by ${failure}`}`);
}
print(`${chosen.length - missed} of ${chosen.length} found`);
process.exitCode = missed === 0 ? 0 : 1;
