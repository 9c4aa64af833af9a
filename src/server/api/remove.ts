import * as z from "zod";
import { refuse } from "../http/message.ts";
import { removeMedia } from "../media/media-store.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { StoredGeneration } from "../store/generations.ts";

/** What a client must send to remove a generation of which it is unclear whether it was charged. */
export const acknowledgement = z.object({
  acknowledged: z
    .literal("unclear", { error: "must be unclear" })
    .optional()
    .meta({ description: "Says that you know that the generation may have been charged, and that it may go." }),
});

type Acknowledged = { isAcknowledged: boolean };

/** Returns why a generation may not be removed; `undefined` if it may. The page and the API follow it, and so the command line. */
export function findRemovalFault(
  { status, error_code, removed_at }: Pick<StoredGeneration, "status" | "error_code" | "removed_at">,
  { isAcknowledged }: Acknowledged,
): string | undefined {
  if (removed_at !== undefined) return "already deleted";
  if (status === "processing") return "not ended yet; cancel it first";
  if (error_code !== "unclear" || isAcknowledged) return undefined;
  return "it is unclear whether it was charged, so it stays on record";
}

const acknowledgeText = "once you have checked the account at its provider, send ?acknowledged=unclear to remove it";

/**
 * Deletes the video and the thumbnail of a generation, and marks the generation as removed. The ledger keeps its price. Throws a 409, and changes
 * nothing, if it may not be removed.
 */
export async function removeGeneration(
  generation: StoredGeneration,
  { isAcknowledged, store, videos, clock }: Acknowledged & Pick<ServiceParts, "store" | "videos" | "clock">,
): Promise<void> {
  const fault = findRemovalFault(generation, { isAcknowledged });
  if (fault !== undefined) throw refuse(409, "unclear", `not removed: ${fault}; ${acknowledgeText}`);
  // Removes the file first, because a file that is left after the removal would stay forever.
  await removeMedia(videos, generation.media);
  await store.remove(generation.id, clock.date().toISOString());
}
