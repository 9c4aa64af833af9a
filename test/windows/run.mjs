// `npm run test:windows`: the black box of kills, races, open files and broken replies, on Windows or under Wine. `--fast` runs the fast project there too.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, openSync, rmSync, utimesSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { setUp, wine } from "./set-up.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const isWindows = process.platform === "win32";
if (!isWindows && wine === undefined) {
  process.stderr.write("No Wine: Windows is not tested. Debian's package is wine64.\n");
  process.exit(process.argv.includes("--optional") ? 0 : 1);
}
const prefix = isWindows ? undefined : setUp();
const env = { ...process.env, ...(prefix && { WINEPREFIX: prefix, WINE: wine, WINEDEBUG: "-all" }) };
const vitest = join(root, "node_modules/vitest/vitest.mjs");
const run = (command, args, options = {}) =>
  spawnSync(command, args, { cwd: root, env, stdio: "inherit", ...options }).status ?? 1;
const statuses = [run(process.execPath, [vitest, "run", "--config", "test/windows/vitest.config.ts"])];

if (process.argv.includes("--fast")) {
  const fast = ["node_modules/vitest/vitest.mjs", "run", "--config", "test/vitest.config.ts", "--project", "fast"];
  if (isWindows) statuses.push(run(process.execPath, fast));
  else {
    const copy = refreshCopy(join(prefix, "drive_c/project"));
    // One worker: Wine's server is one process for all of them.
    statuses.push(await runNode([...fast, "--maxWorkers", "1"], copy));
  }
}
process.exit(Math.max(...statuses));

/** Runs Node under Wine. It cannot write to a pipe, so that it writes to a file, which is shown as it grows. */
async function runNode(args, cwd) {
  const log = join(prefix, "fast.log");
  rmSync(log, { force: true });
  const out = openSync(log, "a");
  const child = spawn(wine, ["C:\\node.exe", ...args], {
    cwd,
    // Wine's files and sockets are slow, which test/slowness.ts does not measure. It appends at the size that it has just read, so that two appends at
    // once can overwrite each other: with one thread for files, a process makes one at a time. Windows appends at the end, as POSIX systems do.
    env: { TEST_SLOWNESS: "10", UV_THREADPOOL_SIZE: "1", ...env, NODE_OPTIONS: "--require C:/wine-setup.cjs" },
    stdio: ["ignore", out, out],
  });
  const ended = once(child, "close");
  await once(spawn("tail", ["-n", "+1", "-f", `--pid=${child.pid}`, log], { stdio: "inherit" }), "close");
  const [status] = await ended;
  return status ?? 1;
}

/** Copies the project as it is now to Wine's drive C:, with the packages for Windows, and returns the folder. */
function refreshCopy(copy) {
  rmSync(copy, { recursive: true, force: true });
  const filter = (path) => !/[/\\](node_modules|\.git)$/.test(path);
  cpSync(root, copy, { recursive: true, preserveTimestamps: true, filter });
  // The folders of the copy are new: without this, the tests would think that dist/ is older than src/.
  for (const name of ["cli.cjs", "SKILL.md"]) utimesSync(join(copy, "dist", name), new Date(), new Date());
  const packages = ["ci", "--os=win32", "--cpu=x64", "--libc=", "--ignore-scripts", "--no-audit", "--no-fund"];
  execFileSync("npm", packages, { cwd: copy, stdio: "inherit" });
  return copy;
}
