/** The state of an attempt: one paid start, and its generation if it has one. */
export type State =
  /** The intent is written, without an outcome yet. */
  | "sending"
  /** No byte of the request was written. */
  | "unsent"
  /** The service refused it with a readable answer. */
  | "refused"
  /** It may have been charged. */
  | "unknown"
  /** Accepted: it has an id. */
  | "running"
  /** Completed, but its result is not delivered yet. */
  | "ready"
  /** Its result was delivered: saved to a file, or its URL was printed or returned. */
  | "delivered"
  /** The service says that it failed. */
  | "failed"
  /** The service gave it an id, but no longer knows it. */
  | "lost";

/** An event in the journal: about an attempt (`accepted` to `unknown`), or about its id. */
export type Event =
  | "accepted"
  | "refused"
  | "unsent"
  | "unknown"
  | "completed"
  | "delivered"
  | "failed"
  /** The service does not know whether it was charged. */
  | "unclear"
  | "lost"
  /** The service says that an unknown or lost id is running. */
  | "found";

/** The state after each event; missing events do not change it. */
const changes: Record<State, { readonly [event in Event]?: State }> = {
  sending: {
    accepted: "running",
    refused: "refused",
    unsent: "unsent",
    unknown: "unknown",
    completed: "ready",
    delivered: "delivered",
    failed: "failed",
    unclear: "unknown",
    found: "running",
  },
  unsent: {},
  refused: { completed: "ready", failed: "failed", unclear: "unknown", found: "running" },
  unknown: { accepted: "running", completed: "ready", delivered: "delivered", failed: "failed", found: "running" },
  running: { completed: "ready", delivered: "delivered", failed: "failed", unclear: "unknown", lost: "lost" },
  ready: { delivered: "delivered" },
  delivered: {},
  failed: { completed: "ready", delivered: "delivered" },
  lost: {
    accepted: "running",
    completed: "ready",
    delivered: "delivered",
    failed: "failed",
    unclear: "unknown",
    found: "running",
  },
};

export function nextState(state: State, event: Event): State {
  return changes[state][event] ?? state;
}

/** The public names of the states, in `list`, `--status`, and the library. */
export const statuses = [
  "starting",
  "processing",
  "completed",
  "failed",
  "lost",
  "unknown",
  "dismissed",
  "deleted",
  "unsent",
  "refused",
] as const;

export type Status = (typeof statuses)[number];

const statusWords: Record<State, Status> = {
  sending: "starting",
  unsent: "unsent",
  refused: "refused",
  unknown: "unknown",
  running: "processing",
  ready: "completed",
  delivered: "completed",
  failed: "failed",
  lost: "lost",
};

export function statusOf(state: State, { isDismissed = false, isRemoved = false } = {}): Status {
  if (isRemoved) return "deleted";
  return isDismissed && stopsOthers(state) ? "dismissed" : statusWords[state];
}

/** Whether the same command refuses to start until it is dismissed: it may have been charged, or was charged and is lost. */
export function stopsOthers(state: State): boolean {
  return state === "sending" || state === "unknown" || state === "lost";
}
