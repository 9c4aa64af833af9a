import type { Earlier } from "../../src/client/ledger/policy.ts";
import type { Process } from "./machine.ts";
import type { Run } from "./people.ts";
import type { Post } from "./service.ts";

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
  prompt: string;
  output: string | undefined;
  intentAt: number;
  kind: "generate" | "batch" | "mcp";
  noWait: boolean;
  row: string | undefined;
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
  /** The disk has failed at the journal since its intent: its outcome may be nowhere, however long its process lives. */
  isUnwritten: boolean;
  dismissedAt: number | undefined;
  /** Since when the service has said, in its own JSON and to the same key, that it does not know it. */
  unknownSince: number | undefined;
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
  if (other.dismissedAt !== undefined || other.overFor.has("all")) return true;
  if (mine.kind === "batch") return false;
  const isReuse = mine.earlier === "reuse";
  const ageMs = mine.intentAt - other.intentAt;
  // Nothing unfinished has an age.
  if (isReuse) return ageMs >= 24 * hourMs && (other.overFor.has("generate") || other.isAddressTold);
  if (other.overFor.has("generate")) return true;
  if (other.noWait && (other.isTold || isPrinted(other))) return true;
  // Held by a live process at some moment since this command was typed.
  return other.holders.some(({ endedAt = now }) => endedAt > mine.run.process.startedAt);
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
  if (other.prompt !== mine.prompt) return false;
  return mine.earlier === "reuse" || other.output === mine.output;
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
