import { systemCode, usage } from "../../errors.ts";
import { acquireLease, type Lease, type LeaseIo, readHolder } from "../../lease.ts";
import { lockOf, readError, readResults, resultsError } from "./results.ts";
import { areDisjoint } from "./rows-file.ts";

type HoldOptions = { io: LeaseIo; onNote(text: string): void };

/**
 * Acquires the lease of a results file. Throws `usage` while another process holds it, and `output` when it
 * cannot be written.
 */
export async function holdResults(path: string, { io, onNote }: HoldOptions): Promise<Lease> {
  const acquired = await acquireLease(lockOf(path), io, { onNote }).catch((cause) => {
    throw resultsError(path, cause);
  });
  if (acquired.kind === "acquired") {
    const { lease } = acquired;
    const confirm = () =>
      lease.confirm().catch((error) => {
        throw systemCode(error) === undefined ? error : resultsError(lockOf(path), error);
      });
    return { ...lease, confirm };
  }
  throw usage(
    `Process ${acquired.holder.pid} is already running this batch: it holds ${lockOf(path)}. Nothing was sent.`,
    "`vidgen batch status` with the results file shows its progress.",
  );
}

/**
 * Throws `usage` while another process runs the same rows with another results file. Each run records its rows
 * before it looks for other runs, so that of two concurrent runs at least one sees the other.
 */
export async function checkNoOtherRun(
  paths: Iterable<string>,
  shard: string | null,
  options: HoldOptions,
): Promise<void> {
  for (const path of paths) {
    const holder = await readHolder(lockOf(path), options.io).catch((cause) => {
      throw readError(lockOf(path), cause);
    });
    if (holder === undefined) continue;
    const { lastRun } = await readResults(path, options.io.disk);
    if (lastRun && areDisjoint(lastRun.shard, shard)) continue;
    // Throws if the holder is alive. A stale lease is acquired, and released again.
    const lease = await holdResults(path, options);
    await lease.release();
  }
}
