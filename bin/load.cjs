// Loads the files of dist/, with what V8 compiled of them in earlier runs: that saves a fifth of the time of `status`. Node's own cache (22 and
// later) holds none of the functions that are compiled when they are first called, which are most.
const {
  closeSync,
  fsyncSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
} = require("node:fs");
const { isAbsolute, join, resolve } = require("node:path");
const { Script } = require("node:vm");

const { arch, env, platform, version } = process;
const dist = resolve(__dirname, "../dist");
const folder = env.NODE_DISABLE_COMPILE_CACHE ? undefined : cacheFolder();
const loaded = new Map();

/** Returns the exports of a file of dist/, which is run but once. */
exports.load = function load(name) {
  const known = loaded.get(name);
  if (known) return known.module.exports;
  const filename = join(dist, name);
  let source;
  try {
    source = readFileSync(filename, "utf8");
  } catch (_) {
    // It knows how to say so.
    return require(filename);
  }
  // The build begins each file with a comment that no other text has.
  const stamp = `${source.slice(0, source.indexOf("\n"))} ${version} ${arch}`;
  const cachedData = readCompiled(name, stamp);
  const wrapped = `(function (exports, require, module, __filename, __dirname) {${source}\n})`;
  const script = new Script(wrapped, { filename, cachedData });
  const isKept = cachedData !== undefined && !script.cachedDataRejected;
  const module = { exports: {} };
  loaded.set(name, { module, script, stamp, isKept });
  const requireFrom = (id) => (id.startsWith("./") ? load(id.slice(2)) : require(id));
  script.runInThisContext()(module.exports, requireFrom, module, filename, dist);
  return module.exports;
};

/** Writes down what was compiled, if a file was loaded that was not yet. Where that is not possible the next run compiles it again. */
exports.keepCompiled = () => {
  if (folder === undefined || [...loaded.values()].every(({ isKept }) => isKept)) return;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const [name, { script, stamp }] of loaded) writeCompiled(name, script.createCachedData(), stamp);
  } catch (_) {}
};

/** V8 would run what it is given: it must be of this text, of this Node, whole, and this user's own. */
function readCompiled(name, stamp) {
  if (folder === undefined) return undefined;
  let file;
  try {
    file = openSync(join(folder, name), "r");
    if (process.getuid && fstatSync(file).uid !== process.getuid()) return undefined;
    const data = readFileSync(file);
    const end = data.length - Buffer.byteLength(stamp);
    return data.toString("latin1", end) === stamp ? data.subarray(0, end) : undefined;
  } catch (_) {
    return undefined;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** The stamp comes last, and the name once all is on the disk. */
function writeCompiled(name, data, stamp) {
  const part = join(folder, `${name}.${process.pid}.part`);
  const file = openSync(part, "wx", 0o600);
  try {
    writeFileSync(file, Buffer.concat([data, Buffer.from(stamp)]));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(part, join(folder, name));
}

function cacheFolder() {
  if (env.VIDGEN_HOME) return join(env.VIDGEN_HOME, "compiled");
  const home = env.HOME || env.USERPROFILE || "";
  const xdg = env.XDG_CACHE_HOME || "";
  const linux = isAbsolute(xdg) ? xdg : join(home, ".cache");
  const bases = { darwin: join(home, "Library/Caches"), win32: env.LOCALAPPDATA || join(home, "AppData/Local") };
  const base = bases[platform] || linux;
  return isAbsolute(base) ? join(base, "vidgen/compiled") : undefined;
}
