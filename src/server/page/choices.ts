import type { Clock } from "../../io.ts";
import { fields } from "../../protocol/fields.ts";
import { findModel } from "../../protocol/models.ts";
import type { UsdList } from "../../protocol/price.ts";
import { isPreview, type PriceOptions, priceOf, usdListsOf } from "../api/price.ts";
import type { Engine } from "../engines/engine.ts";
import type { RenderRequest } from "../store/generations.ts";

/** The fields that have buttons for usual values. */
export type OfferedName = "aspectRatio" | "duration" | "resolution";

export type Offers = Record<OfferedName, readonly string[]>;

/** A model in the form; `characteristic` is what it is good at, if known. */
export type ModelChoice = {
  name: string;
  characteristic: string | undefined;
  /** The cost of a start for the visitor's account. */
  credits: number;
  /** The prices in US dollars that the providers of its engines list. */
  usdPrices: readonly UsdList[];
  maxImages: number;
  isPreview: boolean;
  /** The values that the model takes; a field that is missing takes every value of `allOffers`. */
  offers: Partial<Offers>;
};

/** The values that the form has buttons for. A model may take only some of them. */
export const allOffers: Offers = {
  aspectRatio: suggestionsOf("aspectRatio"),
  duration: ["4", "5", "6", "8", "10", "12"],
  resolution: suggestionsOf("resolution"),
};

/** How long the form waits for a provider to state what its models take. */
const maxWaitMs = 1_000;

type ChoiceOptions = PriceOptions & { clock: Pick<Clock, "sleep"> };

/** The models that an account can choose, in the order of the engines. If a model has a real engine, preview engines do not count for it. */
export function listChoices(account: string, options: ChoiceOptions): Promise<ModelChoice[]> {
  const { engines, clock } = options;
  const names = new Set(engines.flatMap(({ models }) => models));
  const afterWait = clock.sleep(maxWaitMs).then(() => ({}));
  return Promise.all(
    [...names].map(async (name) => {
      const matching = engines.filter(({ models }) => models.includes(name));
      const real = matching.filter(({ isSimulation }) => !isSimulation);
      const usedEngines = real.length > 0 ? real : matching;
      const { characteristic, images } = findModel(name) ?? {};
      return {
        name,
        characteristic,
        credits: priceOf(name, account, options),
        usdPrices: await usdListsOf(name, options),
        maxImages: images?.max ?? Math.max(...usedEngines.map((engine) => engine.maxImages)),
        isPreview: isPreview(name, options),
        offers: await Promise.race([offersOf(name, usedEngines), afterWait]),
      };
    }),
  );
}

/** The values that at least one engine of a model accepts. */
async function offersOf(model: string, engines: readonly Pick<Engine, "findFault">[]): Promise<Partial<Offers>> {
  const isAccepted = async (name?: OfferedName, value = "") => {
    const faults = await Promise.all(engines.map(({ findFault }) => findFault?.(requestWith(model, name, value))));
    return faults.includes(undefined);
  };
  const offers: Partial<Offers> = {};
  // A workflow may need an image, which says nothing about these values.
  if (!(await isAccepted())) return offers;
  for (const [name, all] of Object.entries(allOffers) as [OfferedName, readonly string[]][]) {
    const areAccepted = await Promise.all(all.map((value) => isAccepted(name, value)));
    if (areAccepted.includes(false)) offers[name] = all.filter((_, index) => areAccepted[index]);
  }
  return offers;
}

/** A request that sets only this field, or none. */
function requestWith(model: string, name: OfferedName | undefined, value: string) {
  const unset = (["aspectRatio", "duration", "resolution"] as const).filter((each) => each !== name);
  const defaults = { aspectRatio: "16:9", duration: 5, resolution: "720p" };
  const set = name && { [name]: name === "duration" ? Number(value) : value };
  const given = { ...defaults, ...set } as Pick<RenderRequest, OfferedName>;
  return { prompt: "", model, images: [], extras: {}, unset, ...given };
}

function suggestionsOf(name: string): string[] {
  return (fields.find((field) => field.name === name)?.suggestions ?? []).map(([value]) => value);
}
