import type { Traced } from "./trace.ts";

/** What a request is about. The route sets these fields as variables of the context. */
export type About = {
  account?: string;
  /** The id of the generation, and the requested model. */
  id?: string;
  model?: string;
  /** The declared path, such as "/v1/videos/:id", so that a metric has few labels. */
  route?: string;
  /** Whether the reply lasts until the client disconnects. */
  isStream?: boolean;
  /** Whether a program, such as the page or a load balancer, repeats the request. Such requests are not logged. */
  isRoutine?: boolean;
  /** The body as it was sent, if the handler has read it. */
  requestBody?: string;
};

/** The parts of a log entry that do not depend on the reply. */
export type RequestLog = Traced & {
  /** From the client's `X-Request-Id` header, or new. The reply carries it too. */
  requestId: string;
  /** The address of the client; that of the other end if it is no trusted proxy. */
  address?: string;
  /** The code of the error in the reply. */
  code?: string | undefined;
  /** Whether a proxy forwarded the request. */
  isForwarded?: boolean;
  /** Details of a refusal that the reply does not contain. */
  note?: string | undefined;
  /** The JSON of the reply, if replies are logged too. */
  replyBody?: string;
  /** What is known about the request now. If the client disconnects early, that may be nothing. */
  about(): About;
};

/** An answered request. If the client disconnected first, there is no status. */
export type RequestEvent = Omit<RequestLog, "about"> &
  About & { method: string; path: string; status: number | undefined; ms: number };

/** Returns a line such as "POST /api/generate 200 wan-2.5 7d562bbb 12 ms", without the query, which may contain a secret. */
export function requestLine({ method, path, status, note, model, id, ms }: RequestEvent): string {
  const about = [note, model, id?.slice(0, 8)].filter((each) => each !== undefined);
  const words = [method, withoutQuery(path), status ?? "disconnected", ...about, Math.round(ms), "ms"];
  // Text from a client must not start a new line in the log.
  return stripControls(words.join(" "));
}

export function withoutQuery(path: string): string {
  return path.replace(/\?.*$/s, "");
}

/** Returns the client's id for its request, so that it can be found in the log; `undefined` unless it is short and plain. */
export function readRequestId(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" && /^[\w.:+/=-]{1,128}$/.test(header) ? header : undefined;
}

/** Returns an address without its user name, password, query and fragment. */
export function redactUrl(url: string): string {
  if (!URL.canParse(url)) return "an invalid URL";
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

/** Removes the characters that move a terminal's cursor or change the direction of text. */
export function stripControls(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ");
}
