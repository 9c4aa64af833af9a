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
  "silence",
  "connection refused",
  "no connection",
  "the finished video",
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
];
/** Nothing of the create was written. */
export const unsentReplies: readonly CreateReply[] = ["connection refused", "no connection"];

/** What may go wrong when a job is asked for, or its video. */
export const readTroubles = ["500", "reset", "silence", "HTML", "404", "429", "403 with HTML", "cut"] as const;
export type ReadTrouble = (typeof readTroubles)[number];

export type JobEnd = "completes" | "fails" | "is lost" | "never ends";

/** "late": not there at first. "elsewhere": at an address of a minute. "gone": removed. "garbage": no video. */
export type Content = "good" | "late" | "elsewhere" | "gone" | "garbage";
