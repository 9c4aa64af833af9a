#!/usr/bin/env node
// Node 12 and later can read this file, so that an old Node gets one line of error; the program is loaded after that.
const { argv, versions } = process;
const [major, minor] = versions.node.split(".").map(Number);
const isOld = major < 20 || (major === 20 && minor < 19);
// The exit code until the program sets its own: a process that ends before that has failed.
process.exitCode = 1;

if (isOld) process.stderr.write(`error: vidgen needs Node 20.19 or later; this is ${versions.node}.\n`);
else load();

function load() {
  // Node reads the source map of a module when it loads the module.
  if (argv.includes("--verbose") || argv.includes("-v")) process.setSourceMapsEnabled(true);
  const run = async ({ main, systemIo, endProcess }) => endProcess(await main(argv.slice(2), systemIo()));
  try {
    run(require("../dist/cli.cjs"));
  } catch ({ message }) {
    const { existsSync } = require("node:fs");
    const root = require("node:path").dirname(__dirname);
    const [reason] = message.split("\n");
    const isUnbuilt = existsSync(`${root}/src/build.mjs`) && !existsSync(`${root}/dist/cli.cjs`);
    process.stderr.write(
      isUnbuilt
        ? `error: vidgen is not built yet. Build it with: cd "${root}" && npm ci && npm run build\n`
        : `error: Cannot load vidgen: ${reason}. Nothing was sent.\n  Reinstall vidgen; an installation from git needs npm's scripts.\n`,
    );
  }
}
