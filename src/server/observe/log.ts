import { stripControls } from "../callbacks/delivery.ts";
import type { Traced } from "./trace.ts";

/** What a handler tells of the request that it answers. */
export type RequestLog = Traced & {
  /** Such as the model and the generation. */
  about: string[];
  /** That of the client's `X-Request-Id`, or a new one; the reply has it as well. */
  requestId: string;
  account?: string;
  /** The generation that it is about, and the model that was asked for. */
  id?: string;
  model?: string;
  /** Whether a proxy has passed it on. */
  isForwarded?: boolean;
  /** A request that programs repeat by themselves, such as the page or a load balancer, is not logged. */
  isRoutine?: boolean;
  /** As it came, when the handler has read it. */
  requestBody?: string;
  /** Set where the replies are wanted too: JSON alone. */
  replyBody?: string;
};

/** A request that was answered, or whose client has disconnected before: then there is no status. */
export type RequestEvent = RequestLog & { method: string; path: string; status: number | undefined; ms: number };

/** Such as "POST /api/generate 200 wan-2.5 7d562bbb 12 ms". The query is left out: it may hold a secret. */
export function requestLine({ method, path, status, about, ms }: RequestEvent): string {
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
