import { usage } from "../errors.ts";

/** A model of the service (interface section 2.2). */
export type Model = {
  id: string;
  characteristic: string;
  /** How many images it wants, where the interface says so (section 8). */
  images?: { min: number; max: number };
};

export const models: readonly Model[] = [
  { id: "sora-2", characteristic: "flagship, cinematic quality" },
  { id: "veo-3.1", characteristic: "fast variant, native audio" },
  { id: "kling-2.6", characteristic: "high fidelity, audio support" },
  { id: "kling-1.6-elements", characteristic: "multi-image fusion, 2 to 4 images", images: { min: 2, max: 4 } },
  { id: "wan-2.5", characteristic: "ultra-realistic, best value" },
  { id: "ray-3", characteristic: "fast creative generation" },
  { id: "seedance", characteristic: "fast and efficient" },
  { id: "minimax", characteristic: "ultra-realistic humans" },
];

/** What `generate` uses when nobody says otherwise: "best value" in the interface's own words. */
export const defaultModel = "wan-2.5";

/** Common ones, to choose from; the interface takes any. */
export const aspectRatios = ["16:9", "9:16", "1:1", "4:3", "3:4", "21:9"] as const;

export function findModel(id: string): Model | undefined {
  return models.find((model) => model.id === id);
}

/**
 * Lets a known model pass, and an unknown one too: the service may have gained models since. Throws a usage error for what is most
 * likely a slip of the fingers.
 */
export function checkModel(id: string): string {
  if (id.trim() === "") throw usage("The model is empty.", "`vidgen models` lists them.");
  if (findModel(id)) return id;
  const nearest = findSimilar(
    id,
    models.map((model) => model.id),
  );
  if (nearest === undefined) return id;
  throw usage(`There is no model "${id}". Did you mean ${nearest}?`, `To send it just as typed: --set model=${id}`);
}

/** The candidate that a word is most likely a slip of the fingers of; `undefined` when none is at most `most` letters away. */
export function findSimilar(word: string, candidates: readonly string[], most = 2): string | undefined {
  const typed = word.toLowerCase();
  const distances = candidates.map((candidate) => ({ candidate, distance: editDistance(typed, candidate) }));
  const [nearest] = distances.sort((a, b) => a.distance - b.distance);
  return nearest && nearest.distance <= most ? nearest.candidate : undefined;
}

/** Levenshtein's: how many single letters have to be added, dropped or changed. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
