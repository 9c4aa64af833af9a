import * as z from "zod";
import type { Engine } from "../engines/engine.ts";
import { refuse } from "../http/message.ts";
import { named, type Paths, parameters, refusal, reply } from "./openapi/operation.ts";

const modelSchema = named("Model", {
  id: z.string(),
  object: z.literal("model"),
  created: z.number(),
  owned_by: z.literal("vidgen"),
});
const modelsSchema = named("Models", { object: z.literal("list"), data: z.array(modelSchema) });

/** The routes of GET /v1/models and /v1/models/<id>: what is served here. */
export function createModels({ engines }: { engines: readonly Pick<Engine, "models">[] }): Paths {
  const served = [...new Set(engines.flatMap(({ models }) => models))];
  const data = served.map((id) => ({ id, object: "model", created: 0, owned_by: "vidgen" }));
  return {
    "/v1/models": {
      GET: {
        operationId: "listModels",
        summary: "Lists the models that this service serves",
        description: "Other services have this path too: only here `owned_by` is vidgen.",
        responses: { 200: reply("The models", modelsSchema) },
        handle: (c) => c.json({ object: "list", data }),
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
        handle(c) {
          const wanted = c.req.param("id") ?? "";
          const found = data.find(({ id }) => id === wanted);
          if (found) return c.json(found);
          const message = `${wanted.slice(0, 64)} is not served here; GET /v1/models lists what is`;
          throw refuse(404, "model_not_found", message);
        },
      },
    },
  };
}
