/** The name of the local service in the journal, whichever process runs it. */
export const localBaseUrl = "http://vidgen.localhost";

/** Whether an attempt was started at the local service. */
export function isLocal({ base_url }: { base_url: string }): boolean {
  return base_url === localBaseUrl;
}

/**
 * Whether two base URLs are the same service. Only at the same service is a key sent again, an id asked for,
 * and an attempt resumed, joined or dismissed; only there does 404 mean that a generation is lost, and do
 * prices and balances count.
 */
export function isSameService(baseUrl: string, other: string): boolean {
  return baseUrl === other;
}

/**
 * Whether two base URLs may be the same service at two paths, such as `/v1` and `/v2` of one origin. An
 * attempt that may be at the same service can stop a start, and never permits one.
 */
export function mayBeSameService(baseUrl: string, other: string): boolean {
  return new URL(baseUrl).origin === new URL(other).origin;
}
