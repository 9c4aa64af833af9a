import type * as z from "zod";
import type { CommandErrorCode, VidgenError } from "../../errors.ts";
import type * as schema from "./event-schema.ts";

export type EndStatus = z.infer<typeof schema.endStatus>;
export type ErrorFields = z.infer<typeof schema.errorFields>;
export type GenerationEvent = z.infer<typeof schema.generationEvent>;
export type FilmEvent = z.infer<typeof schema.filmEvent>;
export type EventCounts = z.infer<typeof schema.eventCounts>;
export type BatchCounts = z.infer<typeof schema.batchCounts>;
export type SummaryEvent = z.infer<typeof schema.summaryEvent>;

/** The status of a generation whose video could not be saved; `status` is the service's last one. */
export function endStatusOf(error: VidgenError, status: string | undefined): EndStatus {
  if (error.code === "not_found") return "lost";
  return error.ended ?? (status === "completed" ? "completed" : "processing");
}

const progressIntervalMs = 1_000;

/**
 * Returns a function that says whether an event should be reported: a state if it differs from the
 * generation's last one, progress once a second for each generation and when the video is complete, all other
 * events always. `now` is a monotonic clock in milliseconds.
 */
export function createEventFilter(now: () => number): (event: GenerationEvent) => boolean {
  const reported = new Map<string, { status?: string; progressAt?: number; received?: number }>();
  return (event) => {
    // Frees memory, because a batch may have many generations.
    if (event.event === "ended" && event.id !== null) reported.delete(event.id);
    if (event.event !== "state" && event.event !== "progress") return true;
    const last = reported.get(event.id) ?? {};
    reported.set(event.id, last);
    if (event.event === "state") {
      if (event.status === last.status) return false;
      last.status = event.status;
      return true;
    }
    const isComplete = event.received === event.total;
    const isDue = last.progressAt === undefined || now() - last.progressAt >= progressIntervalMs;
    if (isComplete ? event.received === last.received : !isDue) return false;
    Object.assign(last, { progressAt: now(), received: event.received });
    return true;
  };
}

/** The fields of an error in JSON. */
export function errorFieldsOf(error: VidgenError): ErrorFields {
  const { code, message, hint = null, id = null, attempt = null, charged, httpStatus = null, next } = error;
  const chargedField = charged === undefined ? {} : { charged };
  return {
    code,
    message,
    hint,
    id,
    attempt,
    ...chargedField,
    http_status: httpStatus,
    ...(next && { next: [...next] }),
  };
}

/**
 * Whether a start was refused for a reason that does not concern its request, such as the key or the credits,
 * so that the next run tries again.
 */
export function isGeneralRefusal(code: CommandErrorCode | undefined): boolean {
  return code !== undefined && code !== "rejected";
}
