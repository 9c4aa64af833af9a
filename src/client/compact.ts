import { link, open, readFile, rename, rm, stat } from "node:fs/promises";
import { foldLines, isOpen, parseLine, parseLines } from "./history.ts";
import { appendText, oldPath, readJournal } from "./journal.ts";

const maxBytes = 10_000_000;
const keptMs = 90 * 24 * 3600 * 1000;
/** A compaction takes a second; an older lock was left by one that was killed. */
const staleLockMs = 10 * 60_000;

/**
 * Removes what ended more than 90 days ago from a journal that is larger than 10 MB. Another process may append at any moment, and this one
 * may be killed at any moment: the old file stays readable beside the new one until all its lines are known to be in that.
 */
export async function compactJournal(path: string, now: Date): Promise<void> {
  const size = (await stat(path).catch(() => undefined))?.size ?? 0;
  if (size <= maxBytes) return;
  const lock = `${path}.lock`;
  if (!(await takeLock(lock, now))) return;
  try {
    await replace(path, now);
  } finally {
    await rm(lock, { force: true });
  }
}

async function takeLock(lock: string, now: Date): Promise<boolean> {
  const age = now.getTime() - ((await stat(lock).catch(() => undefined))?.mtimeMs ?? now.getTime());
  if (age > staleLockMs) await rm(lock, { force: true });
  try {
    await (await open(lock, "wx", 0o600)).close();
    return true;
  } catch {
    return false;
  }
}

async function replace(path: string, now: Date): Promise<void> {
  const old = oldPath(path);
  await mergeLeftover(path, old);
  await link(path, old);
  const before = wholeLines(await readFile(old));
  const fresh = `${path}.new`;
  await rm(fresh, { force: true });
  const file = await open(fresh, "wx", 0o600);
  await file.writeFile(withoutFinished(before.toString("utf8"), new Date(now.getTime() - keptMs)));
  await file.sync();
  await file.close();
  await rename(fresh, path);
  // A process that had the old file open may have appended to it until the rename; later appends go to the new one.
  const after = await readFile(old);
  if (after.length > before.length) await appendText(path, after.subarray(before.length).toString("utf8"));
  await rm(old);
}

/** The bytes up to the last newline: the rest may be half of a line that is being written. */
function wholeLines(bytes: Buffer): Buffer {
  return bytes.subarray(0, bytes.lastIndexOf(0x0a) + 1);
}

/** Merges the old file of a compaction that was killed back into the journal. */
async function mergeLeftover(path: string, old: string): Promise<void> {
  if (!(await stat(old).catch(() => undefined))) return;
  const isSame = (await stat(old)).ino === (await stat(path)).ino;
  if (!isSame) {
    const present = new Set((await readFile(path, "utf8")).split("\n"));
    const missing = (await readJournal(path)).split("\n").filter((line) => line !== "" && !present.has(line));
    if (missing.length > 0) await appendText(path, `${missing.join("\n")}\n`);
  }
  await rm(old);
}

/** The text without unreadable lines, generations that ended and were started before `since`, and claims from before `since`. */
function withoutFinished(text: string, since: Date): string {
  const gone = foldLines(parseLines(text)).filter((entry) => isFinished(entry) && new Date(entry.at) < since);
  const names = new Set(gone.flatMap(({ attempt, id }) => [attempt, id]));
  const isKept = (line: string) => {
    const parsed = parseLine(line);
    if (!parsed) return false;
    if (parsed.kind === "claim") return new Date(parsed.at) >= since;
    return !names.has("attempt" in parsed ? parsed.attempt : parsed.id);
  };
  return text
    .split("\n")
    .filter(isKept)
    .map((line) => `${line}\n`)
    .join("");
}

/** An unknown attempt is never finished: it may have been charged, and its user may still look for it. */
function isFinished(entry: Parameters<typeof isOpen>[0]): boolean {
  return ["refused", "unsent", "failed", "completed"].includes(entry.status) && !isOpen(entry);
}
