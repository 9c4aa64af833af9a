import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const rounds = Math.max(15, Number(process.env.ROUNDS ?? 25));

/** Two commands in turns: `a` and `b` are their medians in milliseconds, `ratio` is a's by b's. */
export function compare(a, b, times = rounds) {
  const taken = { a: [], b: [] };
  for (let round = 0; round <= times; round++) {
    const [one, other] = [run(a()), run(b())];
    // The first round warms up.
    if (round === 0) continue;
    taken.a.push(one);
    taken.b.push(other);
  }
  const [ofA, ofB] = [median(taken.a), median(taken.b)];
  return { a: ofA, b: ofB, ratio: ofA / ofB };
}

/** Runs a command to its end and returns the milliseconds that it took. */
export function run({ command, args, env, input, cwd }) {
  const start = performance.now();
  const { status, stderr, error } = spawnSync(command, args, { env, input, cwd });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${error ?? `exit ${status}`}\n${stderr}`);
  return performance.now() - start;
}

/** Runs a Node program without blocking this one; returns what it printed and its memory in MB: the peak, and that of each half of its time. */
export async function runMeasured({ args, env, folder }) {
  const report = join(folder, "peak.json");
  const preload = ["--require", fileURLToPath(new URL("peak.cjs", import.meta.url))];
  const child = spawn(process.execPath, [...preload, ...args], { env: { ...env, VIDGEN_BENCH_PEAK: report } });
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) child[name].on("data", (chunk) => (said[name] += chunk));
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`exit ${code}\n${said.stderr.slice(0, 1000)}`);
  const memory = Object.entries(JSON.parse(readFileSync(report, "utf8"))).map(([name, kb]) => [name, kb / 1024]);
  return { ...said, ...Object.fromEntries(memory) };
}

/** Starts one of the servers of this folder in a process of its own. `ask` says one line to it and returns its answer. */
export async function startServer(name, ...args) {
  const script = fileURLToPath(new URL(name, import.meta.url));
  const child = spawn(process.execPath, [script, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  const answer = async () => JSON.parse(String((await once(child.stdout, "data"))[0]));
  const { port } = await answer();
  const ask = (line) => {
    child.stdin.write(`${line}\n`);
    return answer();
  };
  return { port, ask, close: () => child.kill() };
}

export function median(numbers) {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

/** One line of the table. */
export function line(goal, name, { figure, limit, isMet, more }) {
  return `${goal}  ${name.padEnd(38)} ${figure.padStart(8)}  (${limit}) ${isMet ? "met" : "MISSED"}  ${more}`;
}
