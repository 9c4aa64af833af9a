import type { IncomingMessage } from "node:http";

/** The origins of other sites whose pages may use the paths that match, with an API key; no route of these paths reads a cookie. */
export type Cors = { origins: readonly string[]; paths: RegExp };

/**
 * Returns the headers that let the page of an allowed site read the reply, and for a preflight request also what it may send; `undefined` for any
 * other request. There is no Access-Control-Allow-Credentials, so a browser sends no cookie, and shows no reply to a request that had one.
 */
export function corsHeaders(incoming: IncomingMessage, cors: Cors | undefined): Record<string, string> | undefined {
  const { method, headers, headersDistinct, url = "" } = incoming;
  const origin = headersDistinct.origin?.join();
  if (origin === undefined || !cors?.origins.includes(origin)) return undefined;
  const target = URL.canParse(url, "http://localhost") ? new URL(url, "http://localhost").pathname : "";
  if (!cors.paths.test(target)) return undefined;
  const common = { "Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": "*", Vary: "Origin" };
  if (method !== "OPTIONS" || headers["access-control-request-method"] === undefined) return common;
  return {
    ...common,
    "Access-Control-Allow-Methods": "GET, HEAD, POST, DELETE",
    "Access-Control-Allow-Headers": String(headers["access-control-request-headers"] ?? "Authorization"),
    "Access-Control-Max-Age": "600",
  };
}
