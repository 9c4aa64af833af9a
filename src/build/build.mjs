// Makes dist/: the program in chunks that are loaded when they are needed, with all that it is made of, so that it depends on no package. They
// are CommonJS: to start Node's loader of ES modules takes as long as half of `--help`.
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { rolldown } from "rolldown";
import { findNotices } from "./notices.mjs";
import { packagedFiles, plainProcess, withoutUnused } from "./plugins.mjs";

const copies = new Set(["node_modules/node-sqlite3-wasm/dist/node-sqlite3-wasm.wasm"]);

/** What is always loaded together, with all that it needs, is one file: each further one costs up to a millisecond. */
const together = [
  { name: "cli", test: /src[\\/]cli\.ts$/, priority: 2 },
  { name: "session", test: /src[\\/]session\.ts$/, priority: 1 },
];

/** Each by itself: what two of them share would be a further file to load. Returns the entry's exports, and what it was made of. */
async function bundle(name, input) {
  const made = await rolldown({
    input: { [name]: input },
    preserveEntrySignatures: "allow-extension",
    platform: "node",
    tsconfig: "tsconfig.json",
    transform: { target: "node20.18" },
    plugins: [packagedFiles(copies), withoutUnused, plainProcess],
  });
  const { output } = await made.write({
    dir: "dist",
    format: "cjs",
    minify: true,
    comments: false,
    entryFileNames: `${name}.cjs`,
    // io.ts looks for that name in a stack.
    codeSplitting: { groups: together },
    chunkFileNames: ({ moduleIds }) =>
      `${moduleIds.some((id) => /undici.*client-h1/.test(id)) ? "undici" : "[name]"}-[hash].cjs`,
  });
  const [{ exports }] = output;
  return { exports, sources: output.flatMap(({ moduleIds = [] }) => moduleIds) };
}

rmSync("dist", { recursive: true, force: true });
const library = await bundle("index", "src/index.ts");
const program = await bundle("cli", "src/cli.ts");
const worker = await bundle("worker", "src/server/engines/preview/worker.ts");
writeFileSync("dist/index.js", `export { ${library.exports.join(", ")} } from "./index.cjs";\n`);
for (const file of copies) cpSync(file, `dist/${basename(file)}`);
cpSync("src/server/engines/preview/fonts", "dist/fonts", { recursive: true });
const sources = [library, program, worker].flatMap((each) => each.sources);
writeFileSync("dist/THIRD_PARTY_NOTICES.txt", findNotices([...sources, ...copies]));
