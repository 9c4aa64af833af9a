import { stripControls } from "../callbacks/delivery.ts";

/** What a handler tells of the request that it answers. */
export type RequestLog = {
  /** Such as the model and the generation. */
  about: string[];
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
  const words = [method, path.replace(/\?.*$/s, ""), status ?? "disconnected", ...about, Math.round(ms), "ms"];
  // What a client has chosen, such as an id, must not begin a line of its own.
  return stripControls(words.join(" "));
}
