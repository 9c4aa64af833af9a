import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, sep } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const { resolve } = require;

/** How the code comes by WebAssembly: it reads a file of a package, or holds it as text. */
const finds = [
  {
    by: /engines[\\/]preview[\\/](rasterize|webp)\.ts$/,
    how: /readFile\(createRequire\(import\.meta\.url\)\.resolve\("([^"]+)"\)\)/,
    read: (name) => fileAt(resolve(name)),
    become: (unpacked) => `Promise.resolve(${unpacked})`,
  },
  {
    by: /node-sqlite3-wasm\.js$/,
    how: /(?<=return )readBinary\(file\)/,
    read: () => fileAt(resolve("node-sqlite3-wasm/dist/node-sqlite3-wasm.wasm")),
    become: (unpacked) => unpacked,
  },
  {
    by: /h264-mp4-encoder\.node\.js$/,
    how: /"data:application\/octet-stream;base64,([\w+/=]+)"/,
    read: (text, from) => ({ name: "h264-mp4-encoder.wasm", from, bytes: Buffer.from(text, "base64") }),
    become: (unpacked) => `("data:application/octet-stream;base64,"+${unpacked}.toString("base64"))`,
  },
];

function fileAt(from) {
  return { name: basename(from), from, bytes: readFileSync(from) };
}

/** WebAssembly goes into files of its own, compressed, and the code is told to unpack it from there. `packed` is told of each. */
export function packedFiles(packed) {
  const unpack = fileURLToPath(new URL("unpack.mjs", import.meta.url)).replaceAll(sep, "/");
  return {
    name: "packed files",
    transform(code, id) {
      const found = finds.find(({ by }) => by.test(id));
      if (!found) return undefined;
      const [all, what] = found.how.exec(code) ?? [];
      if (all === undefined) throw new Error(`${id} holds or names no WebAssembly any more`);
      const file = found.read(what, id);
      packed.set(file.name, file);
      const isScript = id.endsWith(".js");
      const call = `${isScript ? `require("${unpack}").` : ""}unpack("${file.name}")`;
      const mended = code.replace(all, () => found.become(call));
      return isScript ? mended : `import { unpack } from "${unpack}";\n${mended}`;
    },
  };
}

/** Loaded with the first request, and bundled by itself, for both the program and the library. */
export const http = {
  name: "http",
  resolveId(source, importer) {
    const isLoaded = importer !== undefined && /\/undici-fetch\.ts$/.test(source);
    return isLoaded ? { id: "./undici-http.cjs", external: true } : undefined;
  },
};

/** What packages load and never use here: undici HTTP/2 and the bodies of forms, commander programs for subcommands. */
const unused = [
  { by: "undici", what: /client-h2\.js$|web\/fetch\/body\.js$/ },
  { by: "commander", what: /^node:child_process$/ },
];

/** What undici asks of them, in little: Node's own take 4 ms to load, and no other part of the program needs them. */
const inLittle = {
  "node:assert": `
    module.exports = (value, message) => {
      if (!value) throw Object.assign(message instanceof Error ? message : new Error(message), { code: "ERR_ASSERTION" });
    };`,
  // No body here is a message, and the limit is Node's own, unless it is told another.
  "node:http": `
    const told = [process.env.NODE_OPTIONS, ...process.execArgv].join(" ");
    module.exports = /max.http.header.size/.test(told)
      ? require("node:http")
      : { maxHeaderSize: 16384, IncomingMessage: class {} };`,
};

function isIn(name, file) {
  return file.includes(`${sep}node_modules${sep}${name}${sep}`);
}

export const withoutUnused = {
  name: "without what is unused",
  async resolveId(source, importer = "") {
    if (unused.some(({ by, what }) => isIn(by, importer) && what.test(source))) return `\0unused:${source}`;
    if (isIn("undici", importer) && Object.hasOwn(inLittle, source)) return `\0in little:${source}`;
    // The parser once more, for processors with SIMD.
    if (/llhttp_simd-wasm\.js$/.test(source)) return this.resolve(source.replace("_simd", ""), importer);
    return undefined;
  },
  transform(code, id) {
    if (isIn("undici", id) && /\bassert\.\w/.test(code))
      throw new Error(`${id} asks more of node:assert than there is`);
  },
  load(id) {
    const [, kind, source] = /^\0(unused|in little):(.*)/.exec(id) ?? [];
    if (kind === "unused") return "module.exports = {}";
    return kind === undefined ? undefined : inLittle[source];
  },
};

/** What undici's client reads of the constants of its parser, as it comes out: to work out all of them takes half a millisecond. */
export const fewConstants = {
  name: "few constants",
  load(id) {
    if (!/undici[\\/]lib[\\/]llhttp[\\/]constants\.js$/.test(id)) return undefined;
    const { ERROR, TYPE } = require(id);
    return `module.exports = ${JSON.stringify({ ERROR, TYPE })}`;
  },
  transform(code, id) {
    const read = isIn("undici", id) ? code.matchAll(/\bconstants\.(?!js\b)(\w+)/g) : [];
    for (const [, name] of read)
      if (!["ERROR", "TYPE"].includes(name)) throw new Error(`${id} reads more constants: ${name}`);
  },
};

/**
 * A module of CommonJS runs as soon as it is loaded: V8 is told so in the way it knows, a function in parentheses. Otherwise it reads all of
 * it twice, for 4 ms of `status`; for arrow functions its versions in Node 20 to 24 do not look at parentheses.
 */
export const readOnce = {
  name: "read once",
  renderChunk(code) {
    const mended = code.replace(/(?<=__commonJSMin\(\()\(((?:\w+(?:, )?)*)\) => \{/g, "function($1) {");
    if (/__commonJSMin\(\((?!function)/.test(mended)) throw new Error("the bundler wraps modules in another way");
    return mended;
  },
};

/**
 * A server that closes while its reply is still being read makes undici 7 throw where nobody can catch it, and the reply never end
 * (nodejs/undici#5360, mended in 8 alone): here it is read to its end instead.
 */
export const pausedParser = {
  name: "paused parser",
  transform(code, id) {
    if (!/undici[\\/]lib[\\/]dispatcher[\\/]client-h1\.js$/.test(id)) return undefined;
    const wake = "this.paused = false; this.llhttp.llhttp_resume(this.ptr)";
    // What it held back comes first; that may pause it once more.
    const goOn = `if (this.paused) { ${wake}; this.execute(EMPTY_BUF); if (this.paused) { ${wake} } }`;
    const mended = code.replace(/(\n {2}finish \(\) \{[^}]*?)assert\(!this\.paused\)/, `$1${goOn}`);
    if (mended === code) throw new Error(`${id} no longer asserts that its parser is not paused`);
    return mended;
  },
};

/** `process` as it is: imported as a module it is wrapped, which defines every one of its properties anew. */
export const plainProcess = {
  name: "plain process",
  resolveId: (id, _, { kind }) => (id === "node:process" && kind === "import-statement" ? "\0process" : undefined),
  load: (id) => (id === "\0process" ? "export default globalThis.process;" : undefined),
};

/** Each file begins with a comment that tells its text from any other, so that bin/vidgen.cjs knows what was compiled of it. */
export const stamped = {
  name: "stamped",
  generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle))
      chunk.code = `// ${createHash("sha256").update(chunk.code).digest("hex")}\n${chunk.code}`;
  },
};
