// Makes dist/: the program in chunks that are loaded when they are needed, with all that it is made of, so that it depends on no package.
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { rolldown } from "rolldown";
import { findNotices } from "./notices.mjs";
import { packagedFiles, withoutImports, withoutUnused } from "./plugins.mjs";

const copies = new Set(["node_modules/node-sqlite3-wasm/dist/node-sqlite3-wasm.wasm"]);

rmSync("dist", { recursive: true, force: true });
const bundle = await rolldown({
  input: { cli: "src/cli.ts", index: "src/index.ts", worker: "src/server/engines/preview/worker.ts" },
  platform: "node",
  tsconfig: "tsconfig.json",
  transform: {
    target: "node20.18",
    define: { __dirname: "import.meta.dirname", __filename: "import.meta.filename" },
  },
  plugins: [packagedFiles(copies), withoutUnused, withoutImports],
});
const { output } = await bundle.write({
  dir: "dist",
  format: "esm",
  minify: true,
  comments: false,
  // io.ts looks for that name in a stack.
  chunkFileNames: ({ moduleIds }) =>
    `${moduleIds.some((id) => /undici.*client-h1/.test(id)) ? "undici" : "[name]"}-[hash].js`,
});
for (const file of copies) cpSync(file, `dist/${basename(file)}`);
cpSync("src/server/engines/preview/fonts", "dist/fonts", { recursive: true });
const sources = output.flatMap(({ moduleIds = [] }) => moduleIds);
writeFileSync("dist/THIRD_PARTY_NOTICES.txt", findNotices([...sources, ...copies]));
