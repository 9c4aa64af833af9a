import { posix } from "node:path";
import type { Earlier } from "../../src/client/ledger/policy.ts";
import type { Process } from "./machine.ts";
import type { Run } from "./people.ts";
import type { Post } from "./service.ts";

/** Several that one line asks for. */
export type TakeRun = {
  name: string;
  count: number;
  attempts: Attempt[];
  /** The processes that had its lease. */
  holders: readonly Process[];
};

/** What the rules of `submit.md` know of an attempt: from the service, and from what the people saw. Never from the client's own thoughts. */
export type Attempt = {
  attempt: string;
  /** Its Idempotency-Key. */
  key: string;
  run: Run;
  /** What was asked for about earlier ones. */
  earlier: Earlier;
  /** Whether a program gave the key. */
  isNamed: boolean;
  /** Which one it was to be written down: those before it were there to be seen. */
  place: number;
  /** Without the style of vidgen.json. */
  prompt: string;
  /** What vidgen.json and stdin gave. */
  styleAndImage: string;
  /** The same with what the saved settings gave. */
  untyped: string;
  /** The folder of the vidgen.json that gave something. */
  project: string | undefined;
  /** The base URL of its service. */
  service: string;
  model: string;
  seed: number | undefined;
  /** Without a difference of spelling. */
  output: string | undefined;
  /** As it was typed. */
  typed: string | undefined;
  /** The id of the generation that it repeats. */
  parent: string | undefined;
  /** Which one it is of several. */
  take: { run: TakeRun; position: number } | undefined;
  intentAt: number;
  kind: "generate" | "batch" | "mcp";
  noWait: boolean;
  row: string | undefined;
  /** The redo that makes the row again. */
  redo: string | undefined;
  rowsFile: string | undefined;
  posts: Post[];
  delivered: Post[];
  holders: Process[];
  /** Those that took it over. */
  resumedBy: Run[];
  /** Why another one may be started; for `generate` alone, or for all. */
  overFor: Set<"all" | "generate">;
  /** The service said readably that it does not start it. */
  isRefused: boolean;
  /** Those whom the service has told that it cannot say whether it was charged. */
  unclearTo: Set<Process>;
  id: string | undefined;
  /** A line of the journal says that it was accepted: before that no other process can know its id, or be sure of it. */
  isIdWritten: boolean;
  /** Something was written down about it after its intent. */
  hasOutcome: boolean;
  /** Its process has written that its outcome is unknown. */
  isUnknown: boolean;
  /** The disk has failed at the journal since its intent: its outcome may be nowhere, however long its process lives. */
  isUnwritten: boolean;
  dismissedAt: number | undefined;
  /** Somebody has removed it from the journal, and confirmed that. */
  forgottenAt: number | undefined;
  /** Since when the service has said, in its own JSON and to the same key, that it does not know it. */
  unknownSince: number | undefined;
  /** Its generation was deleted. */
  isDeleted: boolean;
  /** Those whom the service has told last that it is completed. */
  completedTo: Set<Process>;
  isAddressTold: boolean;
  /** Its id was handed over, of one that nobody waits for. */
  isTold: boolean;
  /** Somebody has deleted the results file that told of it. */
  isWithoutResults: boolean;
};

const hourMs = 3_600_000;

