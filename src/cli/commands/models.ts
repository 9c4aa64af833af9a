import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { defaultModel, findModel, findSimilar, type Model, models } from "../../client/models.ts";
import { usage } from "../../errors.ts";
import { collectValues, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { type EngineOffer, findOffers } from "../local.ts";
import { findModelSetting } from "../settings.ts";

export function addModels(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((id, options) => showModels(id, options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("models")
    .summary("list the models")
    .description(
      "Lists the models and what each is good at; with --engine those of a provider or of your own server, with prices and limits where it tells them. This costs nothing, and a provider needs no key for it.",
    )
    .argument("[model]", "show this one alone")
    .option(
      "--engine <spec>",
      "list those of a provider or of a server of your own, such as openrouter or http://gpu-1:8091",
      collectValues,
    );
  return withDetails(command, {
    examples: ["vidgen models", "vidgen models --engine openrouter", "vidgen models veo-3.1 --engine openrouter"],
  });
}

type Options = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Prints the models and what each is for (interface section 2.2), or those of engines. */
async function showModels(id: string | undefined, { engine }: Options, context: Context): Promise<void> {
  if (engine !== undefined) return showOffers(id, engine, context);
  const { io, output } = context;
  const preset = (await findModelSetting(io)) ?? defaultModel;
  const shown = id === undefined ? models : [findOne(id)];
  const width = Math.max(...shown.map((model) => model.id.length));
  const lines = shown.map(
    (model) => `${model.id.padEnd(width)}  ${model.characteristic}${model.id === preset ? " (default)" : ""}`,
  );
  const documents = shown.map((model) => ({
    id: model.id,
    characteristic: model.characteristic,
    default: model.id === preset,
  }));
  await output.result(lines.join("\n"), documents);
}

function findOne(id: string): Model {
  const found = findModel(id);
  if (!found)
    throw unknownModel(
      id,
      models.map((model) => model.id),
    );
  return found;
}

function unknownModel(id: string, ids: readonly string[]) {
  const similar = findSimilar(id, ids);
  return usage(`There is no model ${id}.`, similar ? `Did you mean ${similar}?` : "`vidgen models` lists them.");
}

async function showOffers(id: string | undefined, engine: readonly string[], { io, output }: Context): Promise<void> {
  const all = await findOffers(engine, io);
  const shown = id === undefined ? all : all.filter((offer) => offer.id === id || offer.models.includes(id));
  if (id !== undefined && shown.length === 0)
    throw unknownModel(
      id,
      all.flatMap((offer) => [offer.id, ...offer.models]),
    );
  await output.result(shown.map(describeOffer).join("\n"), shown);
}

/** Such as "google/veo-3.1 (veo-3.1)  4, 6, 8 s; 720p, 1080p; 16:9, 9:16; image; per-video-second $0.40". */
function describeOffer(offer: EngineOffer): string {
  const { id, models: served, durations, resolutions, aspect_ratios, takes_image, prices } = offer;
  const parts = [
    durations && `${durations.join(", ")} s`,
    resolutions?.join(", "),
    aspect_ratios?.join(", "),
    takes_image ? "image" : undefined,
    prices &&
      Object.entries(prices)
        .map(([what, usd]) => `${what} $${usd}`)
        .join(", "),
  ];
  const name = served.length === 0 ? id : `${id} (${served.join(", ")})`;
  return [name, parts.filter(Boolean).join("; ")].filter((part) => part !== "").join("  ");
}
