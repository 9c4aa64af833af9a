import type { Entry } from "../client/ledger/history.ts";
import type { Io } from "../io.ts";
import type { Context } from "./context.ts";

/** At a terminal, prints a line about paid videos that are not saved, so that they are not forgotten. */
export async function noteUnsaved({ io, output }: Pick<Context, "io" | "output">): Promise<void> {
  const isScript = !io.stdout.isTTY || !io.stderr.isTTY || Boolean(io.env.CI);
  if (isScript || output.quiet || output.json || output.events) return;
  // The command itself is done, and a journal that cannot be read must not make it fail.
  const unsaved = await findUnsavedEntries(io).catch(() => []);
  const count = new Set(unsaved.map(({ base_url, id }) => `${base_url} ${id}`)).size;
  if (count === 0) return;
  const videos = count === 1 ? "1 paid video is" : `${count} paid videos are`;
  output.note(`${videos} not saved: vidgen wait --all -o ./`);
}

/** Does not use `findJournal`, which loads the whole client: `models` calls this too, and needs no client. */
async function findUnsavedEntries(io: Io): Promise<Entry[]> {
  const { journalIn, storageFolder } = await import("../connect/storage.ts");
  const { openJournal } = await import("../client/ledger/journal.ts");
  const { findUnsaved } = await import("../client/ledger/attempts.ts");
  return findUnsaved(openJournal(journalIn(storageFolder("state", io)), io));
}
