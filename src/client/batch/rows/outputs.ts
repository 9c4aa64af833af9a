import { relative } from "node:path";
import type { Io } from "../../../io.ts";
import { shorten } from "../../../protocol/text.ts";
import {
  fillNames,
  findWindowsFault,
  hasIdInFolder,
  idInFolderFault,
  isNetworkPath,
  isTooLong,
  type NameParts,
} from "../../../video/naming.ts";
import { isFolder } from "../../save/output-path.ts";
import type { Faults } from "./faults.ts";
import type { Table, TableLine } from "./table.ts";

/** Checks that each row's output path is valid, and that no two rows share a file. */
export function createOutputCheck({ columns }: Table, io: Pick<Io, "date" | "platform" | "disk">, faults: Faults) {
  const date = io.date().toISOString().slice(0, 10);
  const lines = new Map<string, number>();
  const folders = new Map<string, boolean>();
  // Windows and macOS treat different spellings of a name as one file.
  const keyOf = (path: string) => (/^(win32|darwin)$/.test(io.platform) ? path.normalize("NFC").toLowerCase() : path);

  const isKnownFolder = async (path: string) => {
    const isFolderPath = folders.get(path) ?? (await isFolder(path, io.disk).catch(() => false));
    folders.set(path, isFolderPath);
    return isFolderPath;
  };

  return async (outputPath: string, row: TableLine, words: NameParts) => {
    const where = row.texts.has("output") ? columns.get("output") : undefined;
    const path = fillNames(outputPath, words, date);
    const fault =
      findOutputFault(outputPath) ??
      (isTooLong(path) ? "has a file name of more than 255 bytes" : undefined) ??
      (io.platform === "win32" ? findWindowsFault(path) : undefined) ??
      (io.platform === "win32" && where !== undefined && isNetworkPath(path) ? networkFault : undefined);
    if (fault !== undefined) {
      // Without a position, so that a fault of -o itself is shown once and not for every row.
      return faults.add(
        where === undefined ? `-o ${fault}` : fault,
        where === undefined ? undefined : { line: row.line, where },
      );
    }
    if (path.includes("{id}")) return;
    const key = keyOf(relative("", path));
    const earlier = lines.get(key);
    // Saves memory: reuses the row's string if it is equal.
    if (earlier === undefined) return void lines.set(key === outputPath ? outputPath : key, row.line);
    if (await isKnownFolder(path)) return;
    const other = earlier === row.line ? "another row of this line" : `line ${earlier}`;
    faults.add(`is saved to ${shorten(path)}, and so is ${other}`, { line: row.line, where });
  };
}

/** A rows file may come from somebody else. */
export const networkFault = "is a path on another machine or a device: only a flag may name one";

function findOutputFault(outputPath: string): string | undefined {
  if (outputPath.trim() === "") return "is empty";
  if (outputPath === "-") return "must be a file or a folder: stdout can take only one video";
  if (/\p{Cc}/u.test(outputPath)) return "must not have control characters";
  return hasIdInFolder(outputPath) ? idInFolderFault : undefined;
}
