import { readFileSync } from "node:fs";
import { build } from "rolldown";

const { dependencies, peerDependencies } = JSON.parse(readFileSync("package.json", "utf8"));
await build({
  input: "test/simulation/engine/debug.tmp.ts",
  platform: "node",
  external: Object.keys({ ...dependencies, ...peerDependencies }),
  output: { file: "node_modules/.cache/simulation/debug.js", codeSplitting: false },
  logLevel: "silent",
});
await import(new URL("../../../node_modules/.cache/simulation/debug.js", import.meta.url).href);
