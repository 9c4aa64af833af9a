/** Rare states in which money or a video can be lost. A search that never meets one of them proves nothing about it. */
export const probeNames = [
  "an outcome is unknown",
  "a process ends while its request is out",
  "the answer to another request is replayed",
  "an answer is cut after the id",
  "a refusal has an id",
  "an unclear start has an id",
  "a start is stopped by an unclear one",
  "a generation is lost",
  "a generation is unclear",
  "an attempt is dismissed",
  "an attempt is taken over",
  "a printed id is written down",
  "a balance does not fall",
  "a price is known in a budget",
  "a stale lock is taken over",
  "a stale lease is taken over",
  "a process has lost its lock",
  "a crash tears a line",
  "a download goes on",
  "a video changes during its download",
  "the rest of another version comes",
  "a partial file is replaced",
  "a saved video is replaced by another program",
  "a video is replaced with --overwrite",
  "a generation is cancelled",
  "a start has a key",
  "a dry run finds an earlier one",
  "a dry run shows the request",
  "an attempt goes on after half a day",
  "a command runs out of time",
  "a command is interrupted",
  "the disk is full while an intent is written",
  "the disk is full while an id is written",
  "half of a journal's line is written",
  "a lock or a lease cannot be removed",
  "a rename crosses devices",
] as const;

export type Probe = (typeof probeNames)[number];

/** Notes that a story has reached a state. */
export type Reach = (probe: Probe) => void;
