import type { Clock, Io } from "../../io.ts";
import { isLoopback } from "./url.ts";

/** What a retry uses: it waits for a random time. */
export type RetryIo = Clock & Pick<Io, "random">;

/** Back-off with full jitter, in milliseconds: `random`, from 0 to 1, of a bound that doubles with each failure, up to 15 s. */
export function backoffMs(failures: number, random: number): number {
  return random * Math.min(15_000, 500 * 2 ** failures);
}

/** A longer Retry-After of a free request is cut to this: it must not use up the time to wait. */
const maxFreeWaitMs = 60_000;

/** How long to wait before a free request (a poll, a download) is repeated, in milliseconds. */
export function freeRetryMs(failures: number, random: number, retryAfterMs = 0): number {
  return Math.max(Math.min(retryAfterMs, maxFreeWaitMs), backoffMs(failures, random));
}

/**
 * The wait that a Retry-After header asks for, in milliseconds from `now`; `undefined` when there is none or it is neither digits nor an IMF
 * date (RFC 9110, section 10.2.3).
 */
export function retryAfterMs(header: string | null, now: Date): number | undefined {
  if (header === null) return undefined;
  const value = header.trim();
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000;
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(value)) return undefined;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now.getTime());
}

/** HTTP statuses after which a poll or download is retried: 408, 429 and server errors. */
export function isTransient(status: number): boolean {
  return status === 408 || status === 429 || status >= 500;
}

/** HTTP statuses that mean "not now": the start request was not processed, so it can be sent again. */
export function isNotNow(status: number): boolean {
  return status === 429 || status === 421 || status === 425;
}

/** HTTP statuses that refuse a start request: nothing was started. After 408, the request may have been processed. */
export function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408;
}

/**
 * Whether a retry cannot change a failure to connect: the name does not exist, the certificate is not trusted, or nothing listens on this
 * machine.
 */
export function isFinalConnectFailure(code: string | undefined, baseUrl: string): boolean {
  if (code === "ECONNREFUSED") return isLoopback(new URL(baseUrl).hostname);
  return /^(ENOTFOUND|ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_INVALID_|UND_ERR_INVALID_|(ERR_)?MODULE_NOT_FOUND)/.test(
    code ?? "",
  );
}
