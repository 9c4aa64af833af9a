import type { Plan } from "./plan.ts";

/**
 * Defects of the client that are known, and that the rules pass over until they are mended. Each has a story in `known.json` that breaks a rule
 * without the exception: once it breaks none any more, a test says so, and the exception goes.
 */
export const knownDefects = [
  // Killed between `completed` and the printed line, or with a stdout that is full: the same line pays again.
  "a video that is ready counts as handed over",
  // Without --reuse, --dry-run prints the request also where the line would resume, and pay nothing.
  "a dry run shows the request, and the line resumes",
  // With another API key, also a new one of the same account, an idempotency key pays again.
  "an idempotency key counts for one API key alone",
  // An attempt with an idempotency key is a candidate for that key alone.
  "a start without a key goes on with one that has a key",
] as const;

export type KnownDefect = (typeof knownDefects)[number];

export type KnownStory = { defect: KnownDefect; plan: Plan };
