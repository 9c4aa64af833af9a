import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { modelWord, type Naming, promptWord } from "./naming.ts";
import {
  type ClaimOptions,
  claimNamedById,
  claimTarget,
  isExistsError,
  isTaken,
  outputError,
  type Target,
} from "./target.ts";
import { fillIn } from "./template.ts";

export type PlaceOptions = Omit<ClaimOptions, "naming"> & {
  naming: Omit<Naming, "id"> & { id?: string | undefined };
  /** The day for `{date}`, such as "2026-01-31". */
  date: string;
  /** Where `{n}` begins to look for a name that is free. */
  first: number;
};

/**
 * Claims the place that `-o` names, the names in its braces filled in: `{n}` with the first number whose file is not there yet. Throws
 * `output` as `claimTarget` does.
 */
export async function claimPlace(place: string, options: PlaceOptions): Promise<Target> {
  for (let n = options.first; ; n++) {
    const numbered = fillIn(place, { n: String(n) });
    const filled = fillWords(numbered, options);
    const isNumbered = numbered !== place;
    if (isNumbered && (await isTaken(filled))) continue;
    try {
      return { ...(await claimFilled(numbered, filled, options)), place: numbered };
    } catch (error) {
      // Somebody else may have taken the number meanwhile.
      if (!isNumbered || !isExistsError(error)) throw error;
    }
  }
}

/** All but the id, which may not be known yet, and the number. */
export function fillWords(place: string, { naming, date }: Pick<PlaceOptions, "naming" | "date">): string {
  return fillIn(place, { slug: promptWord(naming.prompt), model: modelWord(naming.model), date });
}

async function claimFilled(template: string, filled: string, options: PlaceOptions): Promise<Target> {
  const { id, ...words } = options.naming;
  const naming = id === undefined ? undefined : { id, ...words };
  // A folder that the words make is nobody's slip of the fingers.
  if (dirname(template) !== dirname(filled))
    await mkdir(dirname(filled), { recursive: true }).catch((error) => {
      throw outputError(error, filled);
    });
  const claim = filled.includes("{id}") ? claimNamedById : claimTarget;
  return claim(filled, { ...options, naming });
}
