#!/usr/bin/env node
import module from "node:module";
import process from "node:process";

module.enableCompileCache?.();

const { systemIo } = await import("../dist/io.js");
const io = systemIo();
const { main } = await import("../dist/main.js");
// Should the process ever end by itself, with nothing left to wait for, then not as if all were well.
process.exitCode = 1;
// Ends here even if a socket or a worker is still open: main has flushed what it wrote.
process.exit(await main(process.argv.slice(2), io));
