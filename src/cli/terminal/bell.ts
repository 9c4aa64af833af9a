import type { Io } from "../../io.ts";

/** A shorter one is sat out. */
const longMs = 15_000;

/** Waits, and with `isWanted` has the terminal ring where that took long, however it ended; a person's own Ctrl-C needs no bell. */
export async function ringAfter<Result>(isWanted: boolean, wait: () => Promise<Result>, io: Io): Promise<Result> {
  const start = io.now();
  try {
    return await wait();
  } finally {
    const isLong = io.now() - start > longMs;
    if (isWanted && isLong && io.stderr.isTTY && !io.signal.aborted) io.stderr.write("\u0007");
  }
}
