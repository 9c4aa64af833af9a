import type { Entry } from "../client/ledger/history.ts";
import type { Journal } from "../client/ledger/journal.ts";
import { isStarted, type StartedEntry } from "../client/ledger/policy.ts";
import { findStarted } from "../client/ledger/search.ts";
import { usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { findLast, locateGenerations } from "./generations.ts";
import { findByFile, isVideoFile, lastWord } from "./saved-file.ts";

/** The video that `--from` names: a file, with its generation if known, or a generation. */
export type NamedVideo = { file: string; id: string | undefined } | { id: string; entry: Entry | undefined };

/** A placeholder for the last frame of a video, in a request that is not sent yet. */
export const frameToCome = "data:image/png,frame";

/**
 * The video that `--from` names: a generation, by its id or "last", or the file of any video. `ownAttempt` is
 * the attempt that this command resumes. Throws `usage`, and `not_found` for "last".
 */
export async function findNamedVideo(
  typed: string,
  ownAttempt: Entry | undefined,
  journal: Journal,
  io: Io,
): Promise<NamedVideo> {
  if (typed === "") throw usage("--from is empty.");
  if (await isVideoFile(typed, io)) return { file: typed, id: (await findByFile(typed, journal, io))?.id };
  if (typed !== lastWord) return findById(typed, journal, io);
  const entry = await (ownAttempt
    ? resolveLast(ownAttempt, ownAttempt.from, journal)
    : findLast(journal, mayHaveVideo));
  return { id: entry.id, entry };
}

/** A generation by its id; without an entry if the journal does not have it. */
async function findById(typed: string, journal: Journal, io: Io) {
  const open = () => Promise.reject(new Error("no service is needed"));
  const { id, entry } = await (await locateGenerations({}, { journal, open }, io)).findForChange(typed);
  return { id, entry };
}

/**
 * Finds the generation that "last" meant when the same command ran before: its attempt recorded that id,
 * `sourceId`. Throws `not_found` if the journal no longer contains it.
 */
async function resolveLast(ownAttempt: Entry, sourceId: string | undefined, journal: Journal): Promise<StartedEntry> {
  if (sourceId === undefined) throw new Error("an attempt of a command with `last` has not recorded an id for it");
  const source = await findStarted(journal, sourceId);
  if (source === undefined) {
    const nextStep =
      ownAttempt.id === undefined
        ? `\`vidgen list --dismiss ${ownAttempt.attempt}\` closes it`
        : `\`vidgen wait ${ownAttempt.id}\` gets its video`;
    const hint = `The same command has an attempt that is ${ownAttempt.status}: ${nextStep}.`;
    throw notFoundError(`generation ${sourceId}`).with({ hint });
  }
  return source;
}

/**
 * The generation whose request is repeated. Throws `not_found` if the journal does not have it, because
 * nothing else records requests.
 */
export async function findParent(
  typed: string,
  ownAttempt: Entry | undefined,
  journal: Journal,
  io: Io,
): Promise<StartedEntry> {
  if (typed === "") throw usage("The id is empty.");
  if (typed === lastWord) return ownAttempt ? resolveLast(ownAttempt, ownAttempt.parent, journal) : findLast(journal);
  const isFile = await isVideoFile(typed, io);
  const entry = isFile ? await findByFile(typed, journal, io) : (await findById(typed, journal, io)).entry;
  if (entry === undefined) throw notFoundError(`generation ${isFile ? "with the video " : ""}${typed}`);
  return entry;
}

function mayHaveVideo(entry: Entry): entry is StartedEntry {
  return isStarted(entry) && !["failed", "refused", "unsent"].includes(entry.state);
}

function notFoundError(what: string): VidgenError {
  return new VidgenError(
    "not_found",
    `The journal has no ${what}, so vidgen does not know what to repeat or continue. Nothing was sent.`,
    {
      hint: "`vidgen list` shows what was started here; `vidgen generate` starts a new one.",
    },
  );
}
