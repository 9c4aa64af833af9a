import { relative } from "node:path";
import type { Io } from "../../../io.ts";
import { shorten } from "../../../protocol/text.ts";
import { fillNames, hasIdInFolder, idInFolder, isTooLong, type Words } from "../../../video/naming.ts";
import { isFolder } from "../../save/output-path.ts";
import type { Faults } from "./faults.ts";
import type { Table, TableLine } from "./table.ts";

/** Checks where the rows are saved: that a video can go there, and that no two rows have one file. */
export function createOutputCheck({ columns }: Table, io: Pick<Io, "date" | "platform" | "disk">, faults: Faults) {
  const date = io.date().toISOString().slice(0, 10);
  const lines = new Map<string, number>();
  const folders = new Map<string, boolean>();
  // Two spellings of one name are two files only where the file system distinguishes them.
  const keyOf = (path: string) => (/^(win32|darwin)$/.test(io.platform) ? path.normalize("NFC").toLowerCase() : path);

  const isKnownFolder = async (path: string) => {
    const known = folders.get(path) ?? (await isFolder(path, io.disk).catch(() => false));
    folders.set(path, known);
    return known;
  };

  return async (outputPath: string, row: TableLine, words: Words) => {
    const where = row.texts.has("output") ? columns.get("output") : undefined;
    const path = fillNames(outputPath, words, date);
    const fault = findFault(outputPath) ?? (isTooLong(path) ? "has a file name of more than 255 bytes" : undefined);
    if (fault !== undefined) {
      // What is wrong with a flag without words is the same in every row, and shown once.
      return faults.add(
        where === undefined ? `-o ${fault}` : fault,
        where === undefined ? undefined : { line: row.line, where },
      );
    }
    if (path.includes("{id}")) return;
    const key = keyOf(relative("", path));
    const earlier = lines.get(key);
    // The map holds the string that the row holds anyway, where they are the same.
    if (earlier === undefined) return void lines.set(key === outputPath ? outputPath : key, row.line);
    if (await isKnownFolder(path)) return;
    const other = earlier === row.line ? "another row of this line" : `line ${earlier}`;
    faults.add(`is saved to ${shorten(path)}, and so is ${other}`, { line: row.line, where });
  };
}

function findFault(outputPath: string): string | undefined {
  if (outputPath.trim() === "") return "is empty";
  if (outputPath === "-") return "must be a file or a folder: stdout can take only one video";
  if (/\p{Cc}/u.test(outputPath)) return "must not have control characters";
  return hasIdInFolder(outputPath) ? idInFolder : undefined;
}
