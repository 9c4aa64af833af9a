import type { Claim } from "../store/claims.ts";
import type { Slot } from "./slots.ts";

type WaitingJob = { claimed: Claim; give?: (slot: Slot | undefined) => void };

/** Creates the list of the jobs without a slot: their images are being fetched, or they have their images and wait for a slot. */
export function createWaitlist() {
  const entries = new Map<string, WaitingJob>();
  const give = (id: string, slot: Slot | undefined): boolean => {
    const entry = entries.get(id);
    entry?.give?.(slot);
    entries.delete(id);
    return entry?.give !== undefined;
  };
  return {
    add: (claimed: Claim) => void entries.set(claimed.id, { claimed }),
    allJobs: (): Claim[] => [...entries.values()].map(({ claimed }) => claimed),
    /** The jobs that have their images. */
    fetchedJobs: (): Claim[] => [...entries.values()].filter((entry) => entry.give).map(({ claimed }) => claimed),
    /** Resolves with the slot that a job is given; with `undefined` if the job is left to other processes, or for later, or `signal` aborts. */
    wait: (id: string, signal: AbortSignal) =>
      new Promise<Slot | undefined>((resolve) => {
        const entry = entries.get(id);
        if (!entry || signal.aborted) return resolve(undefined);
        entry.give = resolve;
        signal.addEventListener("abort", () => give(id, undefined), { once: true });
      }),
    /** Returns whether the job was waiting. */
    give,
    remove: (id: string) => void entries.delete(id),
  };
}
