import { connectionReason, systemCode, systemReason } from "../../../errors.ts";
import type { Clock, HttpResponse } from "../../../io.ts";
import type { Outbound } from "../../outbound/outbound.ts";
import type { RetryForeverOptions } from "../../retry-forever.ts";
import { clean, type PartOptions, readReply, type ServerReply, type UpstreamJob } from "./reply.ts";

/** A server that generates videos as jobs, as the code that submits, follows and saves a job uses it. */
export type Upstream = {
  /** The server's name in messages, which is its address. */
  name: string;
  /** The time limit for the reply to a create, and for finding out whether a create was accepted. */
  timeoutMs: number;
  /** The time limit for an accepted job without progress or without a usable reply. */
  patienceMs: number;
  /** The time limit for a job that the server reports as running, if it may run without reporting progress; by default `patienceMs`. */
  runningPatienceMs?: number | undefined;
  /** Why the server may no longer know a job, where a restart is not the only reason. */
  lostReason?: string;
  /** What an empty 404 in place of a completed job's video means, where that is certain. */
  goneReason?: string;
  io: Pick<Clock, "now" | "date" | "sleep" | "limit">;
  /** The time of the last change of any of its jobs, in milliseconds of the clock. */
  lastChangeAt: number;
  /** Requests the status of a job, free of charge. Rejects as `fetch` does when there is no reply, and as `readReply` does. Called by `pollJob`. */
  poll(job: string, signal: AbortSignal, options?: PartOptions & ConnectionUse): Promise<UpstreamJob | PollFailure>;
  /** Returns the address of a job's video, for a job that does not state one. */
  contentOf(job: string): string | undefined;
  /** GETs a video. Only the server itself gets the key; other addresses must pass the rules for addresses that others chose. */
  open(address: string, signal: AbortSignal): Promise<HttpResponse>;
  /** Deletes a finished job at the server. Never rejects. */
  discard?: ((job: string, signal: AbortSignal) => Promise<void>) | undefined;
  /** Reads a reply to its end and removes the key from its text. Rejects as `readReply` does. */
  read(reply: Omit<HttpResponse, "text">, options?: PartOptions): Promise<ServerReply>;
  /** Notifies the owner of a problem, unless an earlier problem still lasts; `undefined` means that the server works. */
  report(problem: string | undefined): void;
  /** Notifies the owner, unless the same message was sent before. */
  noteOnce(text: string): void;
  /** Notifies the owner once that the server knows a job and does not know it in turn. */
  reportInconsistency?(): void;
};

/**
 * Whether a request may use a connection that an earlier one has kept, and keeps it. Behind a load balancer, such a connection always reaches the
 * same server, which may not have the job; and the server may just have closed it.
 */
export type ConnectionUse = { keepsConnection?: boolean | undefined };

/** The headers of a GET. */
export function headersOfGet({ keepsConnection = false }: ConnectionUse = {}): Record<string, string> {
  return { "Accept-Encoding": "identity", ...(!keepsConnection && { Connection: "close" }) };
}

/**
 * Returns the `patienceMs` of a provider, which charges for its jobs. It queues them, reports little progress and ends each job itself, so giving up
 * earlier saves nothing.
 */
export function paidPatienceMs(timeoutMs: number): number {
  return Math.max(timeoutMs, 24 * 3_600_000);
}

/**
 * A poll that did not return the job's status. `replied` is the HTTP status of the reply; without one, there was no reply. `isMissing`: the server
 * says that it does not know the job. `isUnreadable`: a provider, which has been paid for the job, replied in an unknown format. `fault`: the
 * server returned only an error of the server behind it; the text says what may have happened to the job. `retryAfterMs`: how long the server asks
 * to wait.
 */
export type PollFailure = {
  reason: string;
  replied?: number | undefined;
  isMissing: boolean;
  isUnreadable?: boolean;
  fault?: string | undefined;
  retryAfterMs?: number | undefined;
};

/**
 * Says that a server gave no usable reply, such as "does not answer", or "answers with an error" if there was a reply; with `for`, for how long,
 * such as "has not responded for 30 min".
 */
export function describeSilence(replied: number | undefined, forText?: string): string {
  if (replied === undefined) return forText === undefined ? "does not answer" : `has not responded ${forText}`;
  if (replied >= 200 && replied < 300)
    return forText === undefined
      ? "answers about this video, but its reply could not be read"
      : `has not given a reply that can be read ${forText}`;
  return forText === undefined ? "answers with an error" : `has given only errors ${forText}`;
}

