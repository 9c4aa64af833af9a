import type { Entry, RedoneRow } from "../ledger/history.ts";
import type { KeptKey, StartedEntry } from "../ledger/policy.ts";
import type { KeptVideo } from "./kept-video.ts";
import type { KeyedRow } from "./row.ts";

/** What a run does with a row. */
export type RowState =
  /** `isFound` if the video is in its file although neither the journal nor the results file says so. */
  | { kind: "done"; id: string; file: string | undefined; isFound?: boolean }
  /** Started and not done: it is polled, and its video saved. */
  | { kind: "running"; attempt: StartedEntry }
  /** Its video was saved, and then deleted by the user: not started again. */
  | { kind: "deleted"; attempt: StartedEntry }
  | NewState
  /** May have been charged, was charged and is lost, or was refused or failed: not started again. */
  | { kind: "unknown" | "lost" | "failed"; attempt: Entry }
  /** Not started, because a row that it depends on is not started again. */
  | { kind: "blocked"; by: KeyedRow; isDeleted: boolean };

/** Will be started. */
export type NewState = {
  kind: "new";
  /** The attempts that may have been charged and are ignored from now on. */
  dismissed: Entry[];
  /**
   * The row's unclear attempt, whose key is sent again. If its request differs by its first frame, a new key
   * is sent with --retry-unknown alone.
   */
  resends?: { key: KeptKey; entry: Entry; dismissedIfChanged: Entry[] | undefined } | undefined;
  /**
   * The redo that makes the row again: see `RedoLine`. `redoneRow` is set if the redo begins in this run,
   * which first writes it to the results file.
   */
  redo?: string | undefined;
  redoneRow?: RedoneRow;
  /** The names of the earlier attempts at the row, which its redo replaces. */
  replaces?: readonly string[] | undefined;
  /** The attempt that the redo replaces, and its video if the new video would overwrite it. */
  replacedAttempt?: Entry | undefined;
  keptVideo?: KeptVideo | undefined;
};

export type PlannedRow = KeyedRow & { state: RowState };
