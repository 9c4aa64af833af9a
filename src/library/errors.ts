import { type ErrorCode, VidgenError as InternalError } from "../errors.ts";
import { plain } from "../protocol/text.ts";

/** What every call rejects with. */
export interface VidgenError extends Error {
  /** What happened: one of the names of the exit codes. */
  readonly code: ErrorCode;
  /** What to do next. */
  readonly hint: string | undefined;
  /** The id of the generation, if it is known. */
  readonly id: string | undefined;
  /** The HTTP status of the reply that the error is about. */
  readonly httpStatus: number | undefined;
  /** The service's id of the request that failed: the reply's X-Request-Id. */
  readonly requestId: string | undefined;
  /** Those of the reply's headers that help to find the cause, by their names in lower case. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** The Idempotency-Key of the start that may have been charged; it names the start in the journal. Set for `unknown` alone. */
  readonly idempotencyKey: string | undefined;
}

/** For `instanceof`; the library makes them. */
export const VidgenError = InternalError as unknown as {
  readonly prototype: VidgenError;
  [Symbol.hasInstance](value: unknown): value is VidgenError;
};

/** What the hints call something, which are written for the command line, and what a program calls it. */
const words: readonly [RegExp, string][] = [
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

/** A hint of the client in the words of a program. What the command line alone can do, such as `vidgen doctor`, stays. */
export function restateHint(hint: string): string {
  const restated = words.reduce((text, [there, here]) => text.replace(there, here), hint);
  // Other flags have the names of their options, such as --keep-credits, unless they belong to a command.
  return restated.replace(/`vidgen [^`]*`|(?<!\S)--([a-z-]+)/g, (found, flag?: string) =>
    flag ? toCamelCase(flag) : found,
  );
}

function toCamelCase(flag: string): string {
  return flag.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

type Restating = {
  /** The path of the journal. */
  journal: string | undefined;
  /** The caller's name for the start that has failed. */
  idempotencyKey: string | undefined;
  redact(text: string): string;
};

/** A copy of an error of the client for a program, in its words and without secrets. */
export function restateError(error: InternalError, { journal, idempotencyKey, redact }: Restating): VidgenError {
  const { code, id, httpStatus, headers, attempt, cause } = error;
  const restate = (text: string) => plain(redact(text));
  const written = journal === undefined ? "" : `, and is recorded in ${journal}`;
  const unclear = `It was not sent again${written}. Check your account for the generation before you retry.`;
  const hint = attempt === undefined ? error.hint && restate(restateHint(error.hint)) : unclear;
  const restated = new InternalError(code, restate(error.message), { id, httpStatus, headers, cause, hint });
  // As every other library calls it.
  if (code === "interrupted") restated.name = "AbortError";
  const named = { idempotencyKey: attempt && (idempotencyKey ?? attempt) };
  return Object.assign(restated, named) as typeof restated & VidgenError;
}
