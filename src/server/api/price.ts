import type { UsdList } from "../../protocol/price.ts";
import { localAccount } from "../announcement.ts";
import type { ServiceParts } from "../service-parts.ts";

/** The credits that a generation costs at the local service unless its owner set a price for the model. */
const defaultPrice = 10;

export type PriceOptions = Pick<ServiceParts, "engines" | "creditsPer" | "hasPaidPreviews">;

/** The credits that a start of this model costs this account. A preview costs the owner of the service nothing, unless previews must be paid. */
export function priceOf(model: string, account: string, options: PriceOptions): number {
  const isFree = account === localAccount && !options.hasPaidPreviews && isPreview(model, options);
  return isFree ? 0 : listPriceOf(model, options);
}

/** Returns the credits for an account that pays for previews too. */
export function listPriceOf(model: string, { creditsPer }: Pick<PriceOptions, "creditsPer">): number {
  return creditsPer.get(model) ?? defaultPrice;
}

/** Whether no real model makes the videos of a model. */
export function isPreview(model: string, { engines }: Pick<PriceOptions, "engines">): boolean {
  return engines.every(({ models, isSimulation }) => isSimulation || !models.includes(model));
}

/** Returns the models whose previews are free for the owner of the service. */
export function listFreeModels(options: PriceOptions): string[] {
  const served = new Set(options.engines.flatMap(({ models }) => models));
  return [...served].filter((model) => isPreview(model, options) && priceOf(model, localAccount, options) === 0);
}

/** The price lists of the engines that may make the videos of a model in a provider's account; empty unless all of them have one. */
export async function usdListsOf(model: string, { engines }: Pick<PriceOptions, "engines">): Promise<UsdList[]> {
  const real = engines.filter(({ models, isSimulation }) => models.includes(model) && !isSimulation);
  const lists = await Promise.all(real.map(({ listPrices }) => listPrices?.(model)));
  return lists.every((list) => list !== undefined) ? lists : [];
}
