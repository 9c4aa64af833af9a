// Makes dist/: the program in chunks that are loaded when they are needed, with all that it is made of, so that it depends on no package. They
// are CommonJS: to start Node's loader of ES modules takes as long as half of `--help`. They are few, and what is large is compressed: npm
// takes its time by the file and by the byte.
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { brotliCompressSync, constants } from "node:zlib";
import { rolldown } from "rolldown";
import { findNotices } from "./notices.mjs";
import {
  fewConstants,
  http,
  packedFiles,
  pausedParser,
  plainProcess,
  readOnce,
  stamped,
  withoutUnused,
} from "./plugins.mjs";
import { bundleTypes } from "./types.mjs";

/** By their names: their bytes, and the files they come from. */
const packed = new Map();

/** The last tenth that the highest quality would save takes 15 times as long to compress. */
const quality = { [constants.BROTLI_PARAM_QUALITY]: 9 };

/** What is loaded together, with all that it needs, is one file: each further one costs up to a millisecond. The first that fits wins. */
const together = {
  program: [
    { name: "cli", test: /src[\\/]cli[\\/]main\.ts$/ },
    { name: "models", test: /src[\\/](client[\\/]models|cli[\\/]similar)\.ts$/ },
    { name: "session", test: /src[\\/]cli[\\/](context|commands[\\/](status|list|complete))\.ts$/ },
    { name: "words", test: /src[\\/]cli[\\/](help|completion|commands[\\/](help|completion))\b/ },
    { name: "ask", test: /src[\\/]cli[\\/]commands[\\/](generate|wait|login|logout|models|doctor)\.ts$/ },
    { name: "terminal", test: /node_modules[\\/](ora|chalk|signal-exit|mimic-function)[\\/]/ },
    { name: "conf", test: /node_modules[\\/]conf[\\/]/ },
    { name: "announcement", test: /src[\\/]server[\\/]announcement\.ts$/ },
    { name: "server", test: /src[\\/](server|cli[\\/]commands[\\/]serve)\b/ },
  ],
  worker: [{ name: "worker", test: /./ }],
  "undici-http": [
    { name: "undici-http", test: /src[\\/]client[\\/]undici-fetch\.ts$/ },
    { name: "undici-more", test: /src[\\/]client[\\/](proxy|decode)\.ts$/ },
  ],
};

/** Each by itself: what two of them share would be a further file to load. Returns the entry's exports, and what it was made of. */
async function bundle(name, input, groups = []) {
  const made = await rolldown({
    input: { [name]: input },
    preserveEntrySignatures: "allow-extension",
    platform: "node",
    tsconfig: "tsconfig.json",
    transform: { target: "node20.18" },
    plugins: [http, packedFiles(packed), withoutUnused, fewConstants, pausedParser, plainProcess, readOnce, stamped],
  });
  const { output } = await made.write({
    dir: "dist",
    format: "cjs",
    // By `import()` even a module of Node, or a chunk of another bundle, starts its loader of ES modules.
    dynamicImportInCjs: false,
    minify: true,
    comments: false,
    entryFileNames: `${name}.cjs`,
    codeSplitting: { groups: groups.map((group, i) => ({ ...group, priority: groups.length - i })) },
    chunkFileNames: "[name]-[hash].cjs",
  });
  const [{ exports }] = output;
  return { exports, sources: output.flatMap(({ moduleIds = [] }) => moduleIds) };
}

rmSync("dist", { recursive: true, force: true });
const library = await bundle("index", "src/index.ts");
const others = [
  await bundle("cli", "src/cli/main.ts", together.program),
  await bundle("worker", "src/server/engines/preview/worker.ts", together.worker),
  // For both the program and the library; io.ts looks for its name in a stack.
  await bundle("undici-http", "src/client/undici-fetch.ts", together["undici-http"]),
];
writeFileSync("dist/index.js", `export { ${library.exports.join(", ")} } from "./index.cjs";\n`);
await bundleTypes("src/index.ts", ["dist/index.d.ts", "dist/index.d.cts"]);
for (const [name, { bytes }] of packed)
  writeFileSync(`dist/${name}.br`, brotliCompressSync(bytes, { params: quality }));
mkdirSync("dist/fonts");
const fonts = "src/server/engines/preview/fonts";
for (const name of ["Inter-Medium.otf", "Inter-SemiBold.otf"]) cpSync(`${fonts}/${name}`, `dist/fonts/${name}`);
const sources = [library, ...others].flatMap((each) => each.sources);
const origins = [...packed.values()].map(({ from }) => from);
writeFileSync("dist/THIRD_PARTY_NOTICES.txt", findNotices([...sources, ...origins], [`${fonts}/OFL.txt`]));
