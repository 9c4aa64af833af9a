import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { asRatio, compare, runForCpu } from "./measure.mjs";

const majors = [20, 22, 24];

/** The CPU time of start-up, beside a Node that runs an empty file; with each Node that npm has, or can fetch. */
export function measureStartup({ bin, env, folder, print }) {
  const empty = join(folder, "empty.cjs");
  writeFileSync(empty, "");
  const lines = ["--version", "--help", "status x"];
  for (const major of majors) {
    const command = findNode(major, folder);
    if (command === undefined) {
      print(`Node ${major}`, "could not be had from npm");
      continue;
    }
    const programs = [[empty], ...lines.map((line) => [bin, ...line.split(" ")])];
    const [bare, ...taken] = compare(
      programs.map((args) => () => ({ command, args, env })),
      25,
      runForCpu,
    );
    for (const [i, ms] of taken.entries()) print(`CPU of vidgen ${lines[i]} / node ${major}`, asRatio(ms, bare));
  }
}

/** The program of a Node version: this one, or that of npm's package `node`. */
function findNode(major, cwd) {
  if (Number(process.versions.node.split(".")[0]) === major) return process.execPath;
  // An npm that runs no install scripts gives no program for this package; `node` is then the one of PATH.
  const path = `process.versions.node.startsWith("${major}.") ? process.execPath : ""`;
  const args = ["exec", "--yes", `--package=node@${major}`, "--", "node", "-p", path];
  const { status, stdout } = spawnSync("npm", args, { cwd, encoding: "utf8" });
  return status === 0 && stdout.trim() !== "" ? stdout.trim() : undefined;
}
