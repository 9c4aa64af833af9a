import { basename, dirname, join, resolve } from "node:path";
import { systemCode } from "../../errors.ts";
import type { Disk } from "../../io.ts";
import type { Entry, IntentLine } from "../ledger/history.ts";
import { type FileIdentity, findRealPath, identify, isSameFile } from "../ledger/identity.ts";
import { readError, readRowsFile } from "./results.ts";

/** The file with the rows of a batch. */
export type RowsFile = {
  identity: FileIdentity;
  /** The absolute path as typed, before its last link is followed. */
  typedPath: string;
};

/**
 * Finds the rows file; `undefined` for stdin ("-"), for the library (""), and for a missing file. Throws
 * `output` when it cannot be read.
 */
export async function findRowsFile(file: string, disk: Disk): Promise<RowsFile | undefined> {
  if (file === "" || file === "-") return undefined;
  const typedPath = join(await findRealPath(dirname(resolve(file)), disk), basename(file));
  const identity = await identify(typedPath, disk).catch(unlessMissing(typedPath, undefined));
  return identity && { identity, typedPath };
}

/** Returns an error handler that returns `missing` for a missing file or folder, and throws `output` for any other error. */
function unlessMissing<Missing>(path: string, fallback: Missing): (error: unknown) => Missing {
  return (error) => {
    if (["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return fallback;
    throw readError(path, error);
  };
}

/**
 * The real paths of the existing results files of a rows file: see `findOtherResults`. Any other path, such as
 * that of a results file itself, is returned unchanged.
 */
export async function findResultsOf(path: string, entries: readonly Entry[], disk: Disk): Promise<string[]> {
  const rowsFile = await findRowsFile(path, disk);
  const found: string[] = [];
  for (const results of rowsFile ? await findOtherResults("", rowsFile, entries, disk) : [])
    if (await identify(results, disk).catch(() => undefined)) found.push(results);
  return found.length === 0 ? [path] : found.sort();
}

/**
 * The real paths of the other results files of a rows file:
 * - files in its folder that have the default name of a results file;
 * - any other `.jsonl` file in its folder, or in that of this results file, whose first run used the rows file, also under an earlier name;
 * - files that the journal names for attempts at its rows, even if they are gone.
 *
 * Throws `output` for a folder that cannot be read: rows in its files could be paid for twice.
 */
export async function findOtherResults(
  path: string,
  rowsFile: RowsFile,
  entries: readonly Pick<IntentLine, "batch" | "rows_file">[],
  disk: Disk,
): Promise<Set<string>> {
  const { identity, typedPath } = rowsFile;
  const found = new Set<string>();
  for (const { batch, rows_file } of entries)
    if (batch !== undefined && (isNamedAfter(batch, rowsFile) || isSameFile(rows_file, identity))) found.add(batch);
  for (const folder of new Set([path, identity.path, typedPath].map(dirname)))
    for (const name of await disk.readdir(folder).catch(unlessMissing<string[]>(folder, []))) {
      const file = join(folder, name);
      if (!name.endsWith(".jsonl") || file === typedPath || file === identity.path) continue;
      if (isNamedAfter(file, rowsFile) || isSameFile(await readRowsFile(file, disk), identity))
        found.add(await findRealPath(file, disk));
    }
  found.delete(path);
  return found;
}

function isNamedAfter(path: string, { identity, typedPath }: RowsFile): boolean {
  const isAfter = (file: string) =>
    path.startsWith(file) && /^(\.\d+-of-\d+)?\.results\.jsonl$/.test(path.slice(file.length));
  return isAfter(identity.path) || isAfter(typedPath);
}

/** Whether two parts of a rows file, such as "2/8" or `null` for all, have no row in common. */
export function areDisjoint(one: string | null, other: string | null): boolean {
  const [index, count] = one?.split("/") ?? [];
  const [otherIndex, otherCount] = other?.split("/") ?? [];
  return count !== undefined && count === otherCount && index !== otherIndex;
}
