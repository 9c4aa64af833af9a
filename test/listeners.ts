import type { EventEmitter } from "node:events";
import process from "node:process";

type Listener = (...args: unknown[]) => void;

/** Returns a function that removes the listeners which were added since to these events. */
export function watchListeners(events: [EventEmitter, string][]): () => void {
  const places = events.map(([emitter, event]) => ({ emitter, event, before: emitter.listeners(event) }));
  return () => {
    for (const { emitter, event, before } of places)
      for (const listener of emitter.listeners(event))
        if (!before.includes(listener)) emitter.removeListener(event, listener as Listener);
  };
}

// The loader of the video encoder makes its process throw at every uncaught error and unhandled rejection. That would end a worker of vitest with all
// the files that it still has, and no test would be named: what it adds is removed again, once for each worker.
const restore = watchListeners([
  [process, "uncaughtException"],
  [process, "unhandledRejection"],
]);
await import("h264-mp4-encoder");
restore();
