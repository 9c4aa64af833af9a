// Prints the figures for speed and memory, each beside a yardstick measured in the same run. `npm run bench -- install` prints those of one part.
// `npm run bench -- reports --rows 1000000 --only postgres` measures the reports of a large service, which takes minutes and only runs when it is named.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { measureAge } from "./age.mjs";
import { measureDownload } from "./download.mjs";
import { measureFollow } from "./follow.mjs";
import { measureInstall } from "./install.mjs";
import { measureLibrary } from "./library.mjs";
import { startServer } from "./measure.mjs";
import { measurePage } from "./page.mjs";
import { measureReports } from "./reports.mjs";
import { measureStartup } from "./startup.mjs";

const parts = {
  startup: measureStartup,
  download: measureDownload,
  follow: measureFollow,
  library: measureLibrary,
  age: measureAge,
  install: measureInstall,
  page: measurePage,
};
const { values: options, positionals: wanted } = parseArgs({
  options: { rows: { type: "string", default: "100000" }, only: { type: "string" } },
  allowPositionals: true,
});
const folder = mkdtempSync(join(tmpdir(), "vidgen-bench-"));
const bin = fileURLToPath(new URL("../../bin/vidgen.js", import.meta.url));
const print = (name, ...figures) => process.stdout.write(`${name.padEnd(36)} ${figures.join("   ")}\n`);
// Node takes 60 ms to read NODE_EXTRA_CA_CERTS, which would hide a part of each ratio.
const { NODE_EXTRA_CA_CERTS: _, ...inherited } = process.env;
const service = await startServer("service.mjs");
const settings = {
  VIDGEN_BASE_URL: service.url,
  VIDGEN_API_KEY: "a-key-for-the-bench",
  VIDGEN_HOME: join(folder, "home"),
};
const env = { ...inherited, ...settings };

print(`Node ${process.versions.node} on ${process.platform}, ${process.arch}; medians`);
try {
  for (const [name, measure] of Object.entries(parts))
    if (wanted.length === 0 || wanted.includes(name)) await measure({ bin, env, folder, url: service.url, print });
  if (wanted.includes("reports")) await measureReports({ print, rows: Number(options.rows), only: options.only });
} finally {
  service.close();
  rmSync(folder, { recursive: true });
}
