import { VidgenError } from "../../errors.ts";
import type { Disk } from "../../io.ts";
import { shorten } from "../../protocol/text.ts";
import { redactValue } from "../http/redaction.ts";
import { blocksRestart } from "../ledger/attempt.ts";
import { hasContent } from "../ledger/content.ts";
import { type Entry, keyOf } from "../ledger/history.ts";
import { asRead, differencesOf, isStarted } from "../ledger/policy.ts";
import { isSameService } from "../ledger/same-service.ts";
import { isNamed, markRedone, type RedoOptions, type RowAttempts } from "./redo.ts";
import type { Redos, RowRedo } from "./redo-lines.ts";
import { type FindRowKey, noAnswerError } from "./resend.ts";
import { hashRow, type KeyedRow } from "./row.ts";
import type { PlannedRow, RowState } from "./row-state.ts";
import type { Faults } from "./rows/faults.ts";
import { findDeciding, findElsewhere, groupByRow, kindOfRow, kindsLeftAlone } from "./status.ts";

export type PlanOptions = {
  retryFailed?: boolean | undefined;
  retryUnknown?: boolean | undefined;
  redo?: RedoOptions | undefined;
};

type PlanSources = { faults: Faults; redos: Redos; findRowKey: FindRowKey; onNote(text: string): void };

/** The rows with their states, and the rows that `redo` names but that an earlier redo has already made again. */
export type RowsPlan = { rows: PlannedRow[]; upToDate: PlannedRow[] };

/**
 * Decides about each row by its attempts: those at this service, and those at another path of its origin,
 * which may be the same service. Throws `usage` with all faults, such as a row whose request differs from
 * that of an earlier row with the same id, or for a row that is running elsewhere.
 */
export async function planRows(
  rows: readonly KeyedRow[],
  { here, elsewhere }: { here: readonly Entry[]; elsewhere: readonly Entry[] },
  { faults, redos, redo, findRowKey, onNote, ...options }: PlanOptions & PlanSources,
  disk: Disk,
): Promise<RowsPlan> {
  const byRow = groupByRow(here);
  const elsewhereByRow = groupByRow(elsewhere);
  const isReplaced = ({ attempt }: Entry) => redos.replacedAttempts.has(attempt);
  const attemptsOf = ({ key }: KeyedRow): RowAttempts => {
    const all = byRow.get(key) ?? [];
    return { current: findDeciding(all.filter((each) => !isReplaced(each))), all };
  };
  const planned: PlannedRow[] = [];
  const lines = new Map<string, number>();
  for (const row of rows) {
    const otherLine = lines.get(row.key);
    if (otherLine !== undefined) faults.add(`the id "${shorten(row.key)}" is also the id of line ${otherLine}`, row);
    lines.set(row.key, row.line);
    const all = byRow.get(row.key) ?? [];
    const currentAttempts = all.filter((each) => !isReplaced(each));
    // A row that `--redo` names and that has failed needs no --retry-failed.
    const retryFailed = options.retryFailed || isNamed(row, redo);
    const decided = await decideState(row, currentAttempts, { ...options, retryFailed, findRowKey, onNote }, disk);
    const other = decided.kind === "new" ? findElsewhere(elsewhereByRow.get(row.key) ?? []) : undefined;
    if (other && options.retryUnknown) onNote(retryNote(row, other));
    const state = other && !options.retryUnknown ? stateElsewhere(other, row) : decided;
    const newestRedo = redos.newestOfRow.get(row.key);
    if (state.kind === "new" && newestRedo) {
      state.redo = newestRedo.redo;
      const key = state.resends?.key.key;
      const others = all.filter((each) => keyOf(each) !== key).map(({ attempt }) => attempt);
      state.replaces = [...new Set([...newestRedo.replaces, ...others])];
      state.replacedAttempt = findDeciding(all.filter(isReplaced));
    }
    const { doubt, line } = row;
    if (doubt && state.kind === "new" && !state.resends) faults.add(doubt.text, { line, where: doubt.where });
    planned.push({ ...row, state });
  }
  const isEdited = (row: KeyedRow, attempt: Entry) => !isSame(row, attempt);
  const upToDate = redo === undefined ? [] : markRedone(planned, redo, { redos, attemptsOf, isEdited, faults });
  for (const row of planned) {
    const { current } = attemptsOf(row);
    const newestRedo = redos.newestOfRow.get(row.key);
    if (current && row.state.kind !== "new" && isEdited(row, current)) faults.add(changedFault(row, current), row);
    const isUnstarted = current === undefined || kindOfRow(current) === "missing";
    if (newestRedo && isUnstarted && ![row.hash, row.writtenHash].includes(newestRedo.request))
      faults.add(editedFault(row, newestRedo), row);
  }
  const byKey = new Map(planned.map((row) => [row.key, row]));
  for (const { source, line } of planned)
    if (source !== undefined && !byKey.has(source))
      faults.add("the row that it begins from is in another shard", { line });
  faults.throwIfAny();
  blockRows(planned, byKey);
  return { rows: planned, upToDate };
}

