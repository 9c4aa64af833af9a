import { VidgenError } from "../../errors.ts";
import type { Clock } from "../../io.ts";
import type { Entry } from "../ledger/history.ts";
import type { Hold, Journal } from "../ledger/journal.ts";
import { findById } from "../ledger/search.ts";
import { isExistsError } from "./files.ts";
import type { Claimed, ClaimOptions, Target, Targets } from "./target.ts";

export type WaitOptions = {
  /** How long to wait for the end, in milliseconds, 15 minutes by default; for another process at most 15 minutes. */
  timeoutMs?: number | undefined;
  signal: AbortSignal;
};

type Waiting = WaitOptions & {
  note(text: string): void;
  /** Of the error at the end of the time. */
  message: string;
};

/** How often a start looks again at what another process does, and how long at most. */
const pollMs = 250;
const longestWaitMs = 15 * 60_000;
const waitingNote =
  "Another process has started the same request or is saving to the same file. Waiting for it; nothing is sent meanwhile.";

/** Looks every 250 ms until a look returns something: `looks` counts from 1. Throws `pending` at the end of the time, or the signal's reason. */
export async function untilFree<Result>(
  look: (looks: number) => Promise<Result | undefined>,
  { timeoutMs = longestWaitMs, signal, note, message }: Waiting,
  io: Pick<Clock, "now" | "sleep">,
): Promise<Result> {
  const end = io.now() + Math.min(timeoutMs, longestWaitMs);
  for (let looks = 1; ; looks++) {
    const found = await look(looks);
    if (found !== undefined) return found;
    if (io.now() >= end) throw new VidgenError("pending", message);
    if (looks === 2) note(waitingNote);
    await io.sleep(pollMs, signal);
  }
}

/** Where attempts are kept, and the videos that they are for. */
export type Places = {
  journal: Pick<Journal, "append" | "scan" | "hold">;
  /** What is known of a generation without a look into the journal. */
  recall(id: string): Entry | undefined;
  targets: Targets;
  note(text: string): void;
};

/**
 * Claims the place for the video of a generation that exists, waiting for a process that has it; or finds that video there. Throws as
 * `Targets.claim` does, `pending` when the other process still has the place, or the signal's reason.
 */
export async function claimPlace(
  outputPath: string,
  claiming: ClaimOptions & WaitOptions & { entry: Entry | undefined },
  places: Places,
  io: Pick<Clock, "now" | "sleep">,
): Promise<Claimed> {
  const { journal, recall, targets, note } = places;
  const { entry, timeoutMs, signal } = claiming;
  const find = async () => {
    if (entry?.id === undefined) return undefined;
    const { id, attempt } = entry;
    // In the journal as it is by now: another process may save it at any time.
    const known = recall(id) ?? (await findById(journal, id).catch(() => [])).find((each) => each.attempt === attempt);
    const saved = known && { ...known, id };
    const file = saved && (await targets.findSaved(saved, outputPath, claiming.first));
    if (saved === undefined || file === undefined) return undefined;
    await targets.recordSaved(saved, file);
    await clear(saved, places);
    return file;
  };
  // Asked first: with `{n}` a claim passes over the name that the video has.
  const saved = outputPath.includes("{n}") ? await find() : undefined;
  if (saved !== undefined) return { file: saved };
  const waiting = { timeoutMs, signal, note, message: `Another process is still saving to ${outputPath}.` };
  try {
    return { target: await untilFree(() => targets.claim(outputPath, claiming), waiting, io) };
  } catch (error) {
    const file = isExistsError(error) ? await find() : undefined;
    if (file === undefined) throw error;
    return { file };
  }
}

/** Writes down that no later start looks at an attempt, and removes what its process has left. */
export async function dismiss(
  entry: Pick<Entry, "attempt" | "parts">,
  places: Pick<Places, "journal"> & Left,
): Promise<void> {
  await places.journal.append({ kind: "dismissed", attempt: entry.attempt });
  await clear(entry, places);
}

type Left = { journal: Pick<Journal, "hold">; targets: Pick<Targets, "clear"> };

/** Removes the lease and the partial files that dead processes have left of an attempt that has ended. Never rejects. */
export async function clear(entry: Pick<Entry, "attempt" | "parts">, { journal, targets }: Left): Promise<void> {
  await targets.clear(entry);
  await journal.hold(entry.attempt).then(
    (held) => held?.release(),
    () => {},
  );
}

/** Returns what releases the place and then the attempt, once. */
export function releaseOf(target: Target | undefined, hold?: Hold): () => Promise<void> {
  let released: Promise<void> | undefined;
  const release = async () => {
    await target?.release();
    await hold?.release();
  };
  return () => {
    released ??= release();
    return released;
  };
}
