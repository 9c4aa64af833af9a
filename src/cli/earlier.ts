import type { Entry } from "../client/ledger/history.ts";
import type { Journal } from "../client/ledger/journal.ts";
import { isStarted, type StartedEntry } from "../client/ledger/policy.ts";
import { findById } from "../client/ledger/search.ts";
import type { FrameSource } from "../connect/frames.ts";
import type { Services } from "../connect/services.ts";
import { asVidgenError, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { findLast, locateGenerations } from "./generations.ts";
import { findByFile, isVideoFile, last } from "./saved-file.ts";

/**
 * The source that `--from` names: a generation, by its id or "last", or the file of any video. `own` is the attempt that this command resumes.
 * Throws `usage`, and `not_found` for "last".
 */
export async function findFrameSource(
  typed: string,
  own: Entry | undefined,
  services: Services,
  io: Io,
): Promise<FrameSource> {
  if (typed === "") throw usage("--from is empty.");
  if (await isVideoFile(typed, io)) {
    const entry = await findByFile(typed, services.journal, io);
    return { file: typed, id: entry?.id };
  }
  if (typed !== last) {
    const { id, entry, open } = await (await locateGenerations({}, services, io)).findForChange(typed);
    return { id, entry, open };
  }
  const { journal } = services;
  const entry = await (own ? resolveLast(own, own.from, journal) : findLast(journal, mayHaveVideo));
  return { id: entry.id, entry, open: () => services.open(entry.base_url) };
}

/** Finds the generation that "last" meant for an attempt of the same command. Throws `not_found` if the journal no longer has it. */
export async function resolveLast(own: Entry, id: string | undefined, journal: Journal): Promise<StartedEntry> {
  if (id === undefined) throw new Error("an attempt of a command with `last` has no id");
  return findStarted(id, journal).catch((error) => {
    const way =
      own.id === undefined
        ? `\`vidgen list --dismiss ${own.attempt}\` closes it`
        : `\`vidgen wait ${own.id}\` gets its video`;
    const hint = `The same command has an attempt that is ${own.status}: ${way}.`;
    throw asVidgenError(error).with({ hint });
  });
}

function mayHaveVideo(entry: Entry): entry is StartedEntry {
  return isStarted(entry) && !["failed", "refused", "unsent"].includes(entry.state);
}

async function findStarted(id: string, journal: Journal): Promise<StartedEntry> {
  return (await findById(journal, id)).find(isStarted) ?? unknownError(`generation ${id}`);
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