/**
 * Refuses a row without an id that has an unfinished attempt with other values of vidgen.json, because the
 * row would be paid for twice by accident. `attempts` are those at rows that the rows file no longer has.
 * With `retryUnknown`, attempts that may have been charged are dismissed instead. Throws `usage`, and
 * `unknown` for an attempt without an id.
 */
export function checkChanged(
  rows: readonly PlannedRow[],
  attempts: readonly Entry[],
  {
    retryUnknown,
    redact,
    service,
  }: Pick<PlanOptions, "retryUnknown"> & { redact(text: string): string; service: string },
): void {
  const unfinished = attempts.filter((entry) => ["running", "unknown", "lost"].includes(kindOfRow(entry)));
  if (unfinished.length === 0) return;
  for (const row of rows) {
    if (row.state.kind !== "new" || row.typed === undefined) continue;
    for (const entry of unfinished) {
      if (!isChanged(row, entry, redact)) continue;
      if (!retryUnknown || !blocksRestart(entry.state)) throw changedRowError(row, entry);
      // At another path of the origin it only stops: it may belong to another service.
      if (isSameService(entry.base_url, service)) row.state.dismissed.push(entry);
    }
  }
}

/** Whether an attempt at another row was typed as this one, and differs only in what that does not determine. */
function isChanged(
  { record, from, typed, olderTyped, untyped = [] }: KeyedRow,
  entry: Entry,
  redact: (text: string) => string,
): boolean {
  const names = new Set([...untyped, ...(entry.untyped ?? [])]);
  // By the older hash, VIDGEN_MODEL may have given another model, which is another video. A saved model is in `untyped`.
  const isOlder = olderTyped !== undefined && entry.typed === olderTyped && !names.has("model");
  if (names.size === 0 || (entry.typed !== typed && !isOlder)) return false;
  const differing = differencesOf(redactValue(record, redact), asRead(entry.request));
  if (isOlder && differing.length > 0 && differing.every((name) => name === "model")) return false;
  if (isOlder) names.add("model");
  // The typed line does not determine the first frame, which comes from another row's video.
  for (const name of from === undefined ? [] : ["imageUrl", "imageUrls"]) names.add(name);
  return differing.every((name) => names.has(name));
}

function changedRowError({ line }: KeyedRow, { id, attempt, at }: Entry): VidgenError {
  const when = `at ${at.slice(0, 16)}Z with other values of vidgen.json or the settings`;
  const undo = "Or undo the change in vidgen.json or in the settings: then this batch continues it.";
  if (id === undefined) {
    const message = `Line ${line} was sent ${when} and got no usable response: it may have been charged (attempt ${attempt}). Nothing was sent now.`;
    const hint = `If your account has no generation from that time, run \`vidgen list --dismiss ${attempt}\` and try again.\n${undo}`;
    return new VidgenError("unknown", message, { attempt, hint });
  }
  const message = `Line ${line} has started generation ${id} ${when}, and its video is not saved yet. Nothing was sent now.`;
  return new VidgenError("usage", message, {
    id,
    attempt,
    hint: `\`vidgen wait ${id} -o <file>\` saves it; after that the row is started, and charged.\n${undo}`,
  });
}

/** Blocks the rows whose first frame will be missing. */
function blockRows(rows: readonly PlannedRow[], byKey: ReadonlyMap<string, PlannedRow>): void {
  const checkedRows = new Set<PlannedRow>();
  for (const row of rows) {
    // Iterative, because a film may be one chain of thousands of rows.
    const chain: PlannedRow[] = [];
    for (let at: PlannedRow | undefined = row; at && !checkedRows.has(at); at = byKey.get(at.source ?? "")) {
      chain.push(at);
      checkedRows.add(at);
    }
    for (const each of chain.reverse()) {
      const source = byKey.get(each.source ?? "");
      if (each.state.kind !== "new" || source === undefined) continue;
      if (source.state.kind === "blocked") each.state = source.state;
      else if (kindsLeftAlone.has(source.state.kind))
        each.state = { kind: "blocked", by: source, isDeleted: source.state.kind === "deleted" };
    }
  }
}

