import { joinImages } from "../cut-request.ts";
import {
  fetchedFiles,
  type ImageFetch,
  type Images,
  type StoredCheckpoint,
  type StoredGeneration,
  type StoredRequest,
  stateOf,
} from "../generations.ts";
import { submissionOf } from "../needs.ts";
import { columns, readGeneration } from "../reads/generations.ts";
import { readJson, toJson } from "../values.ts";
import { type AccountRow, accountColumns, readAccount } from "./account.ts";
import { publish, type Rule, sql } from "./rule.ts";

/** The condition that a process, the `?`, may write to a generation: it is the last holder, or there was none. */
export const isHeldHere = "(holder IS NULL OR holder = ?)";

export function* findGeneration(id: string): Rule<StoredGeneration | undefined> {
  const [row] = yield* sql(`SELECT ${columns} FROM generations WHERE id = ?`, id);
  return row && readGeneration(row);
}

/** Returns the complete URLs of a generation's images. */
export function* findImages(id: string): Rule<Images<string>> {
  const generation = yield* findGeneration(id);
  if (!generation) throw new Error(`no generation ${id}`);
  const find = "SELECT place, source FROM images WHERE generation = (SELECT number FROM generations WHERE id = ?)";
  return joinImages(generation.request, yield* sql(find, id));
}

/** Returns the values that the request of a generation has only as hashes; none once it has ended. */
export function* findSecrets(id: string): Rule<StoredRequest["extras"]> {
  const [row] = yield* sql("SELECT secrets FROM generations WHERE id = ?", id);
  return readJson<StoredRequest["extras"] | null>(row?.secrets ?? null) ?? {};
}

/** The state does not change, so this locks no account. */
export function* keepImageFetch(id: string, imageFetch: ImageFetch, process: string): Rule<void> {
  const nextAt = "files" in imageFetch ? null : imageFetch.nextAt;
  const [kept] = yield* sql(
    `UPDATE generations SET image_fetch = ?, is_fetched = ?, image_fetch_at = ?
     WHERE id = ? AND status = 'processing' AND ${isHeldHere} RETURNING account`,
    ...[toJson(imageFetch), nextAt !== null, nextAt, id, process],
  );
  if (!kept) throw new Error(`no generation ${id} that this process makes`);
  yield* publish({ kind: "generation", id, account: String(kept.account) });
}

export function* findFetchedImages(): Rule<string[]> {
  const rows = yield* sql(
    "SELECT image_fetch FROM generations WHERE status = 'processing' AND image_fetch IS NOT NULL",
  );
  return rows.flatMap(({ image_fetch }) => fetchedFiles(readJson<ImageFetch>(image_fetch)));
}

/**
 * Locks the account of a generation before the generation, as a start does, and returns the account. While this waits for the account, it does not
 * lock the generation, because the generation's holder could not renew its claim.
 */
export function* lockOwner(id: string): Rule<AccountRow> {
  const owner = "SELECT account FROM generations WHERE id = ?";
  const [row] = yield* sql(`SELECT ${accountColumns} FROM accounts WHERE name = (${owner}) FOR NO KEY UPDATE`, id);
  if (!row) throw new Error(`no generation ${id}`);
  return readAccount(row);
}

export function* keepCheckpoint(id: string, checkpoint: StoredCheckpoint | null, process: string): Rule<void> {
  const account = yield* lockOwner(id);
  const { engine, isSubmitting } = submissionOf(checkpoint);
  const [kept] = yield* sql(
    `UPDATE generations SET checkpoint = ?, engine = ?, is_submitting = ?, state = ?
     WHERE id = ? AND status = 'processing' AND ${isHeldHere} RETURNING number`,
    ...[checkpoint && toJson(checkpoint), engine, isSubmitting, stateOf({ status: "processing", checkpoint })],
    ...[id, process],
  );
  if (!kept) throw new Error(`no generation ${id} that this process makes`);
  yield* publish({ kind: "generation", id, account: account.name });
}

/** Marks a generation that has ended as removed, unless it is already. */
export function* remove(id: string, at: string): Rule<void> {
  const [removed] = yield* sql(
    `UPDATE generations SET removed_at = ? WHERE id = ? AND status <> 'processing' AND removed_at IS NULL
     RETURNING account`,
    ...[at, id],
  );
  if (removed) yield* publish({ kind: "generation", id, account: String(removed.account) });
}

export function* star(id: string, isStarred: boolean): Rule<void> {
  const [starred] = yield* sql("UPDATE generations SET starred = ? WHERE id = ? RETURNING account", isStarred, id);
  if (starred) yield* publish({ kind: "generation", id, account: String(starred.account) });
}
