// The goals for speed, each pair in turns: medians, and their ratio. `npm run bench -- 5 6` measures these alone.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { measureDownload } from "./download.mjs";
import { measureFollow } from "./follow.mjs";
import { measureInstall } from "./install.mjs";
import { measureStartup } from "./startup.mjs";

const parts = [
  { goals: ["1", "2", "3", "7"], measure: measureStartup },
  { goals: ["4"], measure: measureInstall },
  { goals: ["5"], measure: measureFollow },
  { goals: ["6"], measure: measureDownload },
];

const wanted = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "vidgen-bench-"));
// It alone takes Node 60 ms to read.
const { NODE_EXTRA_CA_CERTS: _, VIDGEN_API_KEY: __, VIDGEN_BASE_URL: ___, ...inherited } = process.env;
const env = { ...inherited, VIDGEN_HOME: join(folder, "home") };
const bin = fileURLToPath(new URL("../../bin/vidgen.js", import.meta.url));
const print = (text) => process.stdout.write(`${text}\n`);

print(`Node ${process.versions.node} on ${process.platform}, ${process.arch}`);
try {
  for (const { goals, measure } of parts)
    if (wanted.length === 0 || goals.some((goal) => wanted.includes(goal))) await measure({ bin, env, folder, print });
} finally {
  rmSync(folder, { recursive: true });
}
