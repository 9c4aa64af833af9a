/** The error codes of the library; `interrupted` if the caller's signal aborts. */
export type ErrorCode =
  | "rejected"
  | "bug"
  | "usage"
  | "auth"
  | "failed"
  | "pending"
  | "unknown"
  | "credits"
  | "network"
  | "output"
  | "not_found"
  | "interrupted";

export type CommandErrorCode = ErrorCode | "hung_up" | "terminated";

type Exit = { exit: number; meaning: string };

/** All results of a command: the name in `error.code` of `--json`, the exit code, and its meaning. `rank` is 1 for the worst. */
export const exits: Readonly<{ ok: Exit } & Record<CommandErrorCode, Exit & { rank: number }>> = {
  ok: { exit: 0, meaning: "it worked" },
  rejected: { exit: 1, rank: 12, meaning: "the service refused the request or sent an unusable response" },
  bug: { exit: 1, rank: 11, meaning: "a bug in vidgen (6 while a start request is in flight)" },
  usage: { exit: 2, rank: 13, meaning: "bad flags or input; nothing was sent" },
  auth: {
    exit: 3,
    rank: 5,
    meaning: "not logged in (no base URL or no API key), or the service or an engine rejected the key (401, 403)",
  },
  failed: { exit: 4, rank: 8, meaning: "the generation ended `failed`" },
  pending: {
    exit: 5,
    rank: 14,
    meaning: "timed out, or `status --exit-status`: still running, not saved yet, or not submitted yet",
  },
  unknown: {
    exit: 6,
    rank: 1,
    meaning: "a start request, also one to an engine, got no usable response: it may have been charged",
  },
  credits: { exit: 7, rank: 6, meaning: "not enough credits (402, or the service says so)" },
  network: {
    exit: 8,
    rank: 10,
    meaning: "service or engine unreachable, rate limited or 5xx after all retries, and nothing was charged",
  },
  output: { exit: 9, rank: 9, meaning: "the video could not be saved, or the file already exists" },
  not_found: {
    exit: 10,
    rank: 7,
    meaning: "no such generation, or a lost one: the service no longer knows an id that it gave",
  },
  hung_up: { exit: 129, rank: 4, meaning: "SIGHUP; prints the id and the command to resume with" },
  interrupted: { exit: 130, rank: 2, meaning: "Ctrl-C; prints the id and the command to resume with" },
  terminated: { exit: 143, rank: 3, meaning: "SIGTERM; prints the id and the command to resume with" },
};

/** Whether the generation that an error is about was charged: "maybe" where nobody can say. */
export type ErrorCharge = "yes" | "no" | "maybe";

/**
 * A command that continues after an error: its words, beginning with `vidgen`, which the command line replaces
 * by the words that it was called with, and whether it can start a generation.
 */
export type NextCommand = { argv: string[]; pays: boolean };

type ErrorDetails = {
  hint?: string | undefined;
  id?: string | undefined;
  httpStatus?: number | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  attempt?: string | undefined;
  charged?: ErrorCharge | undefined;
  ended?: "failed" | "unknown" | undefined;
  next?: readonly NextCommand[] | undefined;
  cause?: unknown;
};

/** The only error class that users see: `code` is its kind, `message` says what happened, `hint` what to do next. */
export class VidgenError extends Error {
  /** Node prints an error by this name; the minifier shortens that of the class itself. */
  static override readonly name = "VidgenError";
  readonly code: CommandErrorCode;
  readonly hint: string | undefined;
  readonly id: string | undefined;
  readonly httpStatus: number | undefined;
  /** Some headers of the reply that caused it, by lower-case name. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** The start that it is about, by its name in the journal. */
  readonly attempt: string | undefined;
  /** Whether that start was charged, if it is known. */
  readonly charged: ErrorCharge | undefined;
  /** How the generation has ended, if the service said so. */
  readonly ended: ErrorDetails["ended"];
  /** The commands that continue, if they do not follow from the code. */
  readonly next: ErrorDetails["next"];

  constructor(code: CommandErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.name = VidgenError.name;
    this.code = code;
    this.hint = details.hint;
    this.id = details.id;
    this.httpStatus = details.httpStatus;
    this.headers = details.headers;
    this.attempt = details.attempt;
    this.charged = details.charged ?? impliedCharge(code, details.attempt);
    this.ended = details.ended;
    this.next = details.next;
  }

  /** The service's id of the failed request. */
  get requestId(): string | undefined {
    return this.headers?.["x-request-id"];
  }

  /** The exit code of the process, from the table above. */
  get exit(): number {
    return exits[this.code].exit;
  }

  /** A copy in which the details set what was not set; a second hint is added below the first. */
  with(details: ErrorDetails): VidgenError {
    return new VidgenError(this.code, this.message, {
      hint: [this.hint, details.hint].filter((hint) => hint !== undefined).join("\n") || undefined,
      id: this.id ?? details.id,
      httpStatus: this.httpStatus ?? details.httpStatus,
      headers: this.headers ?? details.headers,
      attempt: this.attempt ?? details.attempt,
      charged: this.charged ?? details.charged,
      ended: this.ended ?? details.ended,
      next: this.next ?? details.next,
      cause: this.cause ?? details.cause,
    });
  }

  /** A copy whose message starts with the generation's id, for a command with several generations. */
  about(id: string): VidgenError {
    if (this.message.includes(id)) return this;
    return new VidgenError(this.code, `${id}: ${this.message}`, { ...this, cause: this.cause });
  }
}

function impliedCharge(code: CommandErrorCode, attempt: string | undefined): ErrorCharge | undefined {
  if (code === "unknown") return "maybe";
  // A usage error with an attempt is about an earlier start.
  return code === "usage" && attempt === undefined ? "no" : undefined;
}