/** Returns the HTTP status of the reply that an error is about; `undefined` if there was none. */
export function statusOfError(error: unknown): number | undefined {
  const { replied, reply }: { replied?: number; reply?: ServerReply } = Object(error);
  return replied ?? reply?.status;
}

/** Returns what is wrong with a server that was checked, such as "does not answer (it refuses connections)" or "answers with HTTP 502". */
export function describeCheck(error: unknown): string {
  const reason = describe(error);
  if (statusOfError(error) === undefined) return `does not answer (${reason})`;
  if ("replied" in Object(error)) return `answers, but its reply could not be read (${reason})`;
  return reason.startsWith("HTTP ") ? `answers with ${reason}` : reason;
}

/** Returns what the upstreams of all kinds have alike; each replaces what is different. Without a `key`, replies contain none. */
export function createUpstreamParts(
  options: Pick<Upstream, "name" | "timeoutMs"> & { key?: string | undefined; onNote(text: string): void },
  io: Upstream["io"] & Pick<Outbound, "open">,
): Omit<Upstream, "poll"> {
  const { name, timeoutMs, key, onNote } = options;
  const sentNotes = new Set<string>();
  return {
    name,
    timeoutMs,
    patienceMs: timeoutMs,
    io,
    lastChangeAt: io.now(),
    contentOf: () => undefined,
    open: (address, signal) => io.open(address, { signal, accept: "video/mp4" }),
    read: (reply, options) => readReply(reply, { ...options, secret: key, date: io.date() }),
    report: createReport(onNote),
    noteOnce(text) {
      if (!sentNotes.has(text)) onNote(text);
      sentNotes.add(text);
    },
  };
}

/** Returns an upstream's `report`. */
export function createReport(onNote: (text: string) => void): Upstream["report"] {
  let isReported = false;
  return (problem) => {
    if (problem !== undefined && !isReported) onNote(problem);
    isReported = problem !== undefined;
  };
}

/** Returns an upstream's `reportInconsistency`, and whether it was called. */
export function createConsistency(name: string, onNote: (text: string) => void) {
  let isInconsistent = false;
  return {
    isInconsistent: () => isInconsistent,
    reportInconsistency() {
      if (!isInconsistent)
        onNote(
          `${name} knows a video's job in one reply and not in the next, as several servers behind one address do. A video may be lost: name each server as its own --engine.`,
        );
      isInconsistent = true;
    },
  };
}

/**
 * A longer gap between two polls counts as this long, because this process may have been suspended, and nobody knows what the server would have said
 * meanwhile.
 */
const maxGapMs = 5_000;

/**
 * Returns a function that takes the result of each poll, and returns for how long the server has said that it does not know a job. Any other result
 * resets the time.
 */
export function createAbsence({ now }: Pick<Clock, "now">): (isMissing: boolean) => number {
  let lastAt: number | undefined;
  let absentMs = 0;
  return (isMissing) => {
    absentMs = isMissing && lastAt !== undefined ? absentMs + Math.min(now() - lastAt, maxGapMs) : 0;
    lastAt = isMissing ? now() : undefined;
    return absentMs;
  };
}

/** Returns why a request, or saving its reply, failed: a short text, such as "it refuses connections", or an error code. */
export function describe(error: unknown): string {
  const reason = systemReason(error);
  const code = systemCode(error) ?? "";
  // `systemReason` returns the error's message if it has no text for the code. Node's message repeats the address, so the code alone is better.
  const hasOwnText = !(error instanceof Error) || reason !== error.message;
  return connectionReason(error) ?? (/^E[A-Z_]+$/.test(code) && !hasOwnText ? code : clean(reason));
}

/** Returns the options of `retryForever` for saving what a server sent while this machine cannot save it. */
export function retryForeverOptions({ io, name, report }: Upstream, signal: AbortSignal): RetryForeverOptions {
  return { clock: io, signal, reportProblem: (what, error) => report(`${name}: ${what} (${describe(error)})`) };
}

/** A longer Retry-After of a poll or a download, which are free, is cut to this. */
const maxFreeWaitMs = 60_000;

/** Returns the milliseconds to wait after a number of failures in a row, at least as long as the server asks for. */
export function backOffMs(failures: number, retryAfterMs = 0): number {
  return Math.max(Math.min(1_000 * 2 ** failures, 30_000), Math.min(retryAfterMs, maxFreeWaitMs));
}

/** Formats a time limit for messages. */
export function timeText(ms: number): string {
  return ms < 60_000 ? `${Math.round(ms / 1_000)} s` : `${Math.round(ms / 6_000) / 10} min`;
}
