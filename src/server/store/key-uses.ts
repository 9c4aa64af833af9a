/** How often the last use of a key is written. */
const writeMs = 60_000;

/**
 * Returns a function that records that a key is used. It writes at most once a minute for each key, also with other processes, and no request waits
 * for the write. A write that fails is not retried; the next use after a minute is written.
 */
export function createKeyUses(write: (keyHash: string, use: { at: string; since: string }) => Promise<void>) {
  const writtenAt = new Map<string, number>();
  return (keyHash: string, date: Date): void => {
    const now = date.getTime();
    for (const [hash, ms] of writtenAt) {
      if (Math.abs(now - ms) < writeMs) break;
      writtenAt.delete(hash);
    }
    if (writtenAt.has(keyHash)) return;
    writtenAt.set(keyHash, now);
    const since = new Date(now - writeMs).toISOString();
    void write(keyHash, { at: date.toISOString(), since }).catch(() => {});
  };
}
