import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** Runs what each function returns, `rounds` times in turns after a round to warm up. Returns the medians of what `measure` gives, in the same order. */
export function compare(commands, rounds, measure = run) {
  const taken = commands.map(() => []);
  for (let round = 0; round <= rounds; round++)
    for (const [i, command] of commands.entries()) {
      const ms = measure(command());
      if (round > 0) taken[i].push(ms);
    }
  return taken.map(median);
}

/** Runs a command to its end and returns the milliseconds that it took. */
export function run({ command = process.execPath, args, env, cwd }) {
  const start = performance.now();
  const { status, stderr, error } = spawnSync(command, args, { env, cwd });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${error ?? `exit ${status}`}\n${stderr}`);
  return performance.now() - start;
}

/** Runs a command to its end and returns the CPU time that it took, in milliseconds, which a busy machine changes less than the time on the clock. */
export function runForCpu({ command = process.execPath, args, env, cwd }) {
  const script = 'TIMEFORMAT="%3U %3S"; time "$0" "$@"';
  const options = { env: { ...env, LC_ALL: "C" }, cwd, encoding: "utf8" };
  const { status, stderr, error } = spawnSync("bash", ["-c", script, command, ...args], options);
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${error ?? `exit ${status}`}\n${stderr}`);
  const [user, system] = stderr.trimEnd().split("\n").at(-1).split(" ").map(Number);
  return (user + system) * 1000;
}

/** Runs a Node program to its end and returns the most memory that it took, in MB. */
export function runForMemory({ args, env }) {
  const report = 'process.on("exit", () => console.error("kB: " + process.resourceUsage().maxRSS));';
  const preload = ["--import", `data:text/javascript,${encodeURIComponent(report)}`];
  const { status, stderr } = spawnSync(process.execPath, [...preload, ...args], { env, encoding: "utf8" });
  if (status !== 0) throw new Error(`exit ${status}\n${stderr.slice(0, 1000)}`);
  return Number(/kB: (\d+)\n$/.exec(stderr)[1]) / 1024;
}

/** Starts one of the servers of this folder in a process of its own, as the bench blocks while it waits for a command. */
export async function startServer(name, ...args) {
  const script = fileURLToPath(new URL(name, import.meta.url));
  const child = spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const [url] = await once(child.stdout, "data");
  return { url: String(url), close: () => child.kill() };
}

export function asRatio(a, b) {
  return `${(a / b).toFixed(2)} x   ${a.toFixed(0)} ms / ${b.toFixed(0)} ms`;
}

export function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}
