import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { localBaseUrl } from "../../client/ledger/same-service.ts";
import { type EngineOffer, findOffers } from "../../connect/local.ts";
import type { ModelPrice } from "../../connect/prices.ts";
import { findModelSetting } from "../../connect/settings.ts";
import { usage } from "../../errors.ts";
import {
  aspectRatios,
  defaultModel,
  findModel,
  guessModel,
  type Model,
  maxLocalSeconds,
  models,
} from "../../protocol/models.ts";
import { countCredits, formatUsd } from "../../protocol/text.ts";
import { isLoopback } from "../../protocol/url.ts";
import { collectValues, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { plainLine } from "../terminal/output.ts";
import { noteUnsaved } from "../unsaved.ts";

export function addModels(program: CommandUnknownOpts, context: Context): void {
  declare(program).action(async (id, options) => {
    await showModels(id, options, context);
    await noteUnsaved(context);
  });
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("models")
    .helpGroup("Get information:")
    .summary("list the models")
    .description(
      "Lists the models and what each is good at, with its price if known: a `vidgen serve` lists its prices once you are logged in, and other services state a price with each video. With --engine, lists the models of a provider or of your own server, with prices and limits if the server publishes them. This is free, and a provider needs no key for it.",
    )
    .argument("[model]", "show only this model, with its known prices, lengths and ratios")
    .option(
      "--engine <spec>",
      "list the models of a provider or of your own server, such as openrouter or http://gpu-1:8091",
      collectValues,
    );
  return withDetails(command, {
    examples: [
      "vidgen models",
      "vidgen models veo-3.1",
      "vidgen models --engine openrouter",
      "vidgen models veo-3.1 --engine openrouter",
    ],
  });
}

type ModelsFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Prints the models and what each is good at, or the models of engines. */
async function showModels(id: string | undefined, { engine }: ModelsFlags, context: Context): Promise<void> {
  if (engine !== undefined) return showOffers(id, engine, context);
  const { io, output } = context;
  const defaultId = (await findModelSetting(io)) ?? defaultModel;
  if (id !== undefined) return showModel(findKnownModel(id), defaultId, context);
  const { findModelPrices } = await import("../../connect/prices.ts");
  const prices = await findModelPrices(io);
  const width = Math.max(...models.map((model) => model.id.length));
  const texts = models.map(({ id }) => formatModelPrice(prices.get(id)));
  const priceWidth = Math.max(...texts.map((text = "") => text.length));
  const lines = models.map((model, index) => {
    const price = priceWidth === 0 ? "" : `  ${(texts[index] ?? "?").padEnd(priceWidth)}`;
    return `${model.id.padEnd(width)}${price}  ${describeModel(model, defaultId)}`;
  });
  const documents = models.map((model) => {
    const { credits = null, cost = null } = prices.get(model.id) ?? {};
    return { ...modelDocument(model, defaultId), credits, cost };
  });
  await output.result(lines.join("\n"), documents);
  if (priceWidth === 0 && io.stdout.isTTY)
    output.note(
      "Previews (--local) are free, and show nothing of what a model can do. A service states its price at the first video; `vidgen models --engine openrouter` lists those of a provider.",
    );
}

/**
 * Such as "10 credits", "$0.40" or "free"; `undefined` if unknown. A price of 0 is shown as free only for a
 * service on this machine.
 */
function formatModelPrice(price: ModelPrice | undefined): string | undefined {
  if (price?.cost !== undefined) return formatUsd(price.cost);
  if (price?.credits === undefined) return undefined;
  return price.credits === 0 && isLoopback(new URL(price.base_url).hostname) ? "free" : countCredits(price.credits);
}

function describeModel({ id, characteristic }: Model, defaultId: string): string {
  return `${characteristic}${id === defaultId ? " (default)" : ""}`;
}

function modelDocument({ id, characteristic }: Model, defaultId: string) {
  return { id, characteristic, default: id === defaultId };
}

/** Prints a model, its price from the service or from this machine's journal, and what it accepts. */
async function showModel(model: Model, defaultId: string, { io, output }: Context): Promise<void> {
  const { findJournal } = await import("../../connect/services.ts");
  const { priceFieldsOf } = await import("../../protocol/price.ts");
  const { readRecent } = await import("../../client/ledger/search.ts");
  const journal = findJournal({ ...io, onNote: output.note });
  const entries = await readRecent(journal);
  const { describeEarlierPrice, findModelPrices, listEarlierPrices } = await import("../../connect/prices.ts");
  const prices = listEarlierPrices(entries, model.id);
  const price = prices.length === 0 ? (await findModelPrices(io)).get(model.id) : undefined;
  const priceLines = prices.map(({ base_url, request, credits, cost }) => {
    const fields = priceFieldsOf(request).map(([name, value]) =>
      name === "duration" ? `${value} s` : `${name} ${value}`,
    );
    const price = cost === undefined ? countCredits(credits ?? 0) : formatUsd(cost);
    // At the local service, only engines other than the preview state a price.
    const where = base_url === localBaseUrl ? "with --engine" : `at ${new URL(base_url).host}`;
    return `  ${plainLine(`${price} ${where}${fields.length > 0 ? `: ${fields.join(", ")}` : ""}`)}`;
  });
  const { images } = model;
  const lines = [
    `${model.id}  ${describeModel(model, defaultId)}`,
    ...(images ? [`Images: ${images.min} to ${images.max}`] : []),
    `Length: depends on the service; with --local up to ${maxLocalSeconds} s`,
    `Ratio: depends on the service, such as ${aspectRatios.join(", ")}`,
    `Price: free with --local; ${describePrice(prices.length, price)}`,
    ...priceLines,
  ];
  const stated = prices.map(describeEarlierPrice);
  const { credits = null, cost = null } = price ?? stated[0] ?? {};
  const about = { images, aspect_ratios: aspectRatios, credits, cost, prices: stated };
  await output.result(lines.join("\n"), [{ ...modelDocument(model, defaultId), ...about }]);
}

/**
 * The text after "Price:". `earlier` is the number of prices that follow it; `price` is that of the service,
 * if there are none.
 */
function describePrice(earlier: number, price: ModelPrice | undefined): string {
  if (earlier > 0) return "the service stated for earlier videos:";
  if (price === undefined) return "otherwise unknown until the service states one";
  return `${formatModelPrice(price)} at ${new URL(price.base_url).host}`;
}

function findKnownModel(id: string): Model {
  const found = findModel(id);
  if (!found) throw unknownModelError(id);
  return found;
}

/** `ids` are those of engines. */
function unknownModelError(id: string, ids?: readonly string[]) {
  const similar = guessModel(id, ids);
  return usage(`There is no model ${id}.`, similar ? `Did you mean ${similar}?` : "`vidgen models` lists them.");
}

async function showOffers(id: string | undefined, engine: readonly string[], { io, output }: Context): Promise<void> {
  const all = await findOffers(engine, io);
  const shown = id === undefined ? all : all.filter((offer) => offer.id === id || offer.models.includes(id));
  if (id !== undefined && shown.length === 0)
    throw unknownModelError(
      id,
      all.flatMap((offer) => [offer.id, ...offer.models]),
    );
  const describe = (offer: EngineOffer) =>
    [describeOffer(offer), ...(id === undefined ? [] : describeCosts(offer))].join("\n");
  await output.result(shown.map(describe).join("\n"), shown);
}

function describeCosts({ costs }: EngineOffer): string[] {
  return Object.entries(costs).map(([seconds, usd]) => `  ${seconds} s: about ${formatUsd(usd)}`);
}

/** Such as "google/veo-3.1 (veo-3.1)  4, 6, 8 s; 720p, 1080p; 16:9, 9:16; image; per-video-second $0.40". */
function describeOffer(offer: EngineOffer): string {
  const { id, models: served, durations, resolutions, aspect_ratios, takes_image, takes_last_image, prices } = offer;
  const parts = [
    durations && `${durations.join(", ")} s`,
    resolutions?.join(", "),
    aspect_ratios?.join(", "),
    takes_image ? "image" : undefined,
    takes_last_image ? "last image" : undefined,
    prices &&
      Object.entries(prices)
        .map(([what, usd]) => `${what} ${Number.isNaN(Number(usd)) ? usd : formatUsd(Number(usd))}`)
        .join(", "),
  ];
  const name = served.length === 0 ? id : `${id} (${served.join(", ")})`;
  return [name, parts.filter(Boolean).join("; ")].filter((part) => part !== "").join("  ");
}
