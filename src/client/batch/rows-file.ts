import { basename, dirname, join, resolve } from "node:path";
import { systemCode } from "../../errors.ts";
import type { Disk } from "../../io.ts";
import type { Entry } from "../ledger/history.ts";
import { type FileIdentity, findRealPath, identify, isSameFile } from "../ledger/identity.ts";
import { readError, readRowsFile } from "./results.ts";

/** The file that a batch has its rows from. */
export type RowsFile = {
  identity: FileIdentity;
  /** Its name before its links are followed, as an absolute path. */
  typed: string;
};

/** `undefined` for rows of stdin ("-"), for those of a program (""), and for a file that is gone. Throws `output` when it cannot be read. */
export async function findRowsFile(file: string, disk: Disk): Promise<RowsFile | undefined> {
  if (file === "" || file === "-") return undefined;
  const typed = join(await findRealPath(dirname(resolve(file)), disk), basename(file));
  const identity = await identify(typed, disk).catch(unlessMissing(typed, undefined));
  return identity && { identity, typed };
}

/** What a failure to read a file or a folder stands for: `missing` where there is none. Throws `output` for any other. */
function unlessMissing<Missing>(path: string, missing: Missing): (error: unknown) => Missing {
  return (error) => {
    if (["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return missing;
    throw readError(path, error);
  };
}

/**
 * The results files of a rows file, by their real paths: see `findOtherResults`; those that are gone are left out. Any other path, such as
 * that of a results file itself, is returned as it is.
 */
export async function findResultsOf(path: string, entries: readonly Entry[], disk: Disk): Promise<string[]> {
  const rowsFile = await findRowsFile(path, disk);
  const found: string[] = [];
  for (const results of rowsFile ? await findOtherResults("", rowsFile, entries, disk) : [])
    if (await identify(results, disk).catch(() => undefined)) found.push(results);
  return found.length === 0 ? [path] : found.sort();
}

/**
 * The other results files of a rows file, by their real paths. These are
 * - those that lie beside it and are named after it, as without `--results`;
 * - any other `.jsonl` file beside it, or beside this results file, whose first run was about it, whatever its name was then;
 * - those that the journal has attempts of its rows for, also where they are gone.
 *
 * Throws `output` for a folder that cannot be read: rows that its files tell of could be paid for twice.
 */
export async function findOtherResults(
  path: string,
  rowsFile: RowsFile,
  entries: readonly Entry[],
  disk: Disk,
): Promise<Set<string>> {
  const { identity, typed } = rowsFile;
  const found = new Set<string>();
  for (const { batch, rows_file } of entries)
    if (batch !== undefined && (isNamedAfter(batch, rowsFile) || isSameFile(rows_file, identity))) found.add(batch);
  for (const folder of new Set([path, identity.path, typed].map(dirname)))
    for (const name of await disk.readdir(folder).catch(unlessMissing<string[]>(folder, []))) {
      const file = join(folder, name);
      if (!name.endsWith(".jsonl") || file === typed || file === identity.path) continue;
      if (isNamedAfter(file, rowsFile) || isSameFile(await readRowsFile(file, disk), identity))
        found.add(await findRealPath(file, disk));
    }
  found.delete(path);
  return found;
}

function isNamedAfter(path: string, { identity, typed }: RowsFile): boolean {
  const isAfter = (file: string) =>
    path.startsWith(file) && /^(\.\d+-of-\d+)?\.results\.jsonl$/.test(path.slice(file.length));
  return isAfter(identity.path) || isAfter(typed);
}

/** Whether two parts of a rows file, such as "2/8" or `null` for all, have no row in common. */
export function areDisjoint(one: string | null, other: string | null): boolean {
  const [index, of] = one?.split("/") ?? [];
  const [otherIndex, otherOf] = other?.split("/") ?? [];
  return of !== undefined && of === otherOf && index !== otherIndex;
}
