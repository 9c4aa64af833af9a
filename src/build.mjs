// Makes dist/: the program as CommonJS, which Node loads faster, the library with its types, the page's files, and the fonts of the preview.
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { build } from "rolldown";
import { rollup } from "rollup";
import { dts } from "rollup-plugin-dts";
import license from "rollup-plugin-license";

const { version, dependencies, peerDependencies } = JSON.parse(readFileSync("package.json", "utf8"));
// undici as a package of 100 files costs each command that asks a service 25 ms more than as a part of the program; a library leaves it out.
const { undici: _, ...others } = { ...dependencies, ...peerDependencies };
const external = Object.keys(others);
const common = { platform: "node", external, transform: { target: "node20.19" } };

// The program reads no more of package.json than this; the whole of it is 3 kB, which each command would load.
const onlyVersion = {
  name: "only-version",
  load: (id) => (id === resolve("package.json") ? { code: JSON.stringify({ version }), moduleType: "json" } : null),
};

await build({
  ...common,
  input: { cli: "src/cli/main.ts", worker: "src/server/engines/preview/worker.ts" },
  output: {
    dir: "dist",
    sourcemap: true,
    sourcemapExcludeSources: true,
    minify: true,
    format: "cjs",
    entryFileNames: "[name].cjs",
    chunkFileNames: "[name]-[hash].cjs",
    cleanDir: true,
  },
  plugins: [onlyVersion, license({ thirdParty: { output: "dist/THIRD_PARTY_NOTICES.txt" } })],
});

// Help needs the flags of all commands, and none of their code.
const outlines = execFileSync(process.execPath, ["bin/vidgen.js", "help", "--outlines"], { maxBuffer: 2 ** 24 });
writeFileSync("dist/commands.json", outlines);

// What every command waits for before it begins: a stray import here is felt at each start.
const maxStartBytes = 100_000;
const loaded = filesLoadedBy("--version").map((file) => ({ name: basename(file), bytes: statSync(file).size }));
const startBytes = loaded.reduce((sum, { bytes }) => sum + bytes, 0);
if (startBytes > maxStartBytes) {
  const files = loaded.sort((a, b) => b.bytes - a.bytes).map(({ name, bytes }) => `\n  ${bytes} ${name}`);
  throw new Error(`\`vidgen --version\` loads ${startBytes} bytes, more than ${maxStartBytes}:${files.join("")}`);
}

// The library is the CommonJS file, and `import` gives what that exports: with code in both, there would be two classes named VidgenError.
const library = await build({
  ...common,
  external: [...external, /^undici\//],
  input: "src/index.ts",
  output: { file: "dist/index.cjs", format: "cjs", codeSplitting: false },
});
const [{ exports: names }] = library.output;
writeFileSync("dist/index.js", `export { ${names.join(", ")} } from "./index.cjs";\n`);
writeFileSync("dist/index.d.ts", 'export * from "./index.cjs";\n');
await writeTypes("src/index.ts", "dist/index.d.cts");

await build({ ...common, external: /^vidgen$/, input: "src/ai-sdk.ts", output: { file: "dist/ai-sdk.js" } });
await writeTypes("src/ai-sdk.ts", "dist/ai-sdk.d.ts");

await build({
  input: { page: "src/server/page/browser/page.ts" },
  output: { dir: "dist/page", minify: true },
});
for (const name of ["page.css", "icon.svg"]) cpSync(`src/server/page/${name}`, `dist/page/${name}`);

cpSync("src/server/engines/preview/fonts", "dist/fonts", { recursive: true });

async function writeTypes(input, file) {
  const types = await rollup({ input, external: /^(node:|@|vidgen$)/, plugins: [dts({ tsconfig: "tsconfig.json" })] });
  await types.write({ file });
}

/** The files that Node has loaded when a run of the built program ends: whatever `import` or a package brought. */
function filesLoadedBy(...words) {
  const script = `process.on("exit", () => console.log(JSON.stringify(Object.keys(require.cache)))); require("./bin/vidgen.js");`;
  const stdout = execFileSync(process.execPath, ["-e", script, "vidgen", ...words], { encoding: "utf8" });
  return JSON.parse(stdout.trimEnd().split("\n").at(-1));
}
