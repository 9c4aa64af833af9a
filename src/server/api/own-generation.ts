import { HTTPException } from "hono/http-exception";
import * as z from "zod";
import { isUuid } from "../../protocol/id.ts";
import { localAccount } from "../announcement.ts";
import { type ApiContext, errorBody, refuse } from "../http/message.ts";
import type { StoredGeneration } from "../store/generations.ts";
import type { Store } from "../store/store.ts";
import { id, parameters, refusal } from "./openapi/operation.ts";

/** The parameter and the refusal of `findOwnGeneration`, for the OpenAPI description. */
export const ownId = { id: id.meta({ description: "The id of the generation, from the reply to its start." }) };
export const ownersAccount = parameters("query", {
  account: z
    .string()
    .optional()
    .meta({ description: "The owner reaches a generation of another account only by its name." }),
});
export const notFound = refusal(404, "not_found", "there is no generation with this id");

/**
 * Finds the generation that the path, or else the query parameter `id`, names. Throws a refusal when the account has none with this id, or has
 * removed it. The owner of the service reaches that of another account with its name in the parameter `account`; without, the refusal names it.
 */
export async function findOwnGeneration(c: ApiContext, store: Pick<Store, "generation">): Promise<StoredGeneration> {
  const id = c.req.param("id") ?? c.req.query("id");
  if (!id) throw refuse(400, "invalid_id", "the query parameter id is missing");
  c.set("id", id);
  // Only ids of this form are looked up, because SQLite would cut others at the first NUL.
  const generation = isUuid(id) ? await store.generation(id) : undefined;
  const { account } = c.var;
  const named = c.req.query("account") ?? account;
  const isOwner = account === localAccount;
  if (isOwner && generation && generation.account !== named) throw otherAccount(generation);
  // The reply to another account's id is the same as for an unknown id, so that it reveals nothing.
  if (generation?.account !== named || !(isOwner || named === account))
    throw refuse(404, "not_found", "there is no generation with this id");
  if (generation.removed_at) throw refuse(404, "removed", `this generation was removed at ${generation.removed_at}`);
  return generation;
}

/** Only for the owner, who may know whose it is. */
function otherAccount({ account }: Pick<StoredGeneration, "account">) {
  const { error } = errorBody(404, "other_account", `this generation belongs to the account ${account}`);
  const res = Response.json({ error: { ...error, account } }, { status: 404 });
  return new HTTPException(404, { message: error.message, res });
}