/** Whether the rules allow another start beside this attempt. */
export function allows(other: Attempt, mine: Attempt, now: number): boolean {
  if (other.posts.length === 0) return true;
  // A key stands for one start for ever, whatever has become of that.
  if (mine.isNamed) return other.isRefused || (other.dismissedAt !== undefined && !isSureOf(other));
  if (other.dismissedAt !== undefined || other.forgottenAt !== undefined || other.overFor.has("all")) return true;
  // A position that was delivered before its video was deleted is done.
  const isPosition = mine.take !== undefined && other.take !== undefined;
  if (other.isDeleted && !(isPosition && isDelivered(other))) return true;
  // What is finished at another path of the host is another service's, and so is what a batch has there.
  if (mine.kind === "batch") return other.service !== mine.service && (isDelivered(other) || other.isTold);
  // What differs in what nobody typed is no candidate: it only stops an accident.
  const isChanged = other.untyped !== mine.untyped && isSameTyped(other, mine);
  if (mine.take && other.take && !isChanged) return allowsTake(other.take.run, mine.take.run, mine, now);
  const isReuse = mine.earlier === "reuse" && !isChanged;
  const ageMs = mine.intentAt - other.intentAt;
  // Nothing unfinished has an age.
  if (isReuse) return ageMs >= 24 * hourMs && (other.overFor.has("generate") || other.isAddressTold);
  if (other.overFor.has("generate")) return true;
  if (isHandedOver(other)) return true;
  return isHeldBeside(other.holders, mine, now);
}

/** Whether a live process held it at some moment since the command was typed. */
function isHeldBeside(holders: readonly Process[], mine: Attempt, now: number): boolean {
  return holders.some(({ endedAt = now }) => endedAt > mine.run.process.startedAt);
}

/** A position of a run is paid for once, and a new run begins once each one before has all of them, or beside a live one. */
function allowsTake(other: TakeRun, own: TakeRun, mine: Attempt, now: number): boolean {
  if (other === own) return false;
  const [first = mine] = own.attempts;
  // A run that was begun with --again passes over those before it, also where a line without --again continues it.
  if (isAgain(first) && other.attempts.every(({ place }) => place < first.place)) return true;
  const isDone = (each: Attempt) => isDelivered(each) || each.dismissedAt !== undefined;
  const done = other.attempts.filter(isDone);
  const isComplete = new Set(done.map(({ take }) => take?.position)).size === other.count;
  return isComplete || isHeldBeside(other.holders, first, now);
}

/** Whether its result, or its id where that was all that was asked for, was handed over. */
function isDelivered(each: Attempt): boolean {
  return each.overFor.has("generate") || isHandedOver(each);
}

/** Whether its id was all that was asked for. */
function isHandedOver(each: Attempt): boolean {
  return each.noWait && (each.isTold || isPrinted(each));
}

/** Whether the journal says that it has a generation: one that is lost, or of which the service cannot say what it cost, is as none. */
function isSureOf({ isIdWritten, unknownSince, unclearTo }: Attempt): boolean {
  return isIdWritten && unknownSince === undefined && unclearTo.size === 0;
}

/** Whether its id went to stdout. */
function isPrinted({ id = "", run, resumedBy }: Attempt): boolean {
  return [run, ...resumedBy].some(({ said }) => said.stdout.toLowerCase().includes(id));
}

/** Whether the two ask for the same run. */
export function isSame(other: Attempt, mine: Attempt): boolean {
  if (other.kind !== mine.kind) return false;
  // A batch reads what other machines have written beside its rows; a run reads its journal.
  if (mine.kind !== "batch" && other.run.journal !== mine.run.journal) return false;
  if (mine.kind === "batch")
    return (
      other.row === mine.row &&
      other.rowsFile === mine.rowsFile &&
      (!other.isWithoutResults || other.run.journal === mine.run.journal)
    );
  // What a program has named is a candidate for that name alone, and so for any other request under it.
  if (mine.isNamed || other.isNamed) return mine.isNamed && other.isNamed && mine.key === other.key;
  if (other.prompt !== mine.prompt || other.seed !== mine.seed) return false;
  // Two people's keys in a prompt are two prompts, which look the same once the keys are hidden.
  if (mine.prompt.includes("[key]") && other.run.key !== mine.run.key) return false;
  if (!isSameRequest(other, mine) && !isSameTyped(other, mine)) return false;
  if (mine.parent !== undefined && other.parent !== mine.parent) return false;
  if (mine.take) return isSameTake(other, mine);
  return mine.earlier === "reuse" || isSameOutput(other, mine);
}

