import type { EventEmitter } from "node:events";
import process from "node:process";

// The loader of the video encoder makes its process throw at every uncaught error and unhandled rejection. That would end a worker of vitest with all
// the files that it still has, and no test would be named: what it adds is removed again, once for each worker.
const emitter: EventEmitter = process;
const places = ["uncaughtException", "unhandledRejection"].map((event) => ({
  event,
  before: emitter.listeners(event),
}));
await import("h264-mp4-encoder");
for (const { event, before } of places)
  for (const listener of emitter.listeners(event))
    if (!before.includes(listener)) emitter.removeListener(event, listener as () => void);
