import type { ErrorCode } from "../errors.ts";

/** How a generation, or a row of a batch, has ended for this run; `processing` when it still runs. */
export type EndStatus = "completed" | "failed" | "refused" | "unsent" | "unknown" | "processing";

/** An error as `--json` and `--events` show it. */
export type ErrorFields = {
  code: ErrorCode;
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
      error: ErrorFields | null;
    }
  /** Something that ended the command, or a part of it, early. */
  | { event: "error"; error: ErrorFields }
);
