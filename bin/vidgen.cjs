#!/usr/bin/env node
// Every Node from 12 on can read this file, and says in one line what is wrong; the rest is loaded after that.
const { arch, argv, env, platform, version, versions } = process;
const [major, minor, patch] = versions.node.split(".").map(Number);
const isOld = major < 20 || (major === 20 && (minor < 18 || (minor === 18 && patch < 1)));
// Before 14.18 nothing has a name that begins with "node:".
const fs = isOld ? {} : require("node:fs");
const { dirname, isAbsolute, join, resolve } = isOld ? {} : require("node:path");
const { Script } = isOld ? {} : require("node:vm");
/** What the build adds to the name of a file: of each file one text is kept. */
const buildHash = /-[\w-]{8}(?=\.cjs$)/;

if (isOld) {
  process.stderr.write(`error: vidgen needs Node 20.18.1 or later; this is ${versions.node}.\n`);
  process.exitCode = 1;
} else if (!isVersionPrinted(argv.slice(2))) {
  run();
}

/** For `--version` alone all of the program would be loaded for one word. Where it cannot be written, the program finds out why. */
function isVersionPrinted(words) {
  if (words.length !== 1 || words[0] !== "--version") return false;
  try {
    return fs.writeSync(1, `${require("../package.json").version}\n`) > 0;
  } catch (_) {
    return false;
  }
}

async function run() {
  const { load, keepCompiled } = createLoader();
  const { main, systemIo } = loadProgram(load);
  const io = systemIo();
  // Should the process ever end by itself, with nothing left to wait for, then not as if all were well.
  process.exitCode = 1;
  const code = await main(argv.slice(2), io);
  // Who interrupts does not wait for this.
  if (code < 128) keepCompiled();
  // Ends here even if a socket or a worker is still open: main has flushed what it wrote.
  process.exit(code);
}

/** Where even that is missing, nobody is there yet to say so. */
function loadProgram(load) {
  try {
    return load("cli.cjs");
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
    process.stderr.write(
      `error: Nothing was sent: ${error.message}\n  Install vidgen again; in a clone, npm run build.\n`,
    );
    process.exit(1);
  }
}

/**
 * Loads the files of dist/, with what V8 compiled of them in earlier runs: that saves a fifth of the time of `status`. Node's own cache (22 and
 * later) holds none of the functions that are compiled when they are first called, which are most.
 */
function createLoader() {
  const dist = resolve(__dirname, "../dist");
  // With sudo the home may be somebody else's.
  const folder = env.NODE_DISABLE_COMPILE_CACHE || env.SUDO_UID ? undefined : cacheFolder();
  const loaded = new Map();

  /** Returns the exports of a file of dist/, which is run but once. */
  function load(name) {
    const known = loaded.get(name);
    if (known) return known.module.exports;
    const filename = join(dist, name);
    let source;
    try {
      source = fs.readFileSync(filename, "utf8");
    } catch (cause) {
      const message = `a part of vidgen cannot be read, as if it was replaced or removed: ${cause.message}`;
      throw Object.assign(new Error(message), { code: "MODULE_NOT_FOUND", cause });
    }
    // The build begins each file with a comment that no other text has.
    const stamp = `${source.slice(0, source.indexOf("\n"))} ${version} ${arch}`;
    const path = folder && join(folder, name.replace(buildHash, ""));
    const cachedData = path && readCompiled(path, stamp);
    const wrapped = `(function (exports, require, module, __filename, __dirname) {${source}\n})`;
    const script = new Script(wrapped, { filename, cachedData });
    const isKept = cachedData !== undefined && !script.cachedDataRejected;
    const module = { exports: {} };
    loaded.set(name, { module, script, stamp, path, isKept });
    const requireFrom = (id) => (id.startsWith("./") ? load(id.slice(2)) : require(id));
    script.runInThisContext()(module.exports, requireFrom, module, filename, dist);
    return module.exports;
  }

  /** Writes down what was compiled, if a file was loaded that was not yet. Where that is not possible the next run compiles it again. */
  function keepCompiled() {
    if (folder === undefined || [...loaded.values()].every(({ isKept }) => isKept)) return;
    try {
      makeFolder(folder);
      for (const { script, stamp, path } of loaded.values()) {
        const data = script.createCachedData();
        writeWhole(path, Buffer.concat([data, data, Buffer.from(stamp)]));
      }
    } catch (_) {}
  }

  return { load, keepCompiled };
}

/**
 * V8 would run what it is given, and crash: it must be of this text, of this Node, as it was written, and this user's own. It is there twice, as
 * the two are compared sooner than Node has loaded anything that makes a checksum.
 */
function readCompiled(path, stamp) {
  let file;
  try {
    file = fs.openSync(path, "r");
    if (process.getuid && fs.fstatSync(file).uid !== process.getuid()) return undefined;
    const data = fs.readFileSync(file);
    const end = data.length - stamp.length;
    const [one, other] = [data.subarray(0, end / 2), data.subarray(end / 2, end)];
    return data.toString("latin1", end) === stamp && one.equals(other) ? one : undefined;
  } catch (_) {
    return undefined;
  } finally {
    if (file !== undefined) fs.closeSync(file);
  }
}

/** Not by `recursive`, which tries for ever where /proc is. */
function makeFolder(folder) {
  for (const each of [dirname(dirname(folder)), dirname(folder), folder]) {
    try {
      fs.mkdirSync(each, 0o700);
    } catch (_) {}
  }
}

/** It has its name once all of it is on the disk. */
function writeWhole(path, data) {
  const part = `${path}.${process.pid}.part`;
  try {
    fs.writeFileSync(part, data, { flag: "wx", mode: 0o600, flush: true });
    fs.renameSync(part, path);
  } catch (error) {
    fs.unlinkSync(part);
    throw error;
  }
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
