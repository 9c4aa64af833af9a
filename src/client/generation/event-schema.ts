import * as z from "zod";
import { type CommandErrorCode, exits } from "../../errors.ts";
import { statuses } from "../ledger/attempt.ts";

// The shape of each event, once: `events.ts` has the types, and `help --json` the JSON Schema. Only the latter loads this file.

const text = z.string();
const textOrNull = text.nullable();
const number = z.number();
const whole = z.number().int().min(0);
const codes = Object.keys(exits).filter((name) => name !== "ok") as CommandErrorCode[];

/** An error as `--json` and `--events` show it. */
export const errorFields = z.object({
  code: z.enum(codes),
  message: text,
  hint: textOrNull,
  id: textOrNull,
  http_status: z.number().int().nullable(),
});

/** How a generation, or a row of a batch, has ended for this run; `processing` when it still runs, `lost` when the service does not know it. */
export const endStatus = z.enum(statuses).exclude(["starting", "dismissed", "deleted"]);

/** What it cost, where that is known: in credits, and in USD where the service has told it. */
export const price = { credits: number.optional(), cost: number.optional() };

/** Of a row that is done: whether it was charged, where that was stated. */
const charged = z.enum(["yes", "no"]).optional();

export const end = { id: textOrNull, status: endStatus, file: textOrNull, video_url: textOrNull, ...price, charged };

/** Set for the rows of a batch. */
const ofRow = { row: text.optional(), line: whole.optional() };

/** What happens to generations, as `--events` and the library's `batch` tell it. */
export const generationEvent = z.union([
  /** The service has accepted it, or an earlier run has started it (`resumed`). */
  z.object({
    event: z.literal("started"),
    id: text,
    resumed: z.boolean(),
    attempt: text.optional(),
    model: text.optional(),
    remaining_credits: number.optional(),
    /** What it cost, where that is known. */
    credits: number.optional(),
    /** Where it is not known: by how much less is left than before. Others may have spent too, or bought. */
    balance_fell: number.optional(),
    ...ofRow,
  }),
  /** The service reports another status than before, in its own word. */
  z.object({ event: z.literal("state"), id: text, status: text, ...ofRow }),
  /** The bytes of the video so far; at most one a second for each generation. */
  z.object({
    event: z.literal("progress"),
    id: text,
    received: whole,
    total: z.number().int().nullable(),
    ...ofRow,
  }),
  z.object({ event: z.literal("saved"), id: text, file: text, ...ofRow }),
  z.object({ event: z.literal("ended"), ...end, error: errorFields.nullable(), ...ofRow }),
  /** Something that ended the command, or a part of it, early. */
  z.object({ event: z.literal("error"), error: errorFields, ...ofRow }),
]);

/** How the film of `batch --join` was made; with `up_to_date` it was there already, joined from the same videos. */
export const film = { file: text, copied: z.boolean(), frames: whole, seconds: number, up_to_date: z.boolean() };

/** What happens to the film of a batch, as `--events` tells it. */
export const filmEvent = z.union([
  z.object({ event: z.literal("joining"), file: text, percent: whole }),
  z.object({ event: z.literal("joined"), ...film }),
]);

/** How many generations, or rows of a batch, ended how; the sum of the others, and of `to_start`, is `total`. */
export const eventCounts = z.object({
  total: whole,
  /** Completed, and saved where that was asked for. */
  done: whole,
  /** Still running, or its video is still to be saved. */
  running: whole,
  failed: whole,
  refused: whole,
  unsent: whole,
  /** May have been charged. */
  unknown: whole,
  /** Charged, and the service no longer knows the generation. */
  lost: whole,
});

export const batchCounts = z.object({
  ...eventCounts.shape,
  /** Not started in this run, or not yet. */
  to_start: whole,
  remaining_credits: number.nullable(),
  /** What this run's videos cost in USD; null where the service tells none. */
  cost: number.nullable(),
});

/** The last event of a command; a batch counts its rows, and adds counts of its own. */
export const summaryEvent = z.object({
  event: z.literal("summary"),
  exit_code: whole,
  ...batchCounts.partial().shape,
  ...eventCounts.shape,
});
