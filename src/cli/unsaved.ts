import type { DatedLine, Entry } from "../client/ledger/history.ts";
import type { Journal } from "../client/ledger/journal.ts";
import type { Io } from "../io.ts";
import type { Context } from "./context.ts";
import type { Output } from "./terminal/output.ts";

/** At a terminal, prints a line about paid videos that are not saved, so that they are not forgotten. */
export async function noteUnsaved({ io, output }: Pick<Context, "io" | "output">): Promise<void> {
  if (!isForPerson({ io, output })) return;
  // The command itself is done, and a journal that cannot be read must not make it fail.
  const unsaved = await findUnsavedEntries(io).catch(() => []);
  const count = new Set(unsaved.map(({ base_url, id }) => `${base_url} ${id}`)).size;
  if (count === 0) return;
  const videos = count === 1 ? "1 paid video is" : `${count} paid videos are`;
  output.note(`${videos} not saved: vidgen wait --all -o ./`);
}

/**
 * At a terminal, prints a line on how to look at a video that was saved now, and on real ones if it is a
 * preview, unless the journal has an earlier saved video. Never rejects.
 */
export async function noteFirstSaved(
  id: string,
  { journal, io, output }: { journal: Pick<Journal, "scan">; io: Io; output: Output },
): Promise<void> {
  if (!isForPerson({ io, output })) return;
  const { findLine, findStarted } = await import("../client/ledger/search.ts");
  const isEarlier = (line: DatedLine): line is DatedLine =>
    line.kind === "delivered" && line.file !== undefined && line.id !== id;
  if ((await findLine(journal, isEarlier, ["delivered"]).catch(() => true)) !== undefined) return;
  const entry = await findStarted(journal, id).catch(() => undefined);
  const real = entry?.is_preview ? ", and `vidgen help real-models` says how to make a real one" : "";
  output.note(`\`vidgen list --open last\` shows it${real}.`);
}

function isForPerson({ io, output }: Pick<Context, "io" | "output">): boolean {
  const isScript = !io.stdout.isTTY || !io.stderr.isTTY || Boolean(io.env.CI);
  return !isScript && !output.quiet && !output.json && !output.events;
}

/** Does not use `findJournal`, which loads the whole client: `models` calls this too, and needs no client. */
async function findUnsavedEntries(io: Io): Promise<Entry[]> {
  const { journalIn, storageFolder } = await import("../connect/storage.ts");
  const { openJournal } = await import("../client/ledger/journal.ts");
  const { findUnsaved } = await import("../client/ledger/attempts.ts");
  return findUnsaved(openJournal(journalIn(storageFolder("state", io)), io));
}
