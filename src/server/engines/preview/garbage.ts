import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** What a thread may have beside its heap when it has rendered a clip, in bytes: 45 MB are the WebAssembly's, the rest arrays. */
const mostBeside = 62_000_000;

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

/**
 * Gives back the frames that this thread has done with. By itself V8 looks for them only once a thread has 64 MB, and there is a thread for
 * each core; it takes 10 ms.
 */
export function freeFrames(): void {
  if (getHeapStatistics().external_memory > mostBeside) collectGarbage();
}
