import type { Entry } from "../client/ledger/history.ts";
import type { Journal } from "../client/ledger/journal.ts";
import { isStarted, type StartedEntry } from "../client/ledger/policy.ts";
import { findStarted } from "../client/ledger/search.ts";
import type { FrameSource } from "../connect/frames.ts";
import type { Services } from "../connect/services.ts";
import { usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { findLast, locateGenerations } from "./generations.ts";
import { findByFile, isVideoFile, lastWord } from "./saved-file.ts";

/**
 * The source that `--from` names: a generation, by its id or "last", or the file of any video. `ownAttempt`
 * is the attempt that this command resumes. Throws `usage`, and `not_found` for "last".
 */
export async function findFrameSource(
  typed: string,
  ownAttempt: Entry | undefined,
  services: Services,
  io: Io,
): Promise<FrameSource> {
  if (typed === "") throw usage("--from is empty.");
  if (await isVideoFile(typed, io)) {
    const entry = await findByFile(typed, services.journal, io);
    return { file: typed, id: entry?.id };
  }
  if (typed !== lastWord) {
    const { id, entry, open } = await (await locateGenerations({}, services, io)).findForChange(typed);
    return { id, entry, open };
  }
  const { journal } = services;
  const entry = await (ownAttempt
    ? resolveLast(ownAttempt, ownAttempt.from, journal)
    : findLast(journal, mayHaveVideo));
  return { id: entry.id, entry, open: () => services.open(entry.base_url) };
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
  const open = () => Promise.reject(new Error("no service is needed"));
  const findById = async () => (await locateGenerations({}, { journal, open }, io)).findForChange(typed);
  const entry = isFile ? await findByFile(typed, journal, io) : (await findById()).entry;
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
