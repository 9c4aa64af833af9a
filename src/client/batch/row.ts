import { createHash } from "node:crypto";
import type { StartRequest } from "../../protocol/schema.ts";

/** One generation that a batch is to make, checked and ready to be started. */
export type Row = {
  /** The user's own name for it. */
  id?: string | undefined;
  /** Its line in the file, from 1; for rows that `--each` has made of one line, the same. */
  line: number;
  /** The request as the journal keeps it: see `recordOf`. */
  record: StartRequest;
  /** The index of the row with whose last frame it begins: `record` has no image then. */
  from?: number | undefined;
  /** The request itself, which may hold the bytes of an image: read when it is sent, not before. `frame` is the path of that frame. */
  load(frame?: string): Promise<StartRequest>;
  /** Where the video is saved, with the words of the row filled in; `undefined` when it is not saved. */
  outputPath: string | undefined;
  /** The images on this machine's disk that it is made of. */
  files?: readonly string[];
};

/** A row with the name under which the results file and the journal know it. */
export type KeyedRow = Row & {
  key: string;
  /** Tells whether a row of the same key asks for something else. */
  hash: string;
  /** The key of the row with whose last frame it begins. */
  source?: string | undefined;
};

/** Names the rows: by their `id`, else by the request and how many equal requests without one come before. */
export function keyRows(rows: readonly Row[]): KeyedRow[] {
  const counts = new Map<string, number>();
  const keyed = rows.map((row): KeyedRow => {
    const hash = hashRow(row.record, row.from !== undefined);
    if (row.id !== undefined) return { ...row, hash, key: row.id };
    const count = (counts.get(hash) ?? 0) + 1;
    counts.set(hash, count);
    return { ...row, hash, key: `${hash}-${count}` };
  });
  for (const row of keyed) if (row.from !== undefined) row.source = keyed[row.from]?.key;
  return keyed;
}

/**
 * The hash of the request of a row. One that begins with a frame is the same with any frame: else each row after one that is made anew, or is
 * added, would be paid for again.
 */
export function hashRow(record: StartRequest, hasFrame: boolean): string {
  return hashRequest(hasFrame ? { ...record, imageUrl: "the last frame of a row" } : record);
}

/** The same for requests with the same fields, in any order. */
function hashRequest(record: StartRequest): string {
  const sorted = (_: string, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return createHash("sha256").update(JSON.stringify(record, sorted)).digest("hex").slice(0, 16);
}

/** Which of `count` shards a row belongs to, from 1: by its key alone, so that machines that know nothing of each other agree. */
export function shardOf({ key }: KeyedRow, count: number): number {
  return (createHash("sha256").update(key).digest().readUInt32BE() % count) + 1;
}
