/** Rare states of the service in which money or a video can be lost. */
export const engineProbeNames = [
  "a create is unclear",
  "an unclear create was taken",
  "a process dies while it submits",
  "a process is stopped while it submits",
  "a create is refused by nobody listening",
  "a create is put off and sent again",
  "a create is refused",
  "an answer is cut after the id",
  "a process knows a job when it dies",
  "a job is taken over from a dead process",
  "a job is taken over from a frozen process",
  "a folder is taken over from a frozen process",
  "a job is lost by the provider",
  "a job fails at the provider",
  "a job goes on for too long",
  "a video cannot be fetched at first",
  "a video can never be fetched",
  "a video comes by another address",
  "a cancel stops a generation",
  "a cancel comes too late",
  "a start is sent again with its key",
  "a callback is sent twice",
  "credits are given back",
  "the disk is full while a video is saved",
  "there is no descriptor for a video",
  "a database cannot be written",
  "the answer to the end of a generation is lost",
  "the clock jumps",
  "a restored copy is refused",
  "a restored copy ends what it may have submitted",
  "a restored copy follows a job",
] as const;

export type EngineProbe = (typeof engineProbeNames)[number];

export type ReachEngine = (probe: EngineProbe) => void;
