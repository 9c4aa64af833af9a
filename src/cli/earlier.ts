import { hashFile } from "../client/ledger/content.ts";
import { type DatedLine, type Entry, isUnfinished } from "../client/ledger/history.ts";
import type { Journal } from "../client/ledger/journal.ts";
import { isStarted, isTakeDone, type StartedEntry } from "../client/ledger/policy.ts";
import type { FrameSource } from "../connect/frames.ts";
import type { Services } from "../connect/services.ts";
import { asVidgenError, systemReason, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { findLast, last, locateGenerations } from "./generations.ts";

/** The command line that names a video: what it asks for, as far as that is known, and whether it takes finished ones too. */
export type FromLine = { prompt: string | undefined; reuse?: boolean };

/** What `--from` names: a generation, by its id or "last", or the file of any video. Throws `usage`, and `not_found` for "last". */
export async function findFrameSource(typed: string, line: FromLine, services: Services, io: Io): Promise<FrameSource> {
  if (typed === "") throw usage("--from is empty.");
  if (await isVideoFile(typed, io)) {
    const entry = await findByFile(typed, services.journal, io).catch((error) => {
      if (asVidgenError(error).code !== "not_found") throw error;
    });
    return { file: typed, id: entry?.id };
  }
  if (typed !== last) {
    const { id, entry, open } = await (await locateGenerations({}, services, io)).findForChange(typed);
    return { id, entry, open };
  }
  const { prompt, reuse = false } = line;
  const { journal } = services;
  const entry = await findNewest(journal, mayHaveVideo, async ({ from, request }, isLeft) => {
    const isSameLine = prompt === undefined || request.prompt === prompt;
    return from !== undefined && isSameLine && (reuse || isLeft) ? findById(from, journal) : undefined;
  });
  return { id: entry.id, entry, open: () => services.open(entry.base_url) };
}

function mayHaveVideo(entry: Entry): entry is StartedEntry {
  return isStarted(entry) && !["failed", "refused", "unsent"].includes(entry.state);
}

/** A word with a slash, or the ending of a video, is no id. */
export async function isVideoFile(typed: string, { disk }: Pick<Io, "disk">): Promise<boolean> {
  if (/\.(mp4|mov|mkv|webm)$|[/\\]/i.test(typed)) return true;
  return (
    typed !== last &&
    (await disk.stat(typed).then(
      (found) => found.isFile(),
      () => false,
    ))
  );
}

/** Returns the generation that "last" means instead of this attempt, because the attempt repeats or continues it; else `undefined`. */
type StandsFor = (entry: Entry, isLeft: boolean) => Promise<StartedEntry | undefined>;

/**
 * The newest generation among those that are meant, for a command with "last" in it. If this command has started that one itself, and would resume it, "last" means the
 * earlier one: otherwise the same command would start, and pay for, another generation. Throws `not_found` if there is none.
 */
export async function findNewest(
  journal: Journal,
  isMeant: (entry: Entry) => entry is StartedEntry,
  standsFor: StandsFor,
): Promise<StartedEntry> {
  const entries = await journal.entries((part) => !part.some(isMeant));
  for (const entry of entries) {
    const earlier = await standsFor(entry, isLeft(entry, entries));
    if (earlier) return earlier;
    if (isMeant(entry)) return entry;
  }
  return findLast(journal, isMeant);
}

/** Whether the same command would resume an attempt, or another one of its run. */
function isLeft(entry: Entry, entries: readonly Entry[]): boolean {
  if (entry.run === undefined) return isUnfinished(entry);
  const done = entries.filter((each) => each.run === entry.run && isTakeDone(each));
  return new Set(done.map(({ position }) => position)).size < (entry.count ?? 0);
}

/** The generation whose video has the content of this file, whatever its name is now. */
export async function findByFile(path: string, journal: Journal, { disk, signal }: Io): Promise<StartedEntry> {
  const file = await disk.open(path, "r").catch((error) => {
    throw usage(`Cannot read the video ${path}: ${systemReason(error, { ENOENT: "there is no such file" })}.`);
  });
  const sha256 = await hashFile(file, signal)
    .then((hash) => hash.digest("hex"))
    .finally(() => file.close());
  const isOfVideo = (line: DatedLine): line is DatedLine & { kind: "downloaded" | "delivered" } =>
    (line.kind === "downloaded" || line.kind === "delivered") && line.sha256 === sha256;
  const line = await journal.findLast(isOfVideo);
  return line === undefined ? unknownError(`generation with the video ${path}`) : findById(line.id, journal);
}

async function findById(id: string, journal: Journal): Promise<StartedEntry> {
  return (await journal.entriesOf(id)).find(isStarted) ?? unknownError(`generation ${id}`);
}

export function unknownError(what: string): never {
  throw new VidgenError(
    "not_found",
    `The journal has no ${what}, and only the journal has its request. Nothing was sent.`,
    {
      hint: "`vidgen list` shows what was started here; `vidgen generate` starts a new one.",
    },
  );
}