/** Whether the two ask the service for the same. */
function isSameRequest(other: Attempt, mine: Attempt): boolean {
  return other.model === mine.model && other.styleAndImage === mine.styleAndImage;
}

/** Whether they go to the same place. Only a place that neither line has typed may have changed since. */
function isSameOutput(other: Attempt, mine: Attempt): boolean {
  return other.output === mine.output || (isPlaceOpen(other) && isPlaceOpen(mine));
}

function isPlaceOpen({ run: { command } }: Attempt): boolean {
  return command.type === "generate" && command.settings?.output !== undefined;
}

function isSameTake(other: Attempt, mine: Attempt): boolean {
  const models = modelsOf(mine);
  const isSameLine = other.parent === mine.parent && isSameOutput(other, mine) && modelsOf(other) === models;
  if (!isSameLine || other.take?.run.count !== mine.take?.run.count) return false;
  // Of several models, each is a position, whatever number it has.
  return models !== undefined || other.take?.position === mine.take?.position;
}

/** The models of a line with several, in one order. */
function modelsOf({ run: { command } }: Attempt): string | undefined {
  return command.type === "generate" ? command.models?.toSorted().join() : undefined;
}

/** Whether the same line with `last` has started both. */
export function isSameLast(other: Attempt, mine: Attempt): boolean {
  const [one, two] = [other.run.command, mine.run.command];
  if (one.type !== "generate" || two.type !== "generate" || one.again !== "last" || two.again !== "last") return false;
  if (other.run.journal !== mine.run.journal) return false;
  const isSameRequest = one.keepsPrompt === two.keepsPrompt && (two.keepsPrompt || one.prompt === two.prompt);
  return (
    isPiped(one) === isPiped(two) &&
    isSameRequest &&
    one.count === two.count &&
    modelsOf(other) === modelsOf(mine) &&
    plainPath(one.place) === plainPath(two.place)
  );
}

function isPiped({ piped }: Run["command"] & { type: "generate" }): boolean {
  return piped !== undefined;
}

/** Whether the same line of the same project has started both, with another vidgen.json, other settings or other bytes on stdin. */
function isSameTyped(other: Attempt, mine: Attempt): boolean {
  const [one, two] = [other.run.command, mine.run.command];
  if (one.type !== "generate" || two.type !== "generate" || other.parent !== mine.parent) return false;
  const isSameRequest = one.again === two.again && one.keepsPrompt === two.keepsPrompt && one.prompt === two.prompt;
  const isSameRun = one.count === two.count && modelsOf(other) === modelsOf(mine) && isPiped(one) === isPiped(two);
  const isSameModel = other.model === mine.model || (isModelOpen(one) && isModelOpen(two));
  return isSameRequest && isSameRun && isSameModel && other.project === mine.project && isSameOutput(other, mine);
}

function isModelOpen({ settings }: Run["command"] & { type: "generate" }): boolean {
  return settings?.model !== undefined;
}

/** A path without a difference of spelling. */
export function plainPath(path: string | undefined): string | undefined {
  return path && posix.normalize(path).replace(/^\/+/, "/");
}

/** Whether a new one was asked for, whatever there is. */
export function isAgain({ earlier, isNamed, run: { command } }: Attempt): boolean {
  return command.type === "batch" ? command.retryUnknown : !isNamed && earlier === "again";
}

/** Whether one of the two can see whether the other lives. */
export function isNear({ id: one }: Process, { id: other }: Process): boolean {
  return one.machine === other.machine && one.namespace === other.namespace && one.start !== "-";
}

export function kindOf(line: Record<string, unknown>): Attempt["kind"] {
  if (line.batch !== undefined) return "batch";
  return line.mcp === true ? "mcp" : "generate";
}

export function nameOf({ kind, prompt, row }: Attempt): string {
  return kind === "batch" ? `row ${row}` : `"${prompt}"`;
}
