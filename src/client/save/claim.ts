import { VidgenError } from "../../errors.ts";
import type { Clock } from "../../io.ts";
import type { Entry } from "../ledger/history.ts";
import type { AttemptLease, Journal } from "../ledger/journal.ts";
import { findById } from "../ledger/search.ts";
import { isExistsError } from "./files.ts";
import type { Claimed, ClaimOptions, Target, Targets } from "./target.ts";

export type WaitOptions = {
  /** How long to wait, in milliseconds, 15 minutes by default; for another process never longer than 15 minutes. */
  timeoutMs?: number | undefined;
  signal: AbortSignal;
};

type UntilFreeOptions = WaitOptions & {
  note(text: string): void;
  /** The message of the error at the timeout. */
  message: string;
};

/** How often a start checks whether the other process has ended, and for how long at most. */
const pollMs = 250;
const maxWaitMs = 15 * 60_000;
const waitingNote =
  "Another process has started the same request or is saving to the same file. Waiting for it; nothing is sent meanwhile.";

/**
 * Calls `tryOnce` every 250 ms until it returns a result; `tries` counts from 1. Throws `pending` at the
 * timeout, or the signal's reason.
 */
export async function waitUntilFree<Result>(
  tryOnce: (tries: number) => Promise<Result | undefined>,
  { timeoutMs = maxWaitMs, signal, note, message }: UntilFreeOptions,
  io: Pick<Clock, "now" | "sleep">,
): Promise<Result> {
  const end = io.now() + Math.min(timeoutMs, maxWaitMs);
  for (let tries = 1; ; tries++) {
    const found = await tryOnce(tries);
    if (found !== undefined) return found;
    if (io.now() >= end) throw new VidgenError("pending", message);
    if (tries === 2) note(waitingNote);
    await io.sleep(pollMs, signal);
  }
}

/** Access to attempts and to the files of their videos. */
export type ClaimDependencies = {
  journal: Pick<Journal, "append" | "scan" | "acquire">;
  /** The entry of a generation without reading the journal. */
  recall(id: string): Entry | undefined;
  targets: Targets;
  note(text: string): void;
};

/**
 * Claims the file for the video of an existing generation, waiting for a process that uses it; or finds the
 * video there. Throws as `Targets.claim` does, `pending` if the other process still uses the file, or the
 * signal's reason.
 */
export async function claimOutput(
  outputPath: string,
  claiming: ClaimOptions & WaitOptions & { entry: Entry | undefined },
  dependencies: ClaimDependencies,
  io: Pick<Clock, "now" | "sleep">,
): Promise<Claimed> {
  const { journal, recall, targets, note } = dependencies;
  const { entry, timeoutMs, signal } = claiming;
  const findSaved = async () => {
    if (entry?.id === undefined) return undefined;
    const { id, attempt } = entry;
    // Read from the journal each time, because another process may save the video at any moment.
    const known = recall(id) ?? (await findById(journal, id).catch(() => [])).find((each) => each.attempt === attempt);
    const saved = known && { ...known, id };
    const file = saved && (await targets.findSaved(saved, outputPath, claiming.first));
    if (saved === undefined || file === undefined) return undefined;
    await targets.recordSaved(saved, file);
    await removeLeftovers(saved, dependencies);
    return file;
  };
  // Checked first, because with `{n}` a claim would skip the existing file of the video.
  const savedFile = outputPath.includes("{n}") ? await findSaved() : undefined;
  if (savedFile !== undefined) return { file: savedFile };
  const waiting = { timeoutMs, signal, note, message: `Another process is still saving to ${outputPath}.` };
  try {
    return { target: await waitUntilFree(() => targets.claim(outputPath, claiming), waiting, io) };
  } catch (error) {
    const file = isExistsError(error) ? await findSaved() : undefined;
    if (file === undefined) throw error;
    return { file };
  }
}

/** Records that later starts ignore these attempts, all of them or none, and removes what their processes left. */
export async function dismiss(
  entries: readonly Pick<Entry, "attempt" | "parts">[],
  dependencies: Pick<ClaimDependencies, "journal"> & ClearDependencies,
): Promise<void> {
  if (entries.length === 0) return;
  await dependencies.journal.append(...entries.map(({ attempt }) => ({ kind: "dismissed" as const, attempt })));
  for (const entry of entries) await removeLeftovers(entry, dependencies);
}

type ClearDependencies = { journal: Pick<Journal, "acquire">; targets: Pick<Targets, "clear"> };

/** Removes the lease and partial files that dead processes left of an ended attempt. Never rejects. */
export async function removeLeftovers(
  entry: Pick<Entry, "attempt" | "parts">,
  { journal, targets }: ClearDependencies,
): Promise<void> {
  await targets.clear(entry);
  await journal.acquire(entry.attempt).then(
    (held) => held?.release(),
    () => {},
  );
}

/** Returns a function that releases the file and then the attempt, once. */
export function releaseOf(target: Target | undefined, lease?: AttemptLease): () => Promise<void> {
  let released: Promise<void> | undefined;
  const release = async () => {
    await target?.release();
    await lease?.release();
  };
  return () => {
    released ??= release();
    return released;
  };
}
