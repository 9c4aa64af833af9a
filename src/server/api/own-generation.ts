import { isUuid } from "../../protocol/id.ts";
import { type ApiContext, refuse } from "../http/message.ts";
import type { StoredGeneration } from "../store/generations.ts";
import type { Store } from "../store/store.ts";
import { id, refusal } from "./openapi/operation.ts";

/** The parameter and the refusal of `findOwnGeneration`, for the OpenAPI description. */
export const ownId = { id: id.meta({ description: "The id of the generation, from the reply to its start." }) };
export const notFound = refusal(404, "not_found", "there is no generation with this id");

/**
 * Finds the generation that the path, or else the query parameter `id`, names. Throws a refusal when the account has none with this id, or has
 * removed it.
 */
export async function findOwnGeneration(c: ApiContext, store: Pick<Store, "generation">): Promise<StoredGeneration> {
  const id = c.req.param("id") ?? c.req.query("id");
  if (!id) throw refuse(400, "invalid_id", "the query parameter id is missing");
  c.set("id", id);
  // Only ids of this form are looked up: SQLite would cut others at the first NUL.
  const generation = isUuid(id) ? await store.generation(id) : undefined;
  // The reply to another account's id is the same as for an unknown id, so that it reveals nothing.
  if (generation?.account !== c.var.account) throw refuse(404, "not_found", "there is no generation with this id");
  if (generation.removed_at) throw refuse(404, "removed", `this generation was removed at ${generation.removed_at}`);
  return generation;
}
