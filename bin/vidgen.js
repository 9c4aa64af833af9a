#!/usr/bin/env node
// Every Node from 12 on can read this file, and says in one line what is wrong; the rest is loaded after that.
const [major, minor, patch] = process.versions.node.split(".").map(Number);
const isOld = major < 20 || (major === 20 && (minor < 18 || (minor === 18 && patch < 1)));
// What they lack is `process.getBuiltinModule`.
const isBetween = major === 21 || (major === 22 && minor < 3);

if (isOld || isBetween) {
  process.stderr.write(`error: vidgen needs Node 20.18.1, or 22.3.0 or later; this is ${process.versions.node}.\n`);
  process.exitCode = 1;
} else {
  run();
}

async function run() {
  // Nothing is imported from Node: that reads every property of what is imported.
  const { enableCompileCache } = process.getBuiltinModule("node:module");
  if (enableCompileCache) enableCompileCache();
  const { main, systemIo } = await import("../dist/cli.js");
  const io = systemIo();
  // Should the process ever end by itself, with nothing left to wait for, then not as if all were well.
  process.exitCode = 1;
  // Ends here even if a socket or a worker is still open: main has flushed what it wrote.
  process.exit(await main(process.argv.slice(2), io));
}
