/** What has become of an attempt: one paid start, and its generation where it has one. */
export type State =
  /** The intent is written, and no outcome yet. */
  | "sending"
  /** No byte of the request was written. */
  | "unsent"
  /** The service refused it, readably. */
  | "refused"
  /** It may have been charged, and nobody can say. */
  | "unknown"
  /** Accepted: it has an id. */
  | "running"
  /** Completed, and its result is not delivered yet. */
  | "ready"
  /** Its result was handed over: a file has its name, or the URL was printed or returned. */
  | "delivered"
  /** The service says that it failed. */
  | "failed"
  /** The service gave it an id, and no longer knows it. */
  | "lost";

/** What a line of the journal says about an attempt (`accepted` to `unknown`), or about its id. */
export type Event =
  | "accepted"
  | "refused"
  | "unsent"
  | "unknown"
  | "completed"
  | "delivered"
  | "failed"
  /** The service itself cannot say whether it was charged. */
  | "unclear"
  | "lost"
  /** The service says that an unknown or lost id is running. */
  | "found";

/** The state after an event; where an event is missing, the state stays. */
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

/** The words for a state in `list`, in its `--status`, and in the library. */
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

const words: Record<State, Status> = {
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
  return isDismissed && stopsOthers(state) ? "dismissed" : words[state];
}

/** Whether the same command stops at it until it is dismissed: it may have been charged, or was and is lost. */
export function stopsOthers(state: State): boolean {
  return state === "sending" || state === "unknown" || state === "lost";
}
