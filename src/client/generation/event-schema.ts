import * as z from "zod";
import { type CommandErrorCode, exits } from "../../errors.ts";
import { statuses } from "../ledger/attempt.ts";

// The schema of the events. `events.ts` infers its types; only `help --json` loads this file, for the JSON Schema.

const text = z.string();
const textOrNull = text.nullable();
const number = z.number();
const wholeNumber = z.number().int().min(0);
const codes = Object.keys(exits).filter((name) => name !== "ok") as CommandErrorCode[];

/** A command that continues after an error; `pays` is true where it can start a generation. */
const nextCommand = z.object({ argv: z.array(text), pays: z.boolean() });

/** An error as `--json` and `--events` show it. */
export const errorFields = z.object({
  code: z.enum(codes),
  message: text,
  hint: textOrNull,
  id: textOrNull,
  attempt: textOrNull,
  /** Whether the generation was charged: "maybe" where it is unclear; left out where nobody has said so. */
  charged: z.enum(["yes", "no", "maybe"]).optional(),
  http_status: z.number().int().nullable(),
  /** Left out for a row of a batch, because the batch's own error has the command. */
  next: z.array(nextCommand).optional(),
});

/** How a generation or a row ended in this run: `processing` if it still runs, `lost` if the service no longer knows it. */
export const endStatus = z.enum(statuses).exclude(["starting", "dismissed", "deleted"]);

/** The cost, if known: in credits, and in USD if the service states it. */
export const price = { credits: number.optional(), cost: number.optional() };

/** Whether a done row was charged, if that is known. */
const charged = z.enum(["yes", "no"]).optional();

export const end = { id: textOrNull, status: endStatus, file: textOrNull, video_url: textOrNull, ...price, charged };

/** Set for the rows of a batch. */
const ofRow = { row: text.optional(), line: wholeNumber.optional() };

/** The events of generations in `--events` and the library's `batch`. */
export const generationEvent = z.union([
  /** The service accepted the generation, or an earlier run started it (`resumed`). */
  z.object({
    event: z.literal("started"),
    id: text,
    resumed: z.boolean(),
    attempt: text.optional(),
    model: text.optional(),
    remaining_credits: number.optional(),
    /** The cost, if known. */
    credits: number.optional(),
    /** By how much the balance fell, if the cost is not known. Other users may have changed the balance too. */
    balance_fell: number.optional(),
    /** What the service warns about, such as a field without effect. */
    warnings: z.array(text).readonly().optional(),
    ...ofRow,
  }),
  /** The service reports a new status, in its own words. */
  z.object({ event: z.literal("state"), id: text, status: text, ...ofRow }),
  /** The downloaded bytes of the video; at most one event per second for each generation. */
  z.object({
    event: z.literal("progress"),
    id: text,
    received: wholeNumber,
    total: z.number().int().nullable(),
    ...ofRow,
  }),
  z.object({ event: z.literal("saved"), id: text, file: text, ...ofRow }),
  z.object({ event: z.literal("ended"), ...end, error: errorFields.nullable(), ...ofRow }),
  /** An error that ended the command, or a part of it, early. */
  z.object({ event: z.literal("error"), error: errorFields, ...ofRow }),
]);

/** The film of `batch --join`; `up_to_date` if it already existed, joined from the same videos. */
export const film = { file: text, copied: z.boolean(), frames: wholeNumber, seconds: number, up_to_date: z.boolean() };

/** The events of a batch's film in `--events`. */
export const filmEvent = z.union([
  z.object({ event: z.literal("joining"), file: text, percent: wholeNumber }),
  z.object({ event: z.literal("joined"), ...film }),
]);

/** The number of generations, or rows of a batch, in each state; together with `to_start` they add up to `total`. */
export const eventCounts = z.object({
  total: wholeNumber,
  /** Completed, and saved if requested. */
  done: wholeNumber,
  /** Still running, or not saved yet. */
  running: wholeNumber,
  failed: wholeNumber,
  refused: wholeNumber,
  unsent: wholeNumber,
  /** May have been charged. */
  unknown: wholeNumber,
  /** Charged, and the service no longer knows the generation. */
  lost: wholeNumber,
});

export const batchCounts = z.object({
  ...eventCounts.shape,
  /** Not started in this run, or not yet. */
  to_start: wholeNumber,
  remaining_credits: number.nullable(),
  /** The cost of this run's videos in USD; null if the service states none. */
  cost: number.nullable(),
});

/** The last event of a command; a batch counts its rows, and adds counts of its own. */
export const summaryEvent = z.object({
  event: z.literal("summary"),
  exit_code: wholeNumber,
  ...batchCounts.partial().shape,
  ...eventCounts.shape,
});
