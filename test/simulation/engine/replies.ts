/** Each kind of reply that a provider gives to a create. */
export const createReplies = [
  "a reset",
  "a reset before it is read",
  "500",
  "302",
  "a cut reply",
  "200 without a job",
  "200 with HTML",
  "503 with HTML",
  "503 with JSON",
  "408",
  "409",
  "429",
  "401",
  "402",
  "400",
  "404 with HTML",
  "silence",
  "connection refused",
  "no connection",
  "the finished video",
  "the video itself",
] as const;
export type CreateReply = (typeof createReplies)[number];

/** Those by which the provider says that it has not taken the create, and never has. */
export const notTakenReplies: readonly (CreateReply | "accepted")[] = [
  "503 with JSON",
  "409",
  "429",
  "401",
  "402",
  "400",
  "404 with HTML",
];
/** Those that have what was made. */
export const madeReplies: readonly (CreateReply | "accepted")[] = [
  "accepted",
  "the finished video",
  "the video itself",
];
/** LiteLLM sends a create to its upstream three times where the upstream answers so, or not at all, unless it is told not to. */
export const repeatedReplies: readonly (CreateReply | "accepted")[] = ["500", "503 with HTML", "a reset"];
/** Nothing of the create was written. */
export const unsentReplies: readonly CreateReply[] = ["connection refused", "no connection"];

/** What may go wrong when a job is asked for, or its video. */
export const readTroubles = [
  "500",
  "reset",
  "silence",
  "HTML",
  "404",
  "404 with HTML",
  "429",
  "403 with HTML",
  "cut",
  "an error of the upstream",
] as const;
export type ReadTrouble = (typeof readTroubles)[number];

export type JobEnd = "completes" | "fails" | "is lost" | "never ends";

/**
 * "late": not there at first. "a page first": HTML with 200 in its place. "elsewhere": at an address of a minute. "gone": removed. "garbage": no
 * video. "no path": its server was started without a place for files.
 */
export type Content = "good" | "late" | "a page first" | "elsewhere" | "gone" | "garbage" | "no path";

/** What a server does with a job that runs when it is told to stop: it says at once that it has, after a while in which it says that it tries, or never. */
export type Stops = "at once" | "slowly" | "never";
