import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { readOlderRatio, readRatio } from "../../protocol/fields.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { olderRecordOf } from "../ledger/history.ts";
import { asRead } from "../ledger/policy.ts";

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
  /** The row as older versions read it, if that differs: it keeps its key. `load` is set if more than the ratio differs. */
  written?: (Pick<Row, "id" | "record"> & Partial<Pick<Row, "load">>) | undefined;
  /** The local images that the request contains. */
  files?: readonly string[];
  /**
   * The hash of the typed row and flags, and the fields of the request that the typed text does not determine
   * (see `IntentLine`).
   */
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
  /** The hash of the request as older versions read it, if they read it in another way. */
  writtenHash?: string | undefined;
  /** Counts, from 1, the rows without an id whose requests this version reads alike; `undefined` for a row with an id. */
  nth?: number | undefined;
  /** The key of the row whose last frame it starts with. */
  source?: string | undefined;
};

/**
 * The row as older versions read it, which sent a ratio such as 16:09 as it was typed, and recorded a secret
 * that only the name of its field shows; `undefined` if they recorded what this version records.
 */
export function readAsWritten(
  { id, record, request }: Pick<Row, "id" | "record"> & { request: StartRequest },
  typedRatio = "",
): Row["written"] {
  const older = olderRecordOf(request);
  if (older.aspectRatio === readRatio(typedRatio)) older.aspectRatio = readOlderRatio(typedRatio);
  return isDeepStrictEqual(older, record) ? undefined : { id, record: older };
}

/** Names each row by its `id`, else by its request and a counter for equal requests; both as older versions read the row. */
export function keyRows(rows: readonly Row[]): KeyedRow[] {
  const [countWritten, countRead] = [createCounter(), createCounter()];
  const keyed = rows.map((row): KeyedRow => {
    const { record, written, from } = row;
    const hash = hashRow(record, from !== undefined);
    const writtenHash = written && hashRow(written.record, from !== undefined);
    const hashes = { hash, writtenHash };
    const { id } = written ?? row;
    if (id !== undefined) return { ...row, ...hashes, key: id };
    const key = `${writtenHash ?? hash}-${countWritten(writtenHash ?? hash)}`;
    return { ...row, ...hashes, key, nth: countRead(hashRow(asRead(record), from !== undefined)) };
  });
  for (const row of keyed) if (row.from !== undefined) row.source = keyed[row.from]?.key;
  return keyed;
}

/** Returns a function that counts how often it was called with a hash. */
function createCounter(): (hash: string) => number {
  const counts = new Map<string, number>();
  return (hash) => {
    const count = (counts.get(hash) ?? 0) + 1;
    counts.set(hash, count);
    return count;
  };
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
