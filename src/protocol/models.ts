import { usage } from "../errors.ts";

/** The ids of the models that the interface lists. */
export type KnownModel =
  | "sora-2"
  | "veo-3.1"
  | "kling-2.6"
  | "kling-1.6-elements"
  | "wan-2.5"
  | "ray-3"
  | "seedance"
  | "minimax";

/** A model of the service. */
export type Model = {
  /** Its name in a request. */
  id: string;
  /** What it is good at. */
  characteristic: string;
  /** How many images it needs, if the interface states that. */
  images?: { min: number; max: number };
};

/** The models that the interface lists (section 2.2 of api.md). */
export const models: readonly Model[] = [
  { id: "sora-2", characteristic: "flagship, cinematic quality" },
  { id: "veo-3.1", characteristic: "fast variant, native audio" },
  { id: "kling-2.6", characteristic: "high fidelity, audio support" },
  { id: "kling-1.6-elements", characteristic: "multi-image fusion, 2 to 4 images", images: { min: 2, max: 4 } },
  { id: "wan-2.5", characteristic: "ultra-realistic, best value" },
  { id: "ray-3", characteristic: "fast creative generation" },
  { id: "seedance", characteristic: "fast and efficient" },
  { id: "minimax", characteristic: "ultra-realistic humans" },
] satisfies readonly (Model & { id: KnownModel })[];

/** The longest video of the local service, in seconds; the interface states no limit for other services. */
export const maxLocalSeconds = 60;

/** The default model, which the interface calls "best value". */
export const defaultModel = "wan-2.5";

/** Suggested ratios; the interface accepts any. */
export const aspectRatios = ["16:9", "9:16", "1:1", "4:3", "3:4", "21:9"] as const;

/** The ratio that the model chooses, such as that of its image, where it can. */
export const adaptiveRatio = "adaptive";

/** The resolutions whose pixels are known, with their shorter side. A service may have others. */
export const resolutions: Readonly<Record<string, number>> = {
  "480p": 480,
  "720p": 720,
  "1080p": 1080,
  "1440p": 1440,
  "2160p": 2160,
};
const otherResolutionNames: Readonly<Record<string, string>> = { "2k": "1440p", "4k": "2160p" };

/** Returns the shorter side of a resolution in pixels; `undefined` if that is not known. */
export function shorterSideOf(resolution: string): number | undefined {
  const name = resolution.toLowerCase();
  return resolutions[otherResolutionNames[name] ?? name];
}

export function findModel(id: string): Model | undefined {
  return models.find((model) => model.id === id);
}

/**
 * Returns the model's id unchanged, even if it is unknown, since the service may have new models. Throws
 * `usage` if it is empty.
 */
export function checkModel(id: string): string {
  if (id.trim() === "") throw usage("The model is empty.", "`vidgen models` lists them.");
  return id;
}

/** The model among `ids` that an unknown one probably means; `undefined` for one of them, or without a similar one. */
export function guessModel(id: string, ids: readonly string[] = models.map((model) => model.id)): string | undefined {
  return ids.includes(id) ? undefined : (findSimilar(id, ids) ?? findByPrefix(id, ids));
}

/** The first candidate that starts with a word of at least three letters, such as "veo-3.1" for "Veo". */
function findByPrefix(word: string, candidates: readonly string[]): string | undefined {
  const lettersOf = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, "");
  const prefix = lettersOf(word);
  return prefix.length < 3 ? undefined : candidates.find((candidate) => lettersOf(candidate).startsWith(prefix));
}

/** The candidate that a mistyped word probably means: at most two edits away. */
export function findSimilar(word: string, candidates: readonly string[]): string | undefined {
  const typed = word.toLowerCase();
  const distances = candidates.map((candidate) => ({ candidate, distance: editDistance(typed, candidate) }));
  const [nearest] = distances.sort((a, b) => a.distance - b.distance);
  return nearest && nearest.distance <= 2 ? nearest.candidate : undefined;
}

/** The Levenshtein distance: the number of letters to add, remove or change. */
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
