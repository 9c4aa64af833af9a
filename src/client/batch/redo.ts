import { extname, resolve } from "node:path";
import { usage } from "../../errors.ts";
import type { Disk } from "../../io.ts";
import { findSimilar } from "../../protocol/models.ts";
import { shorten } from "../../protocol/text.ts";
import { record, type Service } from "../generation/service.ts";
import { type Content, hasContent } from "../ledger/content.ts";
import type { DatedLine, Entry, RedoLine, RedoneRow } from "../ledger/history.ts";
import { kindOf, outputError, renameNew } from "../save/files.ts";
import { hasInfo } from "../save/info.ts";
import { infoPath } from "../save/output-path.ts";
import type { PlannedRow } from "./plan.ts";
import type { KeyedRow } from "./row.ts";
import type { Faults } from "./rows/faults.ts";
import { kindOfRow } from "./status.ts";

/** The rows that `--redo` names. */
export type RedoOptions = {
  rows: "all" | readonly string[];
  /** Also makes rows again that a redo has made and that have not been edited since. */
  again?: boolean | undefined;
  /** The name of this redo in the results file. */
  name: string;
};

type DatedRedo = RedoLine & { at: string };

/** What the results files say about the redos of rows. */
export type Redos = {
  /** The attempts that no longer decide the state of their row. */
  replaced: ReadonlySet<string>;
  /** The newest redo of each row, by key. */
  newest: ReadonlyMap<string, RowRedo>;
};

export type RowRedo = RedoneRow & { redo: string; at: string };

/** Later redos of a row replace more attempts. Their times may be from clocks that were wrong. */
export function readRedos(lines: readonly DatedRedo[]): Redos {
  const replaced = new Set<string>();
  const newest = new Map<string, RowRedo>();
  for (const { redo, at, rows } of lines) {
    for (const row of rows) {
      for (const attempt of row.replaces) replaced.add(attempt);
      if (row.replaces.length >= (newest.get(row.row)?.replaces.length ?? 0)) newest.set(row.row, { ...row, redo, at });
    }
  }
  return { replaced, newest };
}

/** The redos of other results files that are missing in this one. */
export function findUnwrittenRedos(own: readonly DatedRedo[], others: readonly DatedRedo[]): DatedLine[] {
  const written = new Set(own.map(({ redo }) => redo));
  return others.filter(({ redo }) => !written.has(redo));
}

/** Throws `usage` for a name that no row has. */
export function checkNames({ rows: names }: Pick<RedoOptions, "rows">, rows: readonly Pick<KeyedRow, "key">[]): void {
  const keys = new Set(rows.map(({ key }) => key));
  if (names === "all") {
    if (keys.has("all") && keys.size > 1)
      throw usage(
        '--redo all means every row, but a row has the id "all". Nothing was sent.',
        "Name the rows instead.",
      );
    return;
  }
  for (const name of names) {
    if (keys.has(name)) continue;
    const guess = findSimilar(name, [...keys]);
    const hint = guess === undefined ? "--redo takes the ids of rows, with commas between them." : undefined;
    throw usage(
      `--redo: no row has the id "${shorten(name)}".${guess === undefined ? "" : ` Did you mean ${guess}?`} Nothing was sent.`,
      hint,
    );
  }
}

/** The attempts at a row: the one that decides its state, and all, with those that a redo has replaced. */
export type RowAttempts = { current: Entry | undefined; all: readonly Entry[] };

type RedoDependencies = {
  redos: Redos;
  attemptsOf(row: KeyedRow): RowAttempts;
  /** Whether an attempt is at another request than the row has now. */
  isEdited(row: KeyedRow, attempt: Entry): boolean;
  faults: Faults;
};

/**
 * Marks the rows that a redo makes again: those it names, and all that begin with the frame of such a row. A row is made again only once it has
 * a video, and not while an earlier redo of it has not ended: that one is continued. Returns the named rows that a redo has already made. What
 * cannot be made again now becomes a fault.
 */
