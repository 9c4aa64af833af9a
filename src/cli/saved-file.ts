import { resolve } from "node:path";
import { hashFile } from "../client/ledger/content.ts";
import type { DatedLine } from "../client/ledger/history.ts";
import type { Journal } from "../client/ledger/journal.ts";
import { isStarted, type StartedEntry } from "../client/ledger/policy.ts";
import { findById, findLine } from "../client/ledger/search.ts";
import { systemCode, systemReason, usage } from "../errors.ts";
import type { Io } from "../io.ts";

/** The word for the newest generation, in place of an id. */
export const lastWord = "last";

/** Whether a word names a file: it has the ending of a video, or is the name of a file that exists. */
export async function isSavedFile(typed: string, { disk }: Pick<Io, "disk">): Promise<boolean> {
  if (/\.(mp4|mov|mkv|webm)$/i.test(typed)) return true;
  return (
    typed !== lastWord &&
    (await disk.stat(typed).then(
      (found) => found.isFile(),
      () => false,
    ))
  );
}

/** As `isSavedFile`, but true for any word with a slash. Only for words that cannot be an id, since some services have ids with a slash. */
export async function isVideoFile(typed: string, io: Pick<Io, "disk">): Promise<boolean> {
  return /[/\\]/.test(typed) || isSavedFile(typed, io);
}

/**
 * The generation whose video has the content of this file, whatever its name is now; if the file is gone, the generation that was saved there.
 * `undefined` if the journal has none. Throws `usage` for a file that cannot be read.
 */
export async function findByFile(
  path: string,
  journal: Pick<Journal, "scan">,
  io: Io,
): Promise<StartedEntry | undefined> {
  const sha256 = await hashOf(path, io);
  const saved = resolve(path);
  const isOfVideo = (line: DatedLine): line is DatedLine & { kind: "downloaded" | "delivered" } => {
    if (line.kind !== "downloaded" && line.kind !== "delivered") return false;
    if (sha256 !== undefined) return line.sha256 === sha256;
    return line.kind === "delivered" && line.file === saved;
  };
  const line = await findLine(journal, isOfVideo);
  if (line !== undefined) return (await findById(journal, line.id)).find(isStarted);
  if (sha256 === undefined) throw usage(`Cannot read the video ${path}: there is no such file.`);
  return undefined;
}

/** The SHA-256 of a file; `undefined` if there is no such file. */
async function hashOf(path: string, { disk, signal }: Io): Promise<string | undefined> {
  const file = await disk.open(path, "r").catch((error) => {
    if (systemCode(error) !== "ENOENT") throw usage(`Cannot read the video ${path}: ${systemReason(error)}.`);
  });
  if (!file) return undefined;
  const hash = await hashFile(file, signal).finally(() => file.close());
  return hash.digest("hex");
}
