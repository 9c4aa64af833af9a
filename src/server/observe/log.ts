import type { Traced } from "./trace.ts";

/** What a request is about: its route sets what it knows in the variables of its context. */
export type About = {
  account?: string;
  /** The generation, and the model that was asked for. */
  id?: string;
  model?: string;
  /** Its path as it is declared, such as "/v1/videos/:id": there are few of them. */
  route?: string;
  /** Its reply lasts as long as its client wants. */
  isStream?: boolean;
  /** A request that programs repeat by themselves, such as the page or a load balancer, is not logged. */
  isRoutine?: boolean;
  /** Unchanged, when the handler has read it. */
  requestBody?: string;
};

/** What is logged of a request besides its reply. */
export type RequestLog = Traced & {
  /** That of the client's `X-Request-Id`, or a new one; the reply has it as well. */
  requestId: string;
  /** Whether a proxy has passed it on. */
  isForwarded?: boolean;
  /** Why it was refused, where the reply does not say all of that. */
  note?: string | undefined;
  /** Set where the replies are wanted too: JSON alone. */
  replyBody?: string;
  /** What the request is about, as far as that is known now: a client may disconnect before its request is handled. */
  about(): About;
};

/** A request that was answered, or whose client has disconnected before: then there is no status. */
export type RequestEvent = Omit<RequestLog, "about"> &
  About & { method: string; path: string; status: number | undefined; ms: number };

/** Such as "POST /api/generate 200 wan-2.5 7d562bbb 12 ms". The query is left out: it may hold a secret. */
export function requestLine({ method, path, status, note, model, id, ms }: RequestEvent): string {
  const about = [note, model, id?.slice(0, 8)].filter((each) => each !== undefined);
  const words = [method, withoutQuery(path), status ?? "disconnected", ...about, Math.round(ms), "ms"];
  // What a client has chosen, such as an id, must not begin a line of its own.
  return stripControls(words.join(" "));
}

export function withoutQuery(path: string): string {
  return path.replace(/\?.*$/s, "");
}

/** Returns the id by which a client finds its request in the log again, if it has chosen a short plain one. */
export function readRequestId(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" && /^[\w.:+/=-]{1,128}$/.test(header) ? header : undefined;
}

/** Returns an address without its user name, password, query and fragment. */
export function redactUrl(url: string): string {
  if (!URL.canParse(url)) return "an invalid URL";
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

/** Returns a text without the characters that move a terminal's cursor or change the direction of writing. */
export function stripControls(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ");
}
