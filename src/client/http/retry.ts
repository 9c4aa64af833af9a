import type { Clock, Io } from "../../io.ts";
import { isLoopback } from "../../protocol/url.ts";
import { isProxyRefusal } from "./proxy.ts";

/** The I/O of a retry. */
export type RetryIo = Clock & Pick<Io, "random">;

/**
 * Back-off with full jitter, in milliseconds: a `random` fraction, from 0 to 1, of a maximum that doubles
 * with each failure, up to 15 s.
 */
export function backoffMs(failures: number, random: number): number {
  return random * Math.min(15_000, 500 * 2 ** failures);
}

/** The maximum wait for the Retry-After of a free request, which must not use up the timeout. */
const maxFreeWaitMs = 60_000;

/** How long to wait before a free request (a poll, a download) is retried, in milliseconds. */
export function freeRetryMs(failures: number, random: number, retryAfterMs = 0): number {
  return Math.max(Math.min(retryAfterMs, maxFreeWaitMs), backoffMs(failures, random));
}

/**
 * Whether a retry cannot fix a failure to connect: the name does not exist, the certificate is not trusted,
 * the proxy refuses, nothing listens on this machine, or the address must be private and is not.
 */
export function isFinalConnectFailure(code: string | undefined, baseUrl: string): boolean {
  if (isProxyRefusal(code)) return true;
  if (code === "ERR_NOT_PRIVATE") return true;
  if (code === "ECONNREFUSED") return isLoopback(new URL(baseUrl).hostname);
  return /^(ENOTFOUND|ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_INVALID_|UND_ERR_INVALID_|(ERR_)?MODULE_NOT_FOUND)/.test(
    code ?? "",
  );
}
