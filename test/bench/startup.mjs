import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { compare, line, run } from "./measure.mjs";
import { startService } from "./service.mjs";

/** Goals 1, 2, 3 and 7: start-up, beside a bare `node` with an empty file. `wrangler` is measured where WRANGLER or the PATH names it. */
export async function measureStartup({ bin, env, folder, print }) {
  const service = await startService();
  const empty = join(folder, "empty.cjs");
  writeFileSync(empty, "");
  const node = (args, more) => ({ command: process.execPath, args, env: { ...env, ...more } });
  const vidgen = (args, more) => node([bin, ...args], more);
  const key = "a-key-for-the-bench";
  const fromEnv = { VIDGEN_BASE_URL: service.url, VIDGEN_API_KEY: key, VIDGEN_HOME: join(folder, "none") };
  run({ ...vidgen(["login", "--with-token", "--base-url", service.url]), input: key });

  const atMost = (goal, name, limit, command) => {
    const { a, b, ratio } = compare(
      () => command,
      () => node([empty]),
    );
    print(line(goal, name, { ...asRatio(ratio), limit: `at most ${limit}`, isMet: ratio <= limit, more: ms(a, b) }));
  };
  const quicker = (name, limit, command) => {
    if (spawnSync(command, ["--version"], { env }).error) return print(`7  ${name}: not on this machine`);
    const other = { command, args: ["--version"], env };
    const { a, b, ratio } = compare(
      () => other,
      () => vidgen(["--version"]),
    );
    print(line("7", name, { ...asRatio(ratio), limit: `at least ${limit}`, isMet: ratio >= limit, more: ms(a, b) }));
  };
  atMost("1", "vidgen --version / node", 1.15, vidgen(["--version"]));
  atMost("2", "vidgen --help / node", 1.4, vidgen(["--help"]));
  atMost("3", "status, key from the environment / node", 2, vidgen(["status", "x"], fromEnv));
  atMost("3", "status, saved key / node", 2.6, vidgen(["status", "x"]));
  quicker("npm --version / vidgen --version", 2.5, "npm");
  quicker("wrangler --version / vidgen --version", 10, env.WRANGLER ?? "wrangler");
  service.close();
}

const asRatio = (ratio) => ({ figure: `${ratio.toFixed(2)} x` });
const ms = (...times) => times.map((time) => `${time.toFixed(1)} ms`).join(" / ");
