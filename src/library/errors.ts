import { type ErrorCode, VidgenError as InternalError } from "../errors.ts";
import { plainText } from "../protocol/text.ts";

/** The error of every call. */
export interface VidgenError extends Error {
  /** The kind of error: one of the names of the exit codes. */
  readonly code: ErrorCode;
  /** What to do next, if there is something. */
  readonly hint: string | undefined;
  /** The id of the generation, if it is known. */
  readonly id: string | undefined;
  /** The HTTP status of the reply, if there was one. */
  readonly httpStatus: number | undefined;
  /** The service's id of the failed request: the X-Request-Id of the reply. */
  readonly requestId: string | undefined;
  /** Headers of the reply that help to find the cause, by lower-case name. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** The Idempotency-Key of a start that may have been charged, which is also in the journal. Set only for `unknown`. */
  readonly idempotencyKey: string | undefined;
}

/** The class of the errors, only for `instanceof`, because it cannot be constructed. */
export const VidgenError = InternalError as unknown as {
  readonly prototype: VidgenError;
  [Symbol.hasInstance](value: unknown): value is VidgenError;
};

/** The terms of the command line in hints, each with the term of the library that replaces it. */
const restatements: readonly [RegExp, string][] = [
  [/`vidgen wait ([^\s`]+)[^`]*`/g, '`client.follow("$1")`'],
  [/`vidgen status ([^\s`]+)[^`]*`/g, '`client.status("$1")`'],
  [/`vidgen list`/g, "`client.generations.list()`"],
  [/`vidgen generate --help` for the flags/g, "the type GenerationRequest for the fields"],
  [/`vidgen models`/g, "`models`"],
  [/--verbose prints the stack trace/g, "its cause has the stack trace"],
  [/\bThe same command\b/g, "The same call"],
  [/\brun the same command\b/g, "make the same call"],
  [/\bthe argument\b/g, "the field prompt"],
  [/\bAdd --overwrite\b/g, "Pass overwrite: true"],
  [/--again\b/g, 'onExisting: "new"'],
  [/\bwith --image <url>/g, "in images"],
  [/\bwith -o\b/g, "for the output"],
  [/(?<!\S)-o\b/g, "the output path"],
];

/** A hint in terms of the library. Commands without an equivalent, such as `vidgen doctor`, stay. */
export function restateHint(hint: string): string {
  const restated = restatements.reduce((text, [cliTerm, libraryTerm]) => text.replace(cliTerm, libraryTerm), hint);
  // Other flags become option names, such as keepCredits, unless they are part of a command.
  return restated.replace(/`vidgen [^`]*`|(?<!\S)--([a-z-]+)/g, (found, flag?: string) =>
    flag ? toCamelCase(flag) : found,
  );
}

function toCamelCase(flag: string): string {
  return flag.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

type RestateOptions = {
  /** The path of the journal. */
  journal: string | undefined;
  /** The caller's Idempotency-Key of the failed start. */
  idempotencyKey: string | undefined;
  redact(text: string): string;
};

/** A copy of an internal error in terms of the library, without secrets. */
export function restateError(error: InternalError, { journal, idempotencyKey, redact }: RestateOptions): VidgenError {
  const { code, id, httpStatus, headers, attempt, cause } = error;
  const restate = (text: string) => plainText(redact(text));
  const recordedNote = journal === undefined ? "" : ` The attempt is recorded in ${journal}.`;
  const unclearHint = `Check your account for the generation before you retry.${recordedNote}`;
  const isUnclear = code === "unknown" && attempt !== undefined;
  const hint = isUnclear ? unclearHint : error.hint && restate(restateHint(error.hint));
  const restated = new InternalError(code, restate(error.message), { id, httpStatus, headers, cause, hint });
  // As `fetch` and other calls with a signal name it.
  if (code === "interrupted") restated.name = "AbortError";
  const keyField = { idempotencyKey: isUnclear ? (idempotencyKey ?? attempt) : undefined };
  return Object.assign(restated, keyField) as typeof restated & VidgenError;
}
