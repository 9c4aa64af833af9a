#!/usr/bin/env node
// Every Node from 12 on can read this file, and says in one line what is wrong; the rest is loaded after that.
const { writeSync } = require("node:fs");

const [major, minor, patch] = process.versions.node.split(".").map(Number);
const isOld = major < 20 || (major === 20 && (minor < 18 || (minor === 18 && patch < 1)));

if (isOld) {
  process.stderr.write(`error: vidgen needs Node 20.18.1 or later; this is ${process.versions.node}.\n`);
  process.exitCode = 1;
} else if (!isVersionPrinted(process.argv.slice(2))) {
  run();
}

/** For `--version` alone all of the program would be loaded for one word. Where it cannot be written, the program finds out why. */
function isVersionPrinted(argv) {
  if (argv.length !== 1 || argv[0] !== "--version") return false;
  try {
    return writeSync(1, `${require("../package.json").version}\n`) > 0;
  } catch (_) {
    return false;
  }
}

async function run() {
  const { keepCompiled, load } = require("./load.cjs");
  const { main, systemIo } = load("cli.cjs");
  const io = systemIo();
  // Should the process ever end by itself, with nothing left to wait for, then not as if all were well.
  process.exitCode = 1;
  const code = await main(process.argv.slice(2), io);
  // Who interrupts does not wait for this.
  if (code < 128) keepCompiled();
  // Ends here even if a socket or a worker is still open: main has flushed what it wrote.
  process.exit(code);
}
