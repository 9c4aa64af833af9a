// `npm run test:windows`: the black box of kills, races, open files and broken replies, on Windows or under Wine. `--fast` runs the fast project there too.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { setUp, wine } from "./set-up.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const isWindows = process.platform === "win32";
if (!isWindows && wine === undefined) {
  process.stderr.write("No Wine: Windows is not tested. Debian's packages are wine and wine64.\n");
  process.exit(process.argv.includes("--optional") ? 0 : 1);
}
const prefix = isWindows ? undefined : setUp();
const env = { ...process.env, ...(prefix && { WINEPREFIX: prefix, WINE: wine, WINEDEBUG: "-all" }) };
const vitest = join(root, "node_modules/vitest/vitest.mjs");
const run = (command, args, options = {}) =>
  spawnSync(command, args, { cwd: root, env, stdio: "inherit", ...options }).status ?? 1;
let status = run(process.execPath, [vitest, "run", "--config", "test/windows/vitest.config.ts"]);

if (process.argv.includes("--fast")) {
  const fast = ["node_modules/vitest/vitest.mjs", "run", "--config", "test/vitest.config.ts", "--project", "fast"];
  if (isWindows) status ||= run(process.execPath, fast);
  else {
    const copy = join(prefix, "drive_c/project");
    if (!existsSync(copy))
      cpSync(root, copy, {
        recursive: true,
        preserveTimestamps: true,
        filter: (path) => !/[/\\](node_modules|\.git)$/.test(path),
      });
    const packages = ["ci", "--os=win32", "--cpu=x64", "--libc=", "--ignore-scripts", "--no-audit", "--no-fund"];
    execFileSync("npm", packages, { cwd: copy, stdio: "inherit" });
    const wineEnv = { ...env, NODE_OPTIONS: "--require C:/wine-setup.cjs" };
    // One worker: Wine's server is one process for all of them.
    status ||= run(wine, ["C:\\node.exe", ...fast, "--maxWorkers", "1"], {
      cwd: copy,
      env: wineEnv,
      stdio: ["ignore", "inherit", "inherit"],
    });
  }
}
process.exit(status);
