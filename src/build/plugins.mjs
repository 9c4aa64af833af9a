import { createRequire } from "node:module";
import { basename, relative, sep } from "node:path";

const { resolve } = createRequire(import.meta.url);

/** Files that the code finds in other packages: they are copied to where the chunks are, and the code is told so. */
export function packagedFiles(copies) {
  return {
    name: "packaged files",
    transform(code, id) {
      if (!/engines[\\/]preview[\\/](rasterize|webp)\.ts$/.test(id)) return undefined;
      const mended = code.replace(/createRequire\(import\.meta\.url\)\.resolve\("([^"]+)"\)/g, (_, name) => {
        const file = relative(".", resolve(name));
        copies.add(file);
        return `new URL("./${basename(file)}", import.meta.url)`;
      });
      if (mended === code) throw new Error(`${id} names no file of a package any more`);
      return mended;
    },
  };
}

/** What packages load and never use here: undici HTTP/2 and the bodies of forms, commander programs for subcommands. */
const unused = [
  { by: "undici", what: /client-h2\.js$|web\/fetch\/body\.js$/ },
  { by: "commander", what: /^node:child_process$/ },
];

export const withoutUnused = {
  name: "without what is unused",
  async resolveId(source, importer = "") {
    const isBy = (name) => importer.includes(`${sep}node_modules${sep}${name}${sep}`);
    if (unused.some(({ by, what }) => isBy(by) && what.test(source))) return `\0unused:${source}`;
    // The parser once more, for processors with SIMD.
    if (/llhttp_simd-wasm\.js$/.test(source)) return this.resolve(source.replace("_simd", ""), importer);
    return undefined;
  },
  load: (id) => (id.startsWith("\0unused:") ? "module.exports = {}" : undefined),
};

/** `process` as it is: imported as a module it is wrapped, which defines every one of its properties anew. */
export const plainProcess = {
  name: "plain process",
  resolveId: (id, _, { kind }) => (id === "node:process" && kind === "import-statement" ? "\0process" : undefined),
  load: (id) => (id === "\0process" ? "export default globalThis.process;" : undefined),
};
