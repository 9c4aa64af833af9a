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
 * The wait of a Retry-After header in milliseconds from `now`; `undefined` without one, or if it is neither digits nor an IMF
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
