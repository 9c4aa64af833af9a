import type { IncomingMessage, ServerResponse } from "node:http";
import { refuse, retryAfter } from "../http/message.ts";
import type { FenceRefusal } from "./fence.ts";

/** Requests that are accepted regardless of the limit, because a busy process is not dead, and no start is refused because of other clients. */
const unlimited = new Set([
  ...["GET /healthz", "HEAD /healthz"],
  ...["POST /api/generate", "POST /v1/videos", "POST /generations"],
]);

export function isUnlimited(method: string, path: string): boolean {
  return unlimited.has(`${method} ${path}`);
}

export type RequestLimit = {
  /** Counts a request from now on. Returns a refusal if too many are in progress. */
  enter(incoming: IncomingMessage, outgoing: ServerResponse): FenceRefusal | undefined;
  /** Stops counting a request. Called when its reply has ended, or if the reply lasts until the client disconnects. */
  leave(outgoing: ServerResponse): void;
};

export const tooManyRequests = "too many requests are in progress; try again";

/** Limits how many requests are in progress at once. */
export function createRequestLimit(max: number): RequestLimit {
  const inProgress = new Set<ServerResponse>();
  return {
    enter({ method = "", url = "" }, outgoing) {
      if (isUnlimited(method, url.replace(/\?.*/, ""))) return undefined;
      if (inProgress.size >= max) return { refusal: refuse(429, "busy", tooManyRequests, retryAfter) };
      inProgress.add(outgoing);
      return undefined;
    },
    leave: (outgoing) => void inProgress.delete(outgoing),
  };
}
