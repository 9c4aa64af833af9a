import { type Completed as FoundCompleted, readCost } from "../client/follow.ts";
import type { Entry } from "../client/history.ts";
import type { statuses } from "../client/ledger/attempt.ts";
import { errorText, type Generation as WireGeneration } from "../client/schema.ts";

/** A generation as the service reported it; `raw` has each field unchanged. */
export type Generation = {
  id: string;
  /** "processing", "completed", "failed", or another word of the service, which still runs. */
  status: string;
  videoUrl: string | undefined;
  thumbnailUrl: string | undefined;
  createdAt: string | undefined;
  completedAt: string | undefined;
  /** Why it failed. */
  error: string | undefined;
  /** What an engine of `vidgen serve` has charged, in USD. */
  cost: number | undefined;
  raw: WireGeneration;
};

export type Started = {
  id: string;
  /** Its name in the journal, a UUID; the Idempotency-Key where the caller gave none. */
  attempt: string;
  /** Whether it was started by an earlier call, and nothing was sent by this one. */
  isEarlier: boolean;
  /** What it cost in credits, where the service states that. */
  credits: number | undefined;
  /** The credits of the account after the start, where the service tells them. */
  remainingCredits: number | undefined;
};

export type Completed = Generation & { status: "completed"; videoUrl: string };

/** A video that was saved. */
export type Saved = {
  file: string;
  /** Hexadecimal. */
  sha256: string;
  /** In bytes. */
  size: number;
};

export type Downloaded = Completed & Saved;

/** What the journal knows of a start. */
export type StartRecord = {
  attempt: string;
  /** Absent where the service has told none. */
  id: string | undefined;
  /** When it was started; ISO 8601, UTC. */
  at: string;
  status: (typeof statuses)[number];
  /** Without what may be secret. */
  request: { prompt: string; model: string; readonly [field: string]: unknown };
  /** Where its video was saved. */
  file: string | undefined;
  /** Why it was refused, is unknown, or failed. */
  reason: string | undefined;
  /** What it cost in credits, where the service has stated that. */
  credits: number | undefined;
  remainingCredits: number | undefined;
  /** In USD. */
  cost: number | undefined;
};

export function toGeneration(raw: WireGeneration): Generation {
  return {
    id: raw.id,
    status: raw.status,
    videoUrl: raw.video_url ?? undefined,
    thumbnailUrl: raw.thumbnail_url ?? undefined,
    createdAt: raw.created_at ?? undefined,
    completedAt: raw.completed_at ?? undefined,
    error: errorText(raw.error),
    cost: readCost(raw),
    raw,
  };
}

export function toCompleted({ generation, videoUrl }: FoundCompleted): Completed {
  return { ...toGeneration(generation), status: "completed", videoUrl };
}

export function toVideo({ generation, videoUrl }: FoundCompleted): Pick<Completed, "videoUrl" | "cost"> {
  return { videoUrl, cost: readCost(generation) };
}

export function toSaved({
  file,
  content: { sha256, size },
}: {
  file: string;
  content: Pick<Saved, "sha256" | "size">;
}): Saved {
  return { file, sha256, size };
}

export function toRecord({
  attempt,
  id,
  at,
  status,
  request,
  file,
  reason,
  credits,
  remaining_credits,
  cost,
}: Entry): StartRecord {
  return { attempt, id, at, status, request, file, reason, credits, remainingCredits: remaining_credits, cost };
}
