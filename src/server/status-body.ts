import { failureHint } from "./engines/failure-hint.ts";
import type { StoredGeneration } from "./store/generations.ts";

/** Returns the body of a status reply. `cost` (in USD), `error_code`, `hint` and `drawn_seed` are additions to the interface. */
export function statusBody(generation: StoredGeneration, mediaUrl: string) {
  const { id, status, media, created_at, error, error_code, cost, checkpoint } = generation;
  const hint = failureHint(generation);
  const hasUrls = media !== null && !media.isUnlisted;
  const video_url = hasUrls ? `${mediaUrl}/${id}.mp4` : null;
  const thumbnail_url = hasUrls && media.thumbnail !== null ? `${mediaUrl}/${id}.png` : null;
  return {
    id,
    status,
    video_url,
    thumbnail_url,
    created_at,
    ...(error === null ? {} : { error }),
    ...(error_code === undefined ? {} : { error_code }),
    ...(hint === undefined ? {} : { hint }),
    ...(cost === null ? {} : { cost }),
    ...(checkpoint?.drawn_seed === undefined ? {} : { drawn_seed: checkpoint.drawn_seed }),
  };
}
