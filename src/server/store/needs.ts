import { isData } from "../jobs/images.ts";
import type { Claim, StoredCheckpoint, StoredGeneration } from "./store.ts";

/** What is stored beside a request that may have 28 MB, so that a claim does not read it. */
export function needsOf({ request, checkpoint }: Pick<StoredGeneration, "request" | "checkpoint">) {
  const { model, images, isReal } = request;
  const isFetched = images.some((source) => !isData(source));
  return { model, images: images.length, isReal, isFetched, ...submissionOf(checkpoint) };
}

/** Which engine a generation was submitted to, and whether that is unclear. */
export function submissionOf(checkpoint: StoredCheckpoint | null): Pick<Claim, "engine" | "isSubmitting"> {
  const engine = checkpoint?.state === "submitted" ? checkpoint.engine : null;
  return { engine, isSubmitting: checkpoint?.state === "submitting" };
}

/** The host of a receiver with its port, by which attempts are counted. */
export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

/** Returns how much of what was paid is given back: an account has no more credits than a number holds. */
export function refundOf(paid: number, balance: number): number {
  return Math.min(paid, Number.MAX_SAFE_INTEGER - balance);
}
