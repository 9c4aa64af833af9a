import { createHash } from "node:crypto";
import type { StartRequest } from "../../protocol/schema.ts";

/** A checked row of a batch, ready to be started. */
export type Row = {
  /** The id in the rows file. */
  id?: string | undefined;
  /** Its line in the file, from 1. All rows that `--each` makes from a line have the same number. */
  line: number;
  /** The request as the journal keeps it: see `recordOf`. */
  record: StartRequest;
  /** The index of the row whose last frame this row starts with. Then `record` has no image. */
  from?: number | undefined;
  /** Loads the request, with the bytes of its images, right before it is sent. `frame` is the path of the first frame. */
  load(frame?: string): Promise<StartRequest>;
  /** The output path, with the row's values filled in; `undefined` when the video is not saved. */
  outputPath: string | undefined;
  /** Why the row is probably not what was meant, if so: it is not started, but an earlier attempt at it is followed. */
  doubt?: { text: string; where: string | undefined } | undefined;
  /** The local images that the request contains. */
  files?: readonly string[];
  /** The hash of the typed row and flags, and the fields of the request that the typed text does not determine (see `IntentLine`). */
  typed?: string | undefined;
  /** The hash that older versions recorded, where VIDGEN_MODEL gives the model: it did not count then. */
  olderTyped?: string | undefined;
  untyped?: readonly string[] | undefined;
};

/** A row with its name in the results file and the journal. */
export type KeyedRow = Row & {
  key: string;
  /** The hash of the request: a row with the same key but another hash was edited. */
  hash: string;
  /** The key of the row whose last frame it starts with. */
  source?: string | undefined;
};

/** Names each row by its `id`, else by its request and a counter for equal requests. */
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
 * The hash of a row's request. The first frame taken from another row does not count: otherwise every row after a changed or
 * added row would be paid for again.
 */
export function hashRow(record: StartRequest, hasFrame: boolean): string {
  return hashRequest(hasFrame ? { ...record, imageUrl: "the last frame of a row" } : record);
}

/** Does not depend on the order of the fields. */
function hashRequest(record: StartRequest): string {
  const sorted = (_: string, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return createHash("sha256").update(JSON.stringify(record, sorted)).digest("hex").slice(0, 16);
}

/** Which of `count` shards a row belongs to, from 1. Depends on the key alone, so that all machines agree. */
export function shardOf({ key }: KeyedRow, count: number): number {
  return (createHash("sha256").update(key).digest().readUInt32BE() % count) + 1;
}
