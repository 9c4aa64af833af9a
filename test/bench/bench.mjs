// The start-up goals: each pair interleaved, the median of each side, and their ratio. Bare node is an empty ES module. `wrangler` and an
// `npm` are taken from the PATH, where they are.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startService } from "./service.mjs";

const rounds = Math.max(15, Number(process.env.ROUNDS ?? 15));
const bin = fileURLToPath(new URL("../../bin/vidgen.cjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "vidgen-bench-"));
const service = await startService();
const { NODE_EXTRA_CA_CERTS: _, VIDGEN_API_KEY: __, VIDGEN_BASE_URL: ___, ...inherited } = process.env;
const env = { ...inherited, VIDGEN_HOME: join(folder, "home") };
const empty = join(folder, "empty.mjs");
writeFileSync(empty, "");

const node = (args, more = {}) => ({ command: process.execPath, args, env: { ...env, ...more } });
const vidgen = (args, more) => node([bin, ...args], more);
const other = (command, args) => ({ command, args, env });
const remote = {
  VIDGEN_BASE_URL: service.url,
  VIDGEN_API_KEY: "a-key-for-the-bench",
  VIDGEN_HOME: join(folder, "none"),
};

run({ ...vidgen(["login", "--with-token", "--base-url", service.url]), input: "a-key-for-the-bench" });
const goals = [
  { goal: "1", name: "vidgen --version", most: 1.15, a: vidgen(["--version"]), b: node([empty]) },
  { goal: "2", name: "vidgen --help", most: 1.4, a: vidgen(["--help"]), b: node([empty]) },
  {
    goal: "3",
    name: "status, key from the environment",
    most: 2.0,
    a: vidgen(["status", "x"], remote),
    b: node([empty]),
  },
  { goal: "3", name: "status, saved key", most: 2.6, a: vidgen(["status", "x"]), b: node([empty]) },
  { goal: "7", name: "npm --version", least: 2.5, a: other("npm", ["--version"]), b: vidgen(["--version"]) },
  { goal: "7", name: "wrangler --version", least: 10, a: other("wrangler", ["--version"]), b: vidgen(["--version"]) },
];
for (const goal of goals) process.stdout.write(`${report(goal)}\n`);
service.close();
rmSync(folder, { recursive: true });

function report({ goal, name, most, least, a, b }) {
  if (spawnSync(a.command, a.args, { env: a.env }).error) return `${goal}  ${name}: not on this machine`;
  const times = { a: [], b: [] };
  for (let round = 0; round < rounds; round++) {
    times.a.push(run(a));
    times.b.push(run(b));
  }
  const ratio = median(times.a) / median(times.b);
  const isMet = most === undefined ? ratio >= least : ratio <= most;
  const limit = most === undefined ? `at least ${least}` : `at most ${most}`;
  const shown = [median(times.a), median(times.b)].map((ms) => `${ms.toFixed(1)} ms`).join(" / ");
  return `${goal}  ${name.padEnd(34)} ${ratio.toFixed(2)} x  (${limit}) ${isMet ? "met" : "MISSED"}  ${shown}`;
}

function run({ command, args, env, input }) {
  const start = performance.now();
  const { status, stderr } = spawnSync(command, args, { env, input });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: exit ${status}\n${stderr}`);
  return performance.now() - start;
}

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}
