import { models } from "../client/models.ts";
import { readDirectives } from "./directives.ts";
import type { StoredGeneration } from "./store/store.ts";

/** How long generations take: as long as rendering does, or as long as the interface says (section 8). */
export type Pace = "fast" | "realistic";

const fewestMs = 60_000;
const spreadMs = 100_000;
const jitterMs = 20_000;

/** How long a generation takes at the least, from its creation, in milliseconds: 1 to 3 minutes, depending on the model, where that is wanted. */
export function paceMs({ id, request }: StoredGeneration, pace: Pace): number {
  const { slowMs } = readDirectives(request.prompt);
  if (pace === "fast") return slowMs;
  const place = models.findIndex((model) => model.id === request.model) / (models.length - 1);
  const jitter = Number.parseInt(id.slice(0, 4), 16) / 0xffff;
  return Math.max(slowMs, fewestMs + place * spreadMs + jitter * jitterMs);
}
