import process from "node:process";
import { systemIo } from "../src/cli/system.ts";
import type { Io } from "../src/io.ts";
import { watchListeners } from "./listeners.ts";

/** Returns the real `Io`, and a function that removes its listeners from the process of the tests. */
export function openRealIo(): { io: Io; close: () => void } {
  const close = watchListeners([
    [process, "SIGINT"],
    [process, "SIGTERM"],
    [process, "SIGHUP"],
    [process, "uncaughtException"],
    [process.stdout, "error"],
    [process.stderr, "error"],
  ]);
  return { io: systemIo(), close };
}

/** The real `Io` without its listeners: with them, an uncaught error in any later test would end the process, and vitest could not name its file. */
export function realIo(): Io {
  const { io, close } = openRealIo();
  close();
  return io;
}
