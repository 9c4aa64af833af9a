import type { WireBatchEvent } from "../client/batch/iterate.ts";
import type { CommandErrorCode, ErrorCode } from "../errors.ts";
import { restateHint } from "./errors.ts";

/** The error in an event of a batch. */
export type BatchError = {
  /** The kind of error: one of the names of the exit codes. */
  code: ErrorCode;
  /** What happened, in words. */
  message: string;
  /** What to do next. */
  hint: string | null;
  /** The id of the generation, if it is known. */
  id: string | null;
  /** The name of the start, a UUID, if there was one. It was sent as the Idempotency-Key. */
  idempotencyKey: string | null;
  /** Whether the generation was charged, if that is known; "maybe" if the start got no usable response. */
  charged?: "yes" | "no" | "maybe" | undefined;
  /** The HTTP status of the reply, if there was one. */
  httpStatus: number | null;
};

/** An event of a batch. The last one is the summary; before it comes the error that stopped the starts, if any. */
export type BatchEvent = {
  /** When it happened; ISO 8601, UTC. */
  at: string;
} & (BatchRowEvent | BatchSummary);

/** An event about a row, or the error that stopped the starts. */
export type BatchRowEvent = {
  /** The name of the row: its `id`, else one derived from the request. Absent in `error`. */
  row?: string | undefined;
  /** The position of the row, from 1. Absent in `error`. */
  line?: number | undefined;
} & (
  | {
      /** The service accepted the row's start, or an earlier run had started it. */
      event: "started";
      /** The id of the generation. */
      id: string;
      /** The name of the start, a UUID: it was sent as the Idempotency-Key. */
      idempotencyKey?: string | undefined;
      /** The model of the row. */
      model?: string | undefined;
      /** Whether an earlier run had started it; then nothing was charged now. */
      resumed: boolean;
      /** The credits of the account after the start, if the service states them. */
      remainingCredits?: number | undefined;
      /** What the start cost in credits, if that is known. */
      credits?: number | undefined;
      /** By how many credits the balance fell, if the cost is not known. Others may have spent too. */
      balanceFell?: number | undefined;
      /** What the service warns about, such as a field without effect. */
      warnings?: readonly string[] | undefined;
    }
  | {
      /** The service reports a new status. */
      event: "state";
      /** The id of the generation. */
      id: string;
      /** The service's own word. */
      status: string;
    }
  | {
      /** A part of the video has arrived; reported at most once a second for each generation. */
      event: "progress";
      /** The id of the generation. */
      id: string;
      /** The received bytes. */
      received: number;
      /** The total bytes, if the server states them. */
      total: number | null;
    }
  | {
      /** The video was saved. */
      event: "saved";
      /** The id of the generation. */
      id: string;
      /** The path of the file. */
      file: string;
    }
  | {
      /** The row has ended for this run. */
      event: "ended";
      /** The id of the generation, if the service sent one. */
      id: string | null;
      /**
       * How it ended: `processing` if it is still running, `lost` if the service no longer knows it, `unsent`
       * if nothing was sent, and `unknown` if it may have been charged.
       */
      status: "completed" | "failed" | "lost" | "refused" | "unsent" | "unknown" | "processing";
      /** The path of the video, if it was saved. */
      file: string | null;
      /** The URL of the video. */
      videoUrl: string | null;
      /** What it cost in credits, if that is known. */
      credits?: number | undefined;
      /** What an engine of `vidgen serve` charged for it, in USD. */
      cost?: number | undefined;
      /** Whether a done row was charged, if that is known. */
      charged?: "yes" | "no" | undefined;
      /** Why it is not done. */
      error: BatchError | null;
    }
  | {
      /** Nothing more is started. */
      event: "error";
      /** Why. */
      error: BatchError;
    }
);

/** The counts of a batch's rows at the end of a run. */
export type BatchSummary = {
  /** The run is over. */
  event: "summary";
  /** The number of rows: the sum of `done` to `toStart`. */
  total: number;
  /** Rows that are completed, and saved if requested. */
  done: number;
  /** Rows that are still running, or not saved yet. */
  running: number;
  /** Rows whose generation failed. */
  failed: number;
  /** Rows that the service refused. */
  refused: number;
  /** Rows that were not sent. */
  unsent: number;
  /** Rows that may have been charged. */
  unknown: number;
  /** Rows that were charged, and whose generation the service no longer knows. */
  lost: number;
  /** Rows that were not started. */
  toStart: number;
  /** The credits of the account, if the service states them. */
  remainingCredits: number | null;
  /** What engines of `vidgen serve` charged for the videos of this run, in USD. */
  cost: number | null;
};

/** Converts a name in `--events` to the library's name. */
type PublicName<Name> = Name extends "attempt"
  ? "idempotencyKey"
  : Name extends `${infer First}_${infer Rest}`
    ? `${First}${Capitalize<PublicName<Rest>>}`
    : Name;

/** The library's error codes do not include those for signals. */
type WithPublicNames<Value> = Value extends readonly string[]
  ? Value
  : Value extends object
    ? { [Name in keyof Value as PublicName<Name>]: WithPublicNames<Value[Name]> }
    : Value extends CommandErrorCode
      ? Extract<Value, ErrorCode>
      : Value;

/** Converts an event to the library's names. */
export function toBatchEvent(event: WireBatchEvent): BatchEvent {
  return withPublicNames(event) as WithPublicNames<WireBatchEvent>;
}

function withPublicNames(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const renamed = Object.entries(value).map(([name, each]) => [
    toPublicName(name),
    name === "hint" && typeof each === "string" ? restateHint(each) : withPublicNames(each),
  ]);
  return Object.fromEntries(renamed);
}

function toPublicName(name: string): string {
  return name === "attempt" ? "idempotencyKey" : name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}