async function decideState(
  row: KeyedRow,
  attempts: Entry[],
  options: PlanOptions & Pick<PlanSources, "findRowKey" | "onNote">,
  disk: Disk,
): Promise<RowState> {
  const attempt = findDeciding(attempts);
  if (attempt === undefined) return { kind: "new", dismissed: [] };
  const kind = kindOfRow(attempt);
  if (kind === "missing") return { kind: "new", dismissed: [] };
  if (kind === "failed") {
    return isSame(row, attempt) && !options.retryFailed ? { kind, attempt } : { kind: "new", dismissed: [] };
  }
  // A running attempt has no id if somebody edited its line.
  if (kind === "unknown" || kind === "lost" || !isStarted(attempt)) {
    return decideUnclear(row, attempts, attempt, options);
  }
  if (await isDone(row, attempt, disk)) return { kind: "done", id: attempt.id, file: attempt.file };
  return { kind: attempt.removed ? "deleted" : "running", attempt };
}

/**
 * The state of a row that an attempt at another path of the same origin stops. Throws `usage` if its
 * generation can be followed there.
 */
function stateElsewhere(attempt: Entry, { line }: KeyedRow): RowState {
  const kind = kindOfRow(attempt);
  if (kind === "unknown" || kind === "lost") return { kind, attempt };
  const { id, base_url, at } = attempt;
  const message = `Line ${line} has started generation ${id} at ${base_url} at ${at.slice(0, 16)}Z, and its video is not saved yet. Nothing was sent now.`;
  throw new VidgenError("usage", message, {
    id,
    attempt: attempt.attempt,
    hint: `\`vidgen wait ${id} --base-url ${base_url}\` takes its video. With --retry-unknown the row is started here too: it may be charged twice.`,
  });
}

function retryNote({ line }: KeyedRow, { id, attempt, base_url }: Entry): string {
  const named = id === undefined ? `attempt ${attempt}` : `generation ${id}`;
  return `Line ${line} is started although ${named} at ${base_url} may be the same: it may be charged twice.`;
}

/**
 * A row that may have been charged is started again if its key can be sent again, or with `retryUnknown`.
 * Throws `network` if that is unknown.
 */
async function decideUnclear(
  row: KeyedRow,
  attempts: readonly Entry[],
  attempt: Entry,
  { retryUnknown, findRowKey, onNote }: PlanOptions & Pick<PlanSources, "findRowKey" | "onNote">,
): Promise<RowState> {
  const unclear = attempts.filter(({ state }) => blocksRestart(state));
  const found = await findRowKey(unclear, (entry) => isSame(row, entry));
  const leftAlone: RowState = { kind: attempt.state === "lost" ? "lost" : "unknown", attempt };
  if (found.kind === "kept") {
    onNote(`Line ${row.line} got no answer. Sending the same request again; this service charges it once.`);
    const { key, entry } = found;
    return {
      kind: "new",
      dismissed: [],
      resends: { key, entry, dismissedIfChanged: retryUnknown ? unclear : undefined },
    };
  }
  if (found.kind === "alive") {
    onNote(`Line ${row.line} is left alone: a process still works on attempt ${found.attempt}.`);
    return leftAlone;
  }
  if (found.kind === "not asked")
    onNote(
      `Line ${row.line} got no usable response. Without --dry-run, this batch asks the service whether it keeps its key: if so, it is sent again, and cannot be charged twice.`,
    );
  if (!retryUnknown) return leftAlone;
  if (found.kind === "no answer") throw noAnswerError(row.line);
  if (found.kind === "not kept" && attempt.state !== "lost")
    onNote(`Line ${row.line} is sent with a new key, because ${found.why}: it may be charged twice.`);
  return { kind: "new", dismissed: unclear };
}

function isSame({ hash, writtenHash }: KeyedRow, { request, from }: Entry): boolean {
  const recorded = hashRow(request, from !== undefined);
  return recorded === hash || recorded === writtenHash || hashRow(asRead(request), from !== undefined) === hash;
}

/** Whether an attempt's file still has its video, or, if no file is wanted, its URL was returned. */
async function isDone({ outputPath }: KeyedRow, { state, place, file, content }: Entry, disk: Disk): Promise<boolean> {
  if (outputPath === undefined) return state === "delivered" || (state === "ready" && place !== undefined);
  return file !== undefined && content !== undefined && hasContent(file, content, disk);
}

function changedFault({ id = "", typed }: KeyedRow, earlier: Entry): string {
  const isTypedSame = typed !== undefined && earlier.typed === typed;
  const changed = isTypedSame ? ", or undo the change in vidgen.json or in the settings" : "";
  const outcome = earlier.id === undefined ? `attempt ${earlier.attempt}` : `generation ${earlier.id}`;
  return `"${shorten(id)}" is a different request from line ${earlier.line} of an earlier run, which was started at ${earlier.at.slice(0, 16)}Z (${outcome}); give this row another id${changed}, or make it again with --redo`;
}

function editedFault({ id = "" }: KeyedRow, { at }: RowRedo): string {
  return `"${shorten(id)}" is a different request from the one that --redo started at ${at.slice(0, 16)}Z; change it back until that redo has ended`;
}
