import * as z from "zod";
import { refuse } from "../http/message.ts";
import { named, type Paths, parameters, refusal, reply } from "./openapi/operation.ts";
import { type PriceOptions, priceOf, usdListsOf } from "./price.ts";

const modelSchema = named("Model", {
  id: z.string(),
  object: z.literal("model"),
  created: z.number(),
  owned_by: z.literal("vidgen"),
  credits: z.number().meta({ description: "What a start costs this account." }),
  usd_prices: z
    .array(z.object({ source: z.string(), prices: z.record(z.string(), z.string()) }))
    .optional()
    .meta({
      description: "The prices in US dollars that the providers of its engines list, if all of them do.",
    }),
});
const modelsSchema = named("Models", { object: z.literal("list"), data: z.array(modelSchema) });

/** Lists the models that are served, with what they cost this account. */
export function listModels(account: string, options: PriceOptions) {
  const served = new Set(options.engines.flatMap(({ models }) => models));
  return Promise.all([...served].map((id) => describeModel(id, account, options)));
}

async function describeModel(id: string, account: string, options: PriceOptions) {
  const lists = await usdListsOf(id, options);
  const usd = lists.length > 0 && { usd_prices: lists };
  return { id, object: "model", created: 0, owned_by: "vidgen", credits: priceOf(id, account, options), ...usd };
}

/** The routes of GET /v1/models and /v1/models/<id>: what is served here. */
export function createModels(options: PriceOptions): Paths {
  return {
    "/v1/models": {
      GET: {
        operationId: "listModels",
        summary: "Lists the models that this service serves",
        description: "Other services have this path too: only here `owned_by` is vidgen.",
        responses: { 200: reply("The models", modelsSchema) },
        handle: async (c) => c.json({ object: "list", data: await listModels(c.var.account, options) }),
      },
    },
    "/v1/models/:id": {
      GET: {
        operationId: "retrieveModel",
        summary: "Returns a model that this service serves",
        description: "A model that is not served is answered with 404.",
        parameters: parameters("path", { id: z.string().meta({ description: "The id of the model." }) }),
        responses: {
          200: reply("The model", modelSchema),
          ...refusal(404, "model_not_found", "sora-9 is not served here; GET /v1/models lists what is"),
        },
        async handle(c) {
          const wanted = c.req.param("id") ?? "";
          if (options.engines.some(({ models }) => models.includes(wanted)))
            return c.json(await describeModel(wanted, c.var.account, options));
          const message = `${wanted.slice(0, 64)} is not served here; GET /v1/models lists what is`;
          throw refuse(404, "model_not_found", message);
        },
      },
    },
  };
}
