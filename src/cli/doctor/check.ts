import { asVidgenError, type CommandErrorCode } from "../../errors.ts";

/** One line of `vidgen doctor`. */
export type Check = {
  name: string;
  state: "pass" | "warn" | "fail";
  says: string;
  fix?: string;
  /** The error that a command would end with; set when the check failed. */
  code?: CommandErrorCode;
};

export function pass(name: string, says: string): Check {
  return { name, state: "pass", says };
}

export function warn(name: string, says: string, fix: string): Check {
  return { name, state: "warn", says, fix };
}

export function fail(name: string, says: string, { code, fix }: { code: CommandErrorCode; fix: string }): Check {
  return { name, state: "fail", says, fix, code };
}

/** A check that failed with the error a command would end with; `fix` is used when the error has no hint. */
export function failWith(name: string, thrown: unknown, fix: string): Check {
  const { code, message, hint } = asVidgenError(thrown);
  return fail(name, message, { code, fix: hint ?? fix });
}
