import type { CommandErrorCode, VidgenError } from "../../errors.ts";
import type { Status } from "../ledger/attempt.ts";

/** How a generation, or a row of a batch, has ended for this run; `processing` when it still runs, `lost` when the service does not know it. */
export type EndStatus = Exclude<Status, "starting" | "dismissed">;

/** How far a generation is that could not be collected; `status` is what the service said last. */
export function endStatusOf(error: VidgenError, status: string | undefined): EndStatus {
  if (error.code === "not_found") return "lost";
  return error.ended ?? (status === "completed" ? "completed" : "processing");
}

/** An error as `--json` and `--events` show it. */
export type ErrorFields = {
  code: CommandErrorCode;
  message: string;
  hint: string | null;
  id: string | null;
  http_status: number | null;
};

/** What happens to generations, as `--events` and the library's `batch` tell it. `row` and `line` are set for the rows of a batch. */
export type GenerationEvent = { row?: string | undefined; line?: number | undefined } & (
  | {
      /** The service has accepted it, or an earlier run has started it (`resumed`). */
      event: "started";
      id: string;
      attempt?: string | undefined;
      model?: string | undefined;
      resumed: boolean;
      remaining_credits?: number | undefined;
      /** What it cost, where that is known. */
      credits?: number | undefined;
      /** Where it is not known: by how much less is left than before. Others may have spent too, or bought. */
      balance_fell?: number | undefined;
    }
  /** The service reports another status than before, in its own word. */
  | { event: "state"; id: string; status: string }
  /** The bytes of the video so far; at most one a second for each generation. */
  | { event: "progress"; id: string; received: number; total: number | null }
  | { event: "saved"; id: string; file: string }
  | {
      event: "ended";
      id: string | null;
      status: EndStatus;
      file: string | null;
      video_url: string | null;
      credits?: number | undefined;
      /** What it cost in USD, where the service has told it. */
      cost?: number | undefined;
      error: ErrorFields | null;
    }
  /** Something that ended the command, or a part of it, early. */
  | { event: "error"; error: ErrorFields }
);

/** What happens to the film of a batch, as `--events` tells it. */
export type FilmEvent =
  | { event: "joining"; file: string; percent: number }
  /** With `up_to_date` it was there already, joined from the same videos. */
  | { event: "joined"; file: string; copied: boolean; frames: number; seconds: number; up_to_date: boolean };

/** How many generations, or rows of a batch, ended how; the sum of the others is `total`. */
export type EventCounts = {
  total: number;
  /** Completed, and saved where that was asked for. */
  done: number;
  /** Still running, or its video is still to be saved. */
  running: number;
  failed: number;
  refused: number;
  unsent: number;
  /** May have been charged. */
  unknown: number;
  /** Charged, and the service no longer knows the generation. */
  lost: number;
};

/** The last event of a command; a batch counts its rows, and adds counts of its own. */
export type SummaryEvent = { event: "summary"; exit_code: number } & EventCounts;

const progressMs = 1_000;

/**
 * Tells of each event whether it is news: a state only when it differs from the last one of that generation, progress once a second for
 * each generation and when the video is complete, every other event always. `now` is a monotonic clock in milliseconds.
 */
export function createEventFilter(now: () => number): (event: GenerationEvent) => boolean {
  const told = new Map<string, { status?: string; progressAt?: number; received?: number }>();
  return (event) => {
    // A batch has more generations than memory should be kept for.
    if (event.event === "ended" && event.id !== null) told.delete(event.id);
    if (event.event !== "state" && event.event !== "progress") return true;
    const last = told.get(event.id) ?? {};
    told.set(event.id, last);
    if (event.event === "state") {
      if (event.status === last.status) return false;
      last.status = event.status;
      return true;
    }
    const isComplete = event.received === event.total;
    const isDue = last.progressAt === undefined || now() - last.progressAt >= progressMs;
    if (isComplete ? event.received === last.received : !isDue) return false;
    Object.assign(last, { progressAt: now(), received: event.received });
    return true;
  };
}

/** The fields of an error as a program gets them. */
export function errorFieldsOf({ code, message, hint, id, httpStatus }: VidgenError): ErrorFields {
  return { code, message, hint: hint ?? null, id: id ?? null, http_status: httpStatus ?? null };
}

/** Whether a start was refused for a reason that is not the row's own, such as the key or the credits: the next run tries again. */
export function isGeneral(code: CommandErrorCode | undefined): boolean {
  return code !== undefined && code !== "rejected";
}
