// Bundles `reports.ts` with the stores, which the built program keeps to itself, and runs it.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "rolldown";

export async function measureReports(options) {
  const { dependencies, peerDependencies, devDependencies } = JSON.parse(readFileSync("package.json", "utf8"));
  const file = new URL("../../node_modules/.cache/bench/reports.js", import.meta.url);
  await build({
    input: "test/bench/reports.ts",
    platform: "node",
    external: Object.keys({ ...dependencies, ...peerDependencies, ...devDependencies }),
    output: { file: fileURLToPath(file), codeSplitting: false },
    logLevel: "silent",
  });
  const { measureReports: measure } = await import(file.href);
  await measure(options);
}
