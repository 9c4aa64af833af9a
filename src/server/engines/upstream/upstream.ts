import { systemCode, systemReason } from "../../../errors.ts";
import type { Clock, HttpResponse } from "../../../io.ts";
import type { InsistOptions } from "../../insist.ts";
import { clean, type Job, type Reply } from "./reply.ts";

/** A server that makes videos as jobs, as submitting, following and saving one use it. */
export type Upstream = {
  /** How messages call it: its address. */
  name: string;
  /** How long it may take to reply to a create, or to say whether it took one; in milliseconds. */
  timeoutMs: number;
  /** How long it may show no progress with a job that it has taken, or answer nothing of use about it; in milliseconds. */
  patienceMs: number;
  /** How long a job that it shows as running may show no progress, where that is no sign that it is stuck; by default `patienceMs`. */
  runningPatienceMs?: number | undefined;
  /** Why it may no longer know a job, where there are more reasons than a restart. */
  lostWords?: string;
  /** What an empty 404 in place of a completed job's video means, where it means something for sure. */
  goneWords?: string;
  io: Pick<Clock, "now" | "date" | "sleep" | "limit">;
  /** When one of its jobs changed last, in milliseconds of the clock. */
  newsAt: number;
  /** Asks how a job stands, free of charge. Rejects as `fetch` does when there is no answer. */
  look(job: string, signal: AbortSignal): Promise<Job | Trouble>;
  /** Returns where the video of a job is that does not tell it itself. */
  contentOf(job: string): string | undefined;
  /** GETs a video: with the server's key at its own address, and by the rules for addresses that others chose elsewhere. */
  open(address: string, signal: AbortSignal): Promise<HttpResponse>;
  /** Removes what it keeps of a job. Never rejects. */
  discard?: ((job: string, signal: AbortSignal) => Promise<void>) | undefined;
  /** Reads a reply to its end, without the key if the server repeats it. Rejects when that breaks off, or is longer than `maxBytes`. */
  read(reply: Omit<HttpResponse, "text">, maxBytes?: number): Promise<Reply>;
  /** Tells the owner about a problem, unless an earlier one lasts; `undefined` when the server works. */
  report(problem: string | undefined): void;
};

/**
 * Returns the `patienceMs` of a provider, which charges for its jobs: it queues them, tells little progress, and ends a job by itself, so that
 * nothing is gained by giving up earlier.
 */
export function paidPatienceMs(timeoutMs: number): number {
  return Math.max(timeoutMs, 24 * 3_600_000);
}

/**
 * An answer that does not tell how a job stands; `isMissing` when the server says that it does not know the job, and `isUnreadable` when a
 * provider, which was paid for the job, answers in a form that is not known here. `fault` says
 * what a server may have done with the job that has nothing but an error of the one behind it. `retryAfterMs` is how long the server asks to wait.
 */
export type Trouble = {
  trouble: string;
  isMissing: boolean;
  isUnreadable?: boolean;
  fault?: string | undefined;
  retryAfterMs?: number | undefined;
};

/** Returns an upstream's `report`. */
export function createReport(onNote: (text: string) => void): Upstream["report"] {
  let isReported = false;
  return (problem) => {
    if (problem !== undefined && !isReported) onNote(problem);
    isReported = problem !== undefined;
  };
}

/** A look that took longer, or was followed by nothing for longer, does not show that a server kept saying the same: this process may have been suspended. */
const maxGapMs = 5_000;

/** Returns what adds up for how long a server says that it does not know a job, look by look; with a look that says otherwise it begins anew. */
export function createAbsence({ now }: Pick<Clock, "now">): (isMissing: boolean) => number {
  let lastAt: number | undefined;
  let absentMs = 0;
  return (isMissing) => {
    absentMs = isMissing && lastAt !== undefined ? absentMs + Math.min(now() - lastAt, maxGapMs) : 0;
    lastAt = isMissing ? now() : undefined;
    return absentMs;
  };
}

/** Why a request, or the file of its reply, failed: in a few words, or by the code of a connection, such as ECONNREFUSED. */
export function describe(error: unknown): string {
  const reason = systemReason(error);
  const code = systemCode(error) ?? "";
  const hasWords = !(error instanceof Error) || reason !== error.message;
  return /^E[A-Z_]+$/.test(code) && !hasWords ? code : clean(reason);
}

/** What `insist` needs for what comes from a server, and cannot be kept now. */
export function insistOptions({ io, name, report }: Upstream, signal: AbortSignal): InsistOptions {
  return { clock: io, signal, onTrouble: (what, error) => report(`${name}: ${what} (${describe(error)})`) };
}

/** A longer Retry-After of a poll or a download, which are free, is cut to this. */
const maxFreeWaitMs = 60_000;

/** Returns the milliseconds to wait after so many failures in a row, and at least as long as the server asks for. */
export function backOffMs(failures: number, retryAfterMs = 0): number {
  return Math.max(Math.min(1_000 * 2 ** failures, 30_000), Math.min(retryAfterMs, maxFreeWaitMs));
}

/** Names a time limit in messages. */
export function minutes(ms: number): string {
  return `${Math.round(ms / 6_000) / 10} min`;
}
