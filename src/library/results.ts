import type { Entry } from "../client/ledger/history.ts";
import {
  type CompletedGeneration as FoundCompleted,
  failureReason,
  readCost,
  type WireGeneration,
} from "../protocol/schema.ts";
import type { VidgenError } from "./errors.ts";

/** A generation as the service reported it. */
export type Generation = {
  /** The id that the service assigned. */
  id: string;
  /** "processing", "completed", "failed", or the service's own word for a running generation. */
  status: string;
  /** The URL of its video, once it is completed. */
  videoUrl: string | undefined;
  /** The URL of a thumbnail. */
  thumbnailUrl: string | undefined;
  /** When it was started, as stated by the service. */
  createdAt: string | undefined;
  /** When it was completed, as stated by the service. */
  completedAt: string | undefined;
  /** Why it failed. */
  error: string | undefined;
  /** What an engine of `vidgen serve` charged for it, in USD. */
  cost: number | undefined;
  /** The service's reply, unchanged. */
  raw: WireGeneration;
};

/** What a start would cost, as far as that is known; 0 if it is free. */
export type Estimated = {
  /** In credits. */
  credits: number | undefined;
  /** In USD. */
  cost: number | undefined;
  /** Whose list has the cost, such as "OpenRouter". */
  source: string | undefined;
};

/** A generation that was started. */
export type Started = {
  /** The id of the generation. */
  id: string;
  /** The name of the start: the caller's, or a UUID that vidgen made. It was sent as the Idempotency-Key. */
  idempotencyKey: string;
  /** Whether an earlier call started it: then nothing was sent, and nothing was charged now. */
  resumed: boolean;
  /** The cost of the start in credits, if the service states it. */
  credits: number | undefined;
  /** The credits of the account after the start, if the service states them. */
  remainingCredits: number | undefined;
  /** What the service warns about, such as a field without effect. */
  warnings?: readonly string[] | undefined;
};

/** A generation whose video is ready. */
export type Completed = Generation & {
  status: "completed";
  /** The URL of its video. */
  videoUrl: string;
};

/** A video that was saved. */
export type Saved = {
  /** The path of the file. */
  file: string;
  /** The SHA-256 of the file, in hexadecimal digits. */
  sha256: string;
  /** The size of the file in bytes. */
  size: number;
};

/** A generation whose video was saved. */
export type Downloaded = Completed & Saved;

/** The result of `generate`. */
export type Generated = Started & {
  /** The URL of the video; `undefined` if an earlier call saved it. */
  videoUrl: string | undefined;
  /** What an engine of `vidgen serve` charged for it, in USD. */
  cost: number | undefined;
  /** The path of the video, with `output`. */
  file: string | undefined;
  /** The SHA-256 of that file, in hexadecimal digits. */
  sha256: string | undefined;
  /** The size of that file in bytes. */
  size: number | undefined;
};

/** The outcome of a generation that `generations.resume` resumed. */
export type Resumed = {
  /** The id of the generation. */
  id: string;
  /** The name of its start. */
  idempotencyKey: string;
  /** The path of its video, if it was started with an `output`. */
  file: string | undefined;
  /** The URL of its video. */
  videoUrl: string | undefined;
  /** Why it failed, or could not be followed or saved. */
  error: VidgenError | undefined;
};

/** The status of a start. */
export type StartStatus =
  /** The request is being sent. */
  | "starting"
  /** The service accepted it, and it is running. */
  | "processing"
  /** The video is ready, or was delivered. */
  | "completed"
  /** The service says that it failed. */
  | "failed"
  /** The service accepted it, but no longer knows it. */
  | "lost"
  /** It may have been charged: there was no usable answer. */
  | "unknown"
  /** It was unknown or lost, and was closed. */
  | "dismissed"
  /** Its video was deleted at the service. */
  | "deleted"
  /** No byte of it was sent: nothing was charged. */
  | "unsent"
  /** The service refused it. */
  | "refused";

/** A start in the journal. */
export type StartRecord = {
  /** The name of the start: the caller's, or a UUID that vidgen made. It was sent as the Idempotency-Key. */
  idempotencyKey: string;
  /** The id of the generation, if the service sent one. */
  id: string | undefined;
  /** When it was started; ISO 8601, UTC. */
  at: string;
  /** Its status. */
  status: StartStatus;
  /** The request, with the service's field names, and without possible secrets. */
  request: { prompt: string; model: string; readonly [field: string]: unknown };
  /** Where its video was saved. */
  file: string | undefined;
  /** Why it was refused, is unknown, or failed. */
  reason: string | undefined;
  /** What it cost in credits, if the service states it. */
  credits: number | undefined;
  /** The credits of the account after the start, if the service states them. */
  remainingCredits: number | undefined;
  /** What an engine of `vidgen serve` charged for it, in USD. */
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
    error: failureReason(raw),
    cost: readCost(raw),
    raw,
  };
}

export function toCompleted({ generation, videoUrl }: FoundCompleted): Completed {
  return { ...toGeneration(generation), status: "completed", videoUrl };
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

export function toRecord({ key, attempt, remaining_credits: remainingCredits, ...entry }: Entry): StartRecord {
  const { id, at, status, request, file, reason, credits, cost } = entry;
  return { idempotencyKey: key ?? attempt, id, at, status, request, file, reason, credits, remainingCredits, cost };
}
