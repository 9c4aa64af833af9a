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

/**
 * Node's own modules without an `import`: that makes an ES module of each, for which every property is read once. Of `process` these are the
 * three streams, of `http` all of Node's fetch: 8 ms at each start, 40 ms with `http`.
 */
export const withoutImports = {
  name: "without imports of Node's own modules",
  renderChunk: (code) =>
    code
      .replace(/^import (?:(.+) from )?"((?:node:)?[a-z]\w*(?:\/\w+)?)";$/gm, (_, names, from) => {
        if (names === undefined) return "";
        const pattern = names.replace(/^\* as /, "").replaceAll(" as ", ": ");
        if (/[,*].*\{/.test(pattern)) throw new Error(`what is imported from ${from} in two ways is not understood`);
        return `const ${pattern} = ${from === "node:process" ? "globalThis.process" : `globalThis.process.getBuiltinModule("${from}")`};`;
      })
      .replace("createRequire(import.meta.url)", "globalThis.process.getBuiltinModule"),
};