/** Whether an error is a signal, such as Ctrl-C, and not a failure. */
export function isSignal({ code }: { code: CommandErrorCode }): boolean {
  return code === "interrupted" || code === "terminated" || code === "hung_up";
}

/** Compares two errors for `sort`, worst first: the worst decides the exit code. */
export function compareSeverity(a: { code: CommandErrorCode }, b: { code: CommandErrorCode }): number {
  return exits[a.code].rank - exits[b.code].rank;
}

/** A usage error: exit 2. */
export function usage(message: string, hint?: string): VidgenError {
  return new VidgenError("usage", message, { hint });
}

/** The hint if the service cannot be reached. */
export const doctorHint = "Run `vidgen doctor` to diagnose the problem.";

/** Converts a thrown value to a `VidgenError`; anything else is a bug in vidgen (`bug`). */
export function asVidgenError(error: unknown): VidgenError {
  if (error instanceof VidgenError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new VidgenError("bug", `Internal error in vidgen: ${message}`, {
    hint: "Please report this bug; --verbose prints the stack trace.",
    cause: error,
  });
}

/**
 * The code of a failed system call or connection, such as "ECONNREFUSED": the first one in the chain of
 * causes, which may be a circle.
 */
export function systemCode(error: unknown): string | undefined {
  return findSystemError(error)?.code;
}

function findSystemError(error: unknown): (Error & { code: string }) | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if ("code" in at && typeof at.code === "string") return at as Error & { code: string };
    if (at instanceof AggregateError && at.errors.length > 0) return findSystemError(at.errors[0]);
  }
  return undefined;
}

/** What the codes of a connection mean; `place` is the name or the address in Node's message. */
const connectionReasons: Readonly<Record<string, (place?: string) => string>> = {
  ENOTFOUND: (name = "its name") => `no address was found for ${name}`,
  ECONNREFUSED: (address = "it") => `${address} refuses connections`,
  EHOSTUNREACH: (address = "it") => `there is no route to ${address}`,
  ENETUNREACH: (address = "it") => `there is no route to ${address}`,
  ETIMEDOUT: (address = "it") => `${address} does not answer`,
  ECONNRESET: () => "the connection was closed",
};

/**
 * Why a connection failed, in words; with `withPlace` they name the host. `undefined` unless Node's message
 * is such as "connect ECONNREFUSED".
 */
export function connectionReason(error: unknown, { withPlace = false } = {}): string | undefined {
  const { code = "", message = "" } = findSystemError(error) ?? {};
  const [, second, place] = message.split(" ");
  return second === code ? connectionReasons[code]?.(withPlace ? place : undefined) : undefined;
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "it does not exist",
  ENOTDIR: "part of the path is not a folder",
  EISDIR: "it is a folder",
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the file system is read-only",
  ENOSPC: "the disk is full",
  EDQUOT: "disk quota exceeded",
  ENAMETOOLONG: "the name is too long",
  EBUSY: "it is a mount or a device in use, and cannot be replaced",
  ESPIPE: "it is a pipe, a socket or a device",
  ELOOP: "too many symbolic links",
  EMFILE: "too many open files",
  ENFILE: "too many open files on this machine",
};

/** What Windows means by the codes that mean something else on other systems. */
const windowsReasons: typeof reasons = { EBUSY: "another program has it open" };

/** The numbers of Windows' errors in libuv, which are below those of all other systems. */
const maxWindowsErrno = -4000;

/** The code for a file that another program has open on Windows; `createDisk` gives it to the other codes for that, too. */
export const inUse = { code: "EBUSY", errno: -4082 } as const;

function isOfWindows(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++)
    if ("errno" in at && typeof at.errno === "number") return at.errno <= maxWindowsErrno;
  return false;
}

/** Why a file or folder could not be used; `overrides` has more specific texts for some codes. */
export function systemReason(error: unknown, overrides: Readonly<Record<string, string>> = {}): string {
  const code = systemCode(error) ?? "";
  const ofSystem = isOfWindows(error) ? windowsReasons[code] : undefined;
  return overrides[code] ?? ofSystem ?? reasons[code] ?? (error instanceof Error ? error.message : String(error));
}

/** What to do about a failed system call; `undefined` if that depends on the command. */
export function systemHint(error: unknown): string | undefined {
  const code = systemCode(error) ?? "";
  if (code === "EBUSY" && isOfWindows(error)) return "Close that program, and run the same line again.";
  if (code === "EBUSY")
    return "A file that is mounted alone, as into a container, cannot be replaced: mount its folder instead.";
  // The limit of Windows cannot be raised, and ENFILE is that of the whole machine.
  if (code !== "EMFILE" || isOfWindows(error)) return undefined;
  return "Raise the limit, such as with `ulimit -n 1024`, then run the same command.";
}

/**
 * Adds "Nothing was sent" to an error before a start. Not to usage errors, which imply it, nor to `unknown`
 * and `not_found`, which are about an earlier attempt.
 */
export function beforePaying(error: unknown): VidgenError {
  const known = asVidgenError(error);
  return ["usage", "unknown", "not_found"].includes(known.code) ? known : sayNothingSent(known);
}

/** Adds a sentence to an error that says that nothing was sent. */
export function sayNothingSent(error: unknown): VidgenError {
  const known = asVidgenError(error).with({ charged: "no" });
  const { code, message } = known;
  if (message.includes("Nothing was sent")) return known;
  const sentence = /[.!?]$/.test(message) ? message : `${message}.`;
  return new VidgenError(code, `${sentence} Nothing was sent, nothing was charged.`, { ...known, cause: known });
}