export function markRedone(
  rows: readonly PlannedRow[],
  { rows: names, again = false, name }: RedoOptions,
  { redos: { newest }, attemptsOf, isEdited, faults }: RedoDependencies,
): PlannedRow[] {
  const redoOf = ({ key }: PlannedRow) => newest.get(key)?.redo;
  const unended = new Set(rows.map((row) => (hasEnded(row, attemptsOf(row)) ? undefined : redoOf(row))));
  const isContinued = (row: PlannedRow) => redoOf(row) !== undefined && unended.has(redoOf(row));
  const dependents = new Map<string, PlannedRow[]>();
  for (const row of rows)
    if (row.source !== undefined) dependents.set(row.source, [...(dependents.get(row.source) ?? []), row]);
  const named = names === "all" ? rows : rows.filter(({ key }) => names.includes(key));
  const upToDate: PlannedRow[] = [];
  const redone = new Set<PlannedRow>();
  for (const row of named) {
    if (isContinued(row)) continue;
    const { current } = attemptsOf(row);
    if (!isMade(row, current)) {
      if (row.state.kind === "running") faults.add(`is not finished; ${finishFirst}`, row);
    } else if (!again && wasRedone(row, current) && !isEdited(row, current)) upToDate.push(row);
    else redone.add(row);
  }
  // A set is iterated in the order of insertion, including what is added meanwhile.
  for (const { key, line } of redone) {
    for (const next of dependents.get(key) ?? []) {
      const isRunning = next.state.kind === "running" && !isMade(next, attemptsOf(next).current);
      if (isContinued(next) || isRunning)
        faults.add(`is not finished, and begins with the frame of line ${line}; ${finishFirst}`, next);
      else if (isMade(next, attemptsOf(next).current)) redone.add(next);
    }
  }
  for (const row of redone) {
    const { current, all } = attemptsOf(row);
    const replaces = all.map(({ attempt }) => attempt);
    const redone = { row: row.key, request: row.hash, replaces };
    row.state = { kind: "new", dismissed: [], redo: name, redone, old: current };
  }
  return upToDate.filter((row) => !redone.has(row));

  function wasRedone({ key }: PlannedRow, { redo }: Entry): boolean {
    return redo !== undefined || newest.has(key);
  }
}

const finishFirst = "run the same line without --redo first. Nothing was sent";

/** Whether the newest redo of a row has ended. */
function hasEnded(row: PlannedRow, { current }: RowAttempts): boolean {
  return isMade(row, current) || (current !== undefined && kindOfRow(current) === "failed");
}

/** Whether a row has a video that was handed over. Its file may be gone. */
function isMade({ state }: PlannedRow, current: Entry | undefined): current is Entry {
  return current !== undefined && (state.kind === "done" || current.state === "delivered");
}

/** The old video of a row, and the free path where it is kept. */
export type KeptVideo = { id: string; content: Content; from: string; to: string };

/** Where to keep the video of an earlier attempt; `undefined` if the file is another one. `taken` are the output paths of rows. */
export async function findKeptVideo(
  file: string,
  { id, content }: Pick<Entry, "id" | "content">,
  { taken, disk }: { taken: ReadonlySet<string>; disk: Disk },
): Promise<KeptVideo | undefined> {
  if (id === undefined || content === undefined || !(await hasContent(file, content, disk))) return undefined;
  const extension = extname(file);
  const name = file.slice(0, file.length - extension.length);
  for (let n = 1; ; n++) {
    const to = `${name}.take-${n}${extension}`;
    if (taken.has(to)) continue;
    // A killed process may have created the second name already.
    if ((await kindOf(to, disk)) === "none" || (await hasContent(to, content, disk)))
      return { id, content, from: file, to };
  }
}

/** Renames the old video of a row, and its info file, before the row is started again. Does nothing the second time. Throws `output`. */
export async function keepVideo({ id, content, from, to }: KeptVideo, service: Service): Promise<void> {
  const { disk } = service.io;
  try {
    if (!(await hasContent(from, content, disk))) return;
    await record(service, { kind: "delivered", id, file: resolve(to), ...content });
    if (await hasInfo(from, id, disk)) await renameNew(infoPath(from), infoPath(to), disk);
    if (await hasContent(to, content, disk)) await disk.rm(from);
    else await renameNew(from, to, disk);
  } catch (error) {
    throw outputError(error, to);
  }
}
