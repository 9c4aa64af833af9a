import process from "node:process";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Bytes of arrays, in use or not, that a thread may have when it has rendered a clip: several frames. */
const mostArrays = 16_000_000;

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

/**
 * Gives back the frames that this thread has done with. By itself V8 looks for them only once a thread has 64 MB, and there is a thread for
 * each core; it takes 10 ms.
 */
export function freeFrames(): void {
  if (process.memoryUsage().arrayBuffers > mostArrays) collectGarbage();
}
