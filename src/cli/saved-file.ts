import { join, resolve } from "node:path";
import { hashFile } from "../client/ledger/content.ts";
import type { DatedLine } from "../client/ledger/history.ts";
import type { Journal } from "../client/ledger/journal.ts";
import type { StartedEntry } from "../client/ledger/policy.ts";
import { findLine, findStarted, wordOf } from "../client/ledger/search.ts";
import { systemCode, systemReason, usage } from "../errors.ts";
import type { Io } from "../io.ts";
import { quote, shellOf } from "../shell.ts";
import { videoFileName } from "../video/naming.ts";

/** The word for the newest generation, in place of an id. */
export const lastWord = "last";

/**
 * Whether a word names a file: it has the ending of a video, or is the name of a file that exists; or of a
 * folder, written with a slash, which `checkNotFolder` refuses.
 */
export async function isSavedFile(typed: string, { disk }: Pick<Io, "disk">): Promise<boolean> {
  if (videoFileName.test(typed)) return true;
  const found = typed === lastWord ? undefined : await disk.stat(typed).catch(() => undefined);
  return found !== undefined && (found.isFile() || (found.isDirectory() && /[/\\]/.test(typed)));
}

/** How many videos of a folder are named as examples. */
const maxExamples = 3;

/** Throws `usage` for a folder, with its newest videos. */
export async function checkNotFolder(path: string, { disk }: Pick<Io, "disk">): Promise<void> {
  const found = await disk.stat(path).catch(() => undefined);
  if (!found?.isDirectory()) return;
  const names = (await disk.readdir(path).catch(() => [])).filter((name) => videoFileName.test(name));
  const videos = await Promise.all(
    names.map(async (name) => {
      const file = join(path, name);
      return { file, time: (await disk.stat(file).catch(() => undefined))?.mtimeMs ?? 0 };
    }),
  );
  const newest = videos.sort((one, other) => other.time - one.time).slice(0, maxExamples);
  const hint = newest.length === 0 ? undefined : `Its newest videos: ${newest.map(({ file }) => file).join(", ")}`;
  throw usage(`${path} is a folder, and not a video.${hint === undefined ? " It has no videos." : ""}`, hint);
}

/**
 * As `isSavedFile`, but true for any word with a slash. Only for words that cannot be an id, since some
 * services have ids with a slash.
 */
export async function isVideoFile(typed: string, io: Pick<Io, "disk">): Promise<boolean> {
  return /[/\\]/.test(typed) || isSavedFile(typed, io);
}

/**
 * The generation whose video has the content of this file, whatever its name is now; if the file is gone, the
 * generation that was saved there. `undefined` if the journal has none. Throws `usage` for a file that cannot
 * be read.
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
  const line = await findLine(journal, isOfVideo, [wordOf(sha256 ?? saved)]);
  if (line !== undefined) return findStarted(journal, line.id);
  if (sha256 === undefined) throw usage(`Cannot read the video ${path}: there is no such file.`);
  return undefined;
}

/** Returns command lines for a saved video; `undefined` if the word is not the file of one. Never rejects. */
export async function describeSaved(word: string, io: Io): Promise<string | undefined> {
  if (!(await isSavedFile(word, io))) return undefined;
  const { findJournal } = await import("../connect/services.ts");
  const entry = await findByFile(word, findJournal(io), io).catch(() => undefined);
  if (entry === undefined) return undefined;
  const file = quote(word, shellOf(io));
  return [
    `It is the video of ${entry.id}. To open it: vidgen list --open ${file}`,
    `To make another one of the same request: vidgen again ${file}`,
    `To begin a video with its last frame: vidgen generate "..." --from ${file}`,
  ].join("\n");
}

/** The SHA-256 of a file; `undefined` if there is no such file. */
async function hashOf(path: string, { disk, signal }: Io): Promise<string | undefined> {
  await checkNotFolder(path, { disk });
  const file = await disk.open(path, "r").catch((error) => {
    if (systemCode(error) !== "ENOENT") throw usage(`Cannot read the video ${path}: ${systemReason(error)}.`);
  });
  if (!file) return undefined;
  const hash = await hashFile(file, signal).finally(() => file.close());
  return hash.digest("hex");
}
