// Makes dist/: the program as ES modules, the library as one file of CommonJS with its types, the page's files, and the fonts of the preview.
import { cpSync, readFileSync } from "node:fs";
import { build } from "rolldown";
import { rollup } from "rollup";
import { dts } from "rollup-plugin-dts";
import license from "rollup-plugin-license";

const { dependencies, peerDependencies } = JSON.parse(readFileSync("package.json", "utf8"));
const external = Object.keys({ ...dependencies, ...peerDependencies });
const common = { platform: "node", external, transform: { target: "node20.18" } };
const output = { dir: "dist", sourcemap: true, sourcemapExcludeSources: true, minify: true };

const program = await build({
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

// What each command waits for before it begins: a stray import here is felt at every start.
const maxStartBytes = 100_000;
const startBytes = sizeWithImports("cli.cjs", program.output);
if (startBytes > maxStartBytes)
  throw new Error(`\`vidgen --version\` loads ${startBytes} bytes, more than ${maxStartBytes}.`);

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

/** The bytes of a file and of all that it loads at once. */
function sizeWithImports(fileName, output) {
  const loaded = new Map();
  const load = (name) => {
    const chunk = output.find((each) => each.fileName === name);
    if (chunk === undefined || loaded.has(name)) return;
    loaded.set(name, Buffer.byteLength(chunk.code));
    for (const each of chunk.imports) load(each);
  };
  load(fileName);
  return [...loaded.values()].reduce((sum, bytes) => sum + bytes, 0);
}
