import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Does something with a folder of its own, in memory where the machine has such a place: then fsync costs nothing. */
export async function inFolder<Result>(work: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "vidgen-faults-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

/** A broken client may need its whole patience for each command: then what has been seen will do. */
const longestMs = 500_000;

/** Does them all, so many at a time. Throws when that takes too long. */
export async function side<Item>(items: Item[], atOnce: number, work: (item: Item) => Promise<void>): Promise<void> {
  const end = performance.now() + longestMs;
  const left = items.values();
  const worker = async () => {
    for (const item of left) {
      if (performance.now() > end) throw new Error(`not done after ${longestMs / 1000} s`);
      await work(item);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/** The videos under their names in a folder: not the unfinished ones. */
export function videosIn(folder: string): Buffer[] {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => name.endsWith(".mp4"));
  return names.map((name) => readFileSync(join(folder, name)));
}

export type JournalLine = { kind: string; attempt?: string; id?: string; file?: string; etag?: string };

/** The lines of a journal that are whole. */
export function readJournal(home: string): JournalLine[] {
  const path = join(home, "journal.jsonl");
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as JournalLine];
      } catch {
        return [];
      }
    });
}
