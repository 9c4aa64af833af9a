import type { EventEmitter } from "node:events";
import process from "node:process";
import { systemIo } from "../src/cli/system.ts";
import type { Io } from "../src/io.ts";

type Listener = (...args: unknown[]) => void;

/** Returns the real `Io`, and a function that takes away what it has made the process of the tests listen for. */
export function openRealIo(): { io: Io; close: () => void } {
  const listened: [EventEmitter, string][] = [
    ...["SIGINT", "SIGTERM", "SIGHUP", "uncaughtException"].map((event): [EventEmitter, string] => [process, event]),
    [process.stdout, "error"],
    [process.stderr, "error"],
  ];
  const places = listened.map(([emitter, event]) => ({ emitter, event, before: emitter.listeners(event) }));
  const io = systemIo();
  const close = () => {
    for (const { emitter, event, before } of places)
      for (const listener of emitter.listeners(event))
        if (!before.includes(listener)) emitter.removeListener(event, listener as Listener);
  };
  return { io, close };
}

/** The real `Io`, which listens for nothing: else an uncaught error in any later test would end the process, and vitest could not name its file. */
export function realIo(): Io {
  const { io, close } = openRealIo();
  close();
  return io;
}
