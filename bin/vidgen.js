#!/usr/bin/env node
// Every Node from 12 on can read this file, and says in one line what is wrong; the rest is loaded after that.
const [major, minor, patch] = process.versions.node.split(".").map(Number);
const isOld = major < 20 || (major === 20 && (minor < 18 || (minor === 18 && patch < 1)));

if (isOld) {
  process.stderr.write(`error: vidgen needs Node 20.18.1 or later; this is ${process.versions.node}.\n`);
  process.exitCode = 1;
} else {
  run();
}

async function run() {
  const { enableCompileCache } = await import("node:module");
  if (enableCompileCache) enableCompileCache();
  const { systemIo } = await import("../dist/io.js");
  const io = systemIo();
  const { main } = await import("../dist/main.js");
  // Should the process ever end by itself, with nothing left to wait for, then not as if all were well.
  process.exitCode = 1;
  // Ends here even if a socket or a worker is still open: main has flushed what it wrote.
  process.exit(await main(process.argv.slice(2), io));
}
