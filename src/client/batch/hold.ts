import { systemCode, usage } from "../../errors.ts";
import { acquireLease, type Lease, type LeaseIo, readHolder } from "../../lease.ts";
import { lockOf, readError, readResults, resultsError } from "./results.ts";
import { areDisjoint } from "./rows-file.ts";

type HoldOptions = { io: LeaseIo; onNote(text: string): void };

/** Holds a results file. Throws `usage` when another process does, and `output` when that cannot be written down. */
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
 * Throws `usage` while a process runs that has rows of this run too, under another results file. Each run writes down its part of the rows
 * before it looks for others, so that of two at the same time at least one sees the other.
 */
export async function checkAlone(paths: Iterable<string>, shard: string | null, how: HoldOptions): Promise<void> {
  for (const path of paths) {
    const holder = await readHolder(lockOf(path), how.io).catch((cause) => {
      throw readError(lockOf(path), cause);
    });
    if (holder === undefined) continue;
    const { source } = await readResults(path, how.io.disk);
    if (source && areDisjoint(source.shard, shard)) continue;
    // This waits until it is sure, and finds a lease that is stale.
    const lease = await holdResults(path, how);
    await lease.release();
  }
}
