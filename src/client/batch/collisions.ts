import { basename, dirname, resolve } from "node:path";
import { systemCode, VidgenError } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";
import { fillWords } from "../../video/naming.ts";
import type { Service } from "../generation/service.ts";
import { findSaved } from "../generation/status.ts";
import { kindOf } from "../save/files.ts";
import { findOutputPath, isFolder } from "../save/output-path.ts";
import { findKeptVideo } from "./kept-video.ts";
import { readError } from "./results.ts";
import type { PlannedRow } from "./row-state.ts";
import type { Faults } from "./rows/faults.ts";

type CheckDependencies = { service: Service; io: Pick<Io, "date" | "disk"> };

/**
 * Throws `usage` for rows whose output file exists, unless it is the row's own video. Returns the rows with
 * what was found there. The earlier video of a row that is made again will be renamed, even with `overwrite`.
 */
export async function checkOutputs(
  rows: PlannedRow[],
  { overwrite, faults }: { overwrite?: boolean | undefined; faults: Faults },
  { service, io }: CheckDependencies,
): Promise<PlannedRow[]> {
  const checkedRows: PlannedRow[] = [];
  const today = io.date().toISOString().slice(0, 10);
  const isListed = createListing(io.disk);
  const takenPaths = new Set(rows.flatMap(({ outputPath }) => outputPath ?? []));
  const checkRow = async (row: PlannedRow) => {
    const { state, outputPath } = row;
    const replacedAttempt = state.kind === "new" ? state.replacedAttempt : undefined;
    if (overwrite && replacedAttempt === undefined) return void checkedRows.push(row);
    const file =
      outputPath === undefined ? undefined : await findOutput(outputPath, row, { today, isListed, disk: io.disk });
    const isWritten = state.kind === "new" || state.kind === "running";
    if (!isWritten || file === undefined || (await kindOf(file, io.disk)) === "none") return void checkedRows.push(row);
    const keptVideo = replacedAttempt && (await findKeptVideo(file, replacedAttempt, { takenPaths, disk: io.disk }));
    if (state.kind === "new" && keptVideo) return void checkedRows.push({ ...row, state: { ...state, keptVideo } });
    if (overwrite) return void checkedRows.push(row);
    const id = state.kind === "running" ? state.attempt.id : undefined;
    const saved = id === undefined || outputPath === undefined ? undefined : await findSaved(service, id, outputPath);
    if (id !== undefined && saved !== undefined)
      checkedRows.push({ ...row, state: { kind: "done", id, file: saved, isFound: true } });
    else faults.add(`${file} already exists; --overwrite replaces it`, row);
  };
  for (const row of rows)
    await checkRow(row).catch((error) => {
      throw error instanceof VidgenError ? error : readError(row.outputPath ?? "", error);
    });
  faults.throwIfAny();
  return checkedRows;
}

/** The existing file at a row's output path; `undefined` if no file exists there, or if its name depends on the id. */
async function findOutput(
  outputPath: string,
  { record, state }: PlannedRow,
  { today, isListed, disk }: { today: string; isListed: ReturnType<typeof createListing>; disk: Disk },
): Promise<string | undefined> {
  const words = { prompt: record.prompt, model: record.model };
  if (state.kind === "running") {
    const { id, at } = state.attempt;
    return findOutputPath(fillWords(outputPath, words, at.slice(0, 10)), { id, ...words }, disk);
  }
  if (/\{(id|n)\}/.test(outputPath)) return undefined;
  const filled = fillWords(outputPath, words, today);
  return !(await isListed(filled)) || (await isFolder(filled, disk)) ? undefined : filled;
}

/** Returns whether a file may exist. Each folder is read once: 100,000 separate checks take 20 s. */
function createListing(disk: Disk): (file: string) => Promise<boolean> {
  const folders = new Map<string, Promise<Set<string> | undefined>>();
  // Some file systems ignore letter case and Unicode normalization.
  const normalizeName = (name: string) => name.normalize("NFC").toLowerCase();
  return async (file) => {
    const folder = dirname(resolve(file));
    const listing =
      folders.get(folder) ??
      disk.readdir(folder).then(
        (names) => new Set(names.map(normalizeName)),
        (error) => (systemCode(error) === "ENOENT" ? new Set<string>() : undefined),
      );
    folders.set(folder, listing);
    const names = await listing;
    return names === undefined || names.has(normalizeName(basename(file)));
  };
}
