// Makes dist/: the program as CommonJS, which Node loads faster, the library as one file of CommonJS with its types, the page's files, and the fonts of the preview.
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import { build } from "rolldown";
import { rollup } from "rollup";
import { dts } from "rollup-plugin-dts";
import license from "rollup-plugin-license";

const { dependencies, peerDependencies } = JSON.parse(readFileSync("package.json", "utf8"));
const external = Object.keys({ ...dependencies, ...peerDependencies });
const common = { platform: "node", external, transform: { target: "node20.18" } };
const output = { dir: "dist", sourcemap: true, sourcemapExcludeSources: true, minify: true };

await build({
  ...common,
  input: { cli: "src/cli/main.ts", worker: "src/server/engines/preview/worker.ts" },
  output: {
    ...output,
    format: "cjs",
    entryFileNames: "[name].cjs",
    chunkFileNames: "[name]-[hash].cjs",
    cleanDir: true,
  },
  plugins: [license({ thirdParty: { output: "dist/THIRD_PARTY_NOTICES.txt" } })],
});

// What every command waits for before it begins: a stray import here is felt at each start.
const maxStartBytes = 100_000;
const loaded = filesLoadedBy("--version").map((file) => ({ name: basename(file), bytes: statSync(file).size }));
const startBytes = loaded.reduce((sum, { bytes }) => sum + bytes, 0);
if (startBytes > maxStartBytes) {
  const files = loaded.sort((a, b) => b.bytes - a.bytes).map(({ name, bytes }) => `\n  ${bytes} ${name}`);
  throw new Error(`\`vidgen --version\` loads ${startBytes} bytes, more than ${maxStartBytes}:${files.join("")}`);
}

// `import("vidgen")` and `require("vidgen")` share this file: with one each, there would be two classes named VidgenError.
await build({
  ...common,
  input: { index: "src/index.ts" },
  output: { ...output, format: "cjs", entryFileNames: "[name].cjs", codeSplitting: false },
});

await build({
  input: { page: "src/server/page/browser/page.ts" },
  output: { dir: "dist/page", minify: true },
});
for (const name of ["page.css", "icon.svg"]) cpSync(`src/server/page/${name}`, `dist/page/${name}`);

const types = await rollup({
  input: "src/index.ts",
  external: /^node:/,
  plugins: [dts({ tsconfig: "tsconfig.json" })],
});
await types.write({ file: "dist/index.d.cts" });

cpSync("src/server/engines/preview/fonts", "dist/fonts", { recursive: true });

/** The files that Node has loaded when a run of the built program ends: whatever `import` or a package brought. */
function filesLoadedBy(...words) {
  const script = `process.on("exit", () => console.log(JSON.stringify(Object.keys(require.cache)))); require("./bin/vidgen.js");`;
  const stdout = execFileSync(process.execPath, ["-e", script, "vidgen", ...words], { encoding: "utf8" });
  return JSON.parse(stdout.trimEnd().split("\n").at(-1));
}
