import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

// What some tests need of this machine beside Node. Where it is missing they are skipped, with a line at the end of the run.

/** The first of these files that there is. */
const find = (...files: string[]) => files.find((file) => file !== "" && existsSync(file));

const isOnPath = (program: string) =>
  (process.env.PATH ?? "").split(delimiter).some((folder) => existsSync(join(folder, program)));

/** Chromium without windows of its own opens a page in a third of the time. */
const browsers = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
export const browserPath = find(process.env.CHROMIUM ?? "", ...browsers.map((name) => `/usr/bin/${name}`));

/** The folder of PostgreSQL's programs. */
export const postgresPrograms = findPostgres();

/** Where Debian's package has it. */
export const pgBouncer = find("/usr/sbin/pgbouncer");

/** OpenStack Swift with its S3 API: Debian's package is for Debian's own Python. */
export const hasSwift = existsSync("/usr/lib/python3/dist-packages/swift/common/middleware/s3api");

/** Where Debian's package has it. */
export const nginx = find("/usr/sbin/nginx", "/usr/bin/nginx");

export const hasPromtool = isOnPath("promtool");
export const hasSystemd = isOnPath("systemd-analyze");
export const hasFfmpeg = isOnPath("ffmpeg") && isOnPath("ffprobe");
export const hasGroff = isOnPath("groff");
export const hasTmux = isOnPath("tmux");
export const hasLess = isOnPath("less");
export const hasCurl = isOnPath("curl");
export const hasJq = isOnPath("jq");
export const hasShell = (name: "bash" | "zsh" | "fish") => isOnPath(name) && (name === "fish" || isOnPath("script"));

const isWindows = process.platform === "win32";
/** Wine sets it in every process. */
const isWine = isWindows && process.env.WINELOADER !== undefined;

/** What tests need that POSIX systems have, and whether it is missing here. */
const isMissing = {
  "/proc": !existsSync("/proc/self/fd"),
  "devices in folders": isWindows,
  ENOTDIR: isWindows,
  "control characters in names": isWindows,
  "file modes": isWindows,
  HOME: isWindows,
  "named pipes in folders": isWindows,
  "network namespaces": spawnSync("unshare", ["-rn", "ip", "link"]).status !== 0,
  "removal of open files": isWindows,
  sh: isWindows,
  signals: isWindows,
  "symbolic links": isWindows && !canLink(),
};

/** Whether this machine lacks it, for `test.skipIf(lacks("sh"))`: with what only Wine lacks, the test runs on Windows. */
export function lacks(what: keyof typeof isMissing): boolean {
  return isMissing[what];
}

/** Where the packages of the foreign clients are. */
export const foreignPackages = fileURLToPath(new URL("foreign/node_modules", import.meta.url));

/** Whether they are installed, which `npm ci` alone does not do. */
export const isForeignInstalled = existsSync(foreignPackages);

/** A line for each thing that is missing here: what is not tested, and how to get it. */
export const missing = [
  [
    browserPath,
    "No Chromium: the page in a browser is not tested. Debian's package is chromium-headless-shell; CHROMIUM is the path of another one.",
  ],
  [postgresPrograms, "No PostgreSQL: a shared database is not tested. Debian's package is postgresql."],
  [pgBouncer, "No PgBouncer: a database behind it is not tested. Debian's package is pgbouncer."],
  [hasSwift, "No OpenStack Swift: a real S3 server is not tested. Debian's package is python3-swift."],
  [
    isForeignInstalled,
    "No foreign clients: test/foreign/ is not tested. `npm ci --prefix test/foreign` installs them.",
  ],
  [nginx, "No nginx: the page's lines for a proxy are not run. Debian's package is nginx-light."],
  [hasPromtool, "No promtool: the metrics' format and the alerts are not checked. Debian's package is prometheus."],
  [hasSystemd, "No systemd-analyze: the units of the pages are not checked. Debian's package is systemd."],
  [hasFfmpeg, "No ffmpeg: last frames and films are not tested. Debian's package is ffmpeg."],
  [hasGroff, "No groff: the manual is not formatted. Debian's package is groff."],
  [hasTmux, "No tmux: a real terminal is not tested. Debian's package is tmux."],
  [hasLess, "No less: a page of help in a pager is not tested. Debian's package is less."],
  [hasShell("bash"), "No bash, or no script(1): completion in it is not tested. Debian's package is bsdutils."],
  [hasShell("zsh"), "No zsh, or no script(1): completion in it is not tested. Debian's packages are zsh and bsdutils."],
  [hasShell("fish"), "No fish: completion in it is not tested. Debian's package is fish."],
  [hasJq, "No jq: the examples of help output are not run. Debian's package is jq."],
  [hasCurl, "No curl: the interface by curl alone is not tested. Debian's package is curl."],
].flatMap(([found, line]) => (found ? [] : `${line}`));

/** The same for what only POSIX systems have. */
export const notPosix = Object.entries(isMissing).flatMap(([what, isSkipped]) =>
  isSkipped ? `No ${what} on ${isWine ? "Wine" : process.platform}: what needs that is not tested.` : [],
);

/** Windows asks for a right, and Wine makes none. */
function canLink(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "vidgen-test-"));
  try {
    symlinkSync(folder, join(folder, "link"));
    return existsSync(join(folder, "link"));
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function findPostgres(): string | undefined {
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const places = [
    ...(process.env.PATH ?? "").split(delimiter),
    ...versions.map((version) => join(debian, version, "bin")),
  ];
  return places.find((place) => ["initdb", "postgres"].every((program) => existsSync(join(place, program))));
}
