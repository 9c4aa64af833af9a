import { asVidgenError, type ErrorCode, type VidgenError } from "../../errors.ts";

/** What one look at the surroundings has shown. `fix` says what to do about it. */
export type Check = {
  name: string;
  state: "pass" | "warn" | "fail";
  says: string;
  fix: string | undefined;
  /** How a run ends in which this is the first that failed. */
  code: ErrorCode | undefined;
};

export function pass(name: string, says: string): Check {
  return { name, state: "pass", says, fix: undefined, code: undefined };
}

export function warn(name: string, says: string, fix: string): Check {
  return { name, state: "warn", says, fix, code: undefined };
}

export function fail(name: string, says: string, { code, fix }: { code: ErrorCode; fix: string }): Check {
  return { name, state: "fail", says, fix, code };
}

/** A check that could not be made, or found what a command would stop at, fails as that command would; `fix` where the error has no hint. */
export function failBy(name: string, thrown: unknown, fix: string): Check {
  const error: VidgenError = asVidgenError(thrown);
  return fail(name, error.message, { code: error.code, fix: error.hint ?? fix });
}
