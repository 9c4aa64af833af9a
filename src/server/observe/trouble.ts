import { systemReason } from "../../errors.ts";

/** Reports a problem to the operator: a sentence without a full stop, and the error. */
export type OnTrouble = (what: string, error: unknown) => void;

/** The error of something that the service needs, such as its database or a disk, and that cannot be used now. */
export type Unavailable = Error & { isUnavailable: true };

/** Returns an error as that of something that cannot be used now, with its message or with another one. */
export function unavailable(cause: unknown, message = systemReason(cause)): Unavailable {
  return Object.assign(new Error(message, { cause }), { isUnavailable: true as const });
}

/** Whether an error says that what the service needs, such as its database, cannot be used now. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof Error && "isUnavailable" in error && error.isUnavailable === true;
}

/** Tells the operator of an outage once, until it is over. */
export function createOutageReporter(what: string, onTrouble: OnTrouble) {
  let isOut = false;
  return {
    report(error: unknown): void {
      if (!isOut) onTrouble(what, error);
      isOut = true;
    },
    end(): void {
      isOut = false;
    },
  };
}
