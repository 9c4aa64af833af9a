import { systemReason } from "../../errors.ts";

/** Reports a problem to the operator: a sentence without a full stop, and the error. */
export type ReportProblem = (what: string, error: unknown) => void;

/** The error of a database, disk or other service that cannot be used now. */
export type Unavailable = Error & { isUnavailable: true };

/** Wraps an error as `Unavailable`, by default with its message. */
export function unavailable(cause: unknown, message = systemReason(cause)): Unavailable {
  return Object.assign(new Error(message, { cause }), { isUnavailable: true as const });
}

export function isUnavailable(error: unknown): boolean {
  return error instanceof Error && "isUnavailable" in error && error.isUnavailable === true;
}

/** Reports an outage to the operator once, until it is over. */
export function createOutageReporter(what: string, reportProblem: ReportProblem) {
  let isOut = false;
  return {
    report(error: unknown): void {
      if (!isOut) reportProblem(what, error);
      isOut = true;
    },
    end(): void {
      isOut = false;
    },
  };
}
