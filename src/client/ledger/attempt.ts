/** The state of an attempt: one paid start, and its generation if it has one. */
export type AttemptState =
  /** The intent is written, without an outcome yet. */
  | "sending"
  /** No byte of the request was written. */
  | "unsent"
  /** The service refused the request with a readable answer. */
  | "refused"
  /** The request may have been charged. */
  | "unknown"
  /** The request was accepted, and the generation has an id. */
  | "running"
  /** The generation is completed, but its result is not delivered yet. */
  | "ready"
  /** The result was delivered: the video was saved to a file, or its URL was printed or returned. */
  | "delivered"
  /** The service says that the generation failed. */
  | "failed"
  /** The service gave the generation an id, but no longer knows it. */
  | "lost";

/** An event in the journal: about an attempt (`accepted` to `unknown`), or about a generation by its id. */
export type AttemptEvent =
  | "accepted"
  | "refused"
  | "unsent"
  | "unknown"
  | "completed"
  | "delivered"
  | "failed"
  /** The service does not know whether the generation was charged. */
  | "unclear"
  | "lost"
  /** The service says that an unknown or lost id is running. */
  | "found";

/** The state after each event; missing events do not change it. */
const transitions: Record<AttemptState, { readonly [event in AttemptEvent]?: AttemptState }> = {
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

export function nextState(state: AttemptState, event: AttemptEvent): AttemptState {
  return transitions[state][event] ?? state;
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

const statusWords: Record<AttemptState, Status> = {
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

export function statusOf(state: AttemptState, { isDismissed = false, isRemoved = false } = {}): Status {
  if (isRemoved) return "deleted";
  return isDismissed && blocksRestart(state) ? "dismissed" : statusWords[state];
}

/**
 * Whether the same command refuses to start until the attempt is dismissed, because it may have been charged,
 * or was charged and is lost.
 */
export function blocksRestart(state: AttemptState): boolean {
  return state === "sending" || state === "unknown" || state === "lost";
}
