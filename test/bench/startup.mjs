import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { asRatio, compare } from "./measure.mjs";

/** Start-up, beside a Node that runs an empty file. */
export function measureStartup({ bin, env, folder, print }) {
  const empty = join(folder, "empty.cjs");
  writeFileSync(empty, "");
  const lines = ["--version", "--help", "status x"];
  const programs = [[empty], ...lines.map((line) => [bin, ...line.split(" ")])];
  const [bare, ...taken] = compare(
    programs.map((args) => () => ({ args, env })),
    25,
  );
  for (const [i, ms] of taken.entries()) print(`vidgen ${lines[i]} / node`, asRatio(ms, bare));
}
