import { STATUS_CODES } from "node:http";
import { errorBody, maxKeyLength } from "../message.ts";
import { type SchemaName, schemaRef } from "./schemas.ts";

/** What operations have in common: their bodies, as JSON, and how they refuse. */

const content = (name: SchemaName, example?: object) => ({
  "application/json": { schema: schemaRef(name), ...(example && { example }) },
});

export const requestBody = (name: SchemaName, example: object) => ({ required: true, content: content(name, example) });

export const reply = (description: string, name: SchemaName, example?: object) => ({
  description,
  content: content(name, example),
});

const refused = (status: number, code: string, message: string) =>
  reply(STATUS_CODES[status] ?? "", "Error", errorBody(status, code, message));

/** A status that refuses a request, with the code and the message of one example. */
export const refusal = (status: number, code: string, message: string) => ({
  [status]: refused(status, code, message),
});

const text = { type: "string" };

export const retryAfter = { "Retry-After": { description: "Seconds.", schema: text } };

export const responses = {
  Unauthorized: {
    ...refused(401, "unauthorized", "unknown API key"),
    headers: { "WWW-Authenticate": { schema: text } },
  },
  Forbidden: refused(403, "forbidden", "only the local account's key can use /engines"),
  Elsewhere: refused(403, "forbidden_origin", "requests from other web sites are refused"),
  Unavailable: { ...reply("The database cannot be reached", "Error"), headers: retryAfter },
  Refused: reply("Any other refusal", "Error"),
};

const shared = (name: keyof typeof responses) => ({ $ref: `#/components/responses/${name}` });

/** What every operation with a key may answer, one with the owner's key, and one without a key. */
export const toAccount = { 401: shared("Unauthorized"), 503: shared("Unavailable"), default: shared("Refused") };
export const toOwner = { ...toAccount, 403: shared("Forbidden") };
export const toAnybody = { 403: shared("Elsewhere"), default: shared("Refused") };

export const notFound = refusal(404, "not_found", "there is no generation with this id");

/** What a start may answer besides. */
export const notStarted = {
  ...refusal(400, "invalid_prompt", "prompt is missing"),
  ...refusal(402, "insufficient_credits", "one generation costs 10 credits; the account has fewer"),
  ...refusal(409, "idempotency_key_reused", "this Idempotency-Key was already used with another body"),
  429: {
    ...refused(429, "too_many_running", "this account may have 1 unfinished generations at once; nothing was charged"),
    headers: retryAfter,
  },
};

export const startNote = "If no reply came, send it again only with its Idempotency-Key: it may have been charged.";

/** The header Idempotency-Key. */
export const idempotencyKey = { type: "string", minLength: 1, maxLength: maxKeyLength };

/** The parameters of a start. */
export const startParameters = [
  {
    name: "Idempotency-Key",
    in: "header",
    description: "With the same key and body again, the same reply comes and nothing is charged.",
    schema: idempotencyKey,
  },
  {
    name: "Vidgen-Label",
    in: "header",
    description:
      "A label, such as the name of a batch, by which the page groups generations: percent-encoded, at most 200 characters.",
    schema: text,
  },
  {
    name: "Vidgen-Label-Size",
    in: "header",
    description: "How many generations will have that label, for the estimate of the remaining time.",
    schema: { type: "integer", minimum: 1 },
  },
];

export const idParameter = (where: "query" | "path") => ({
  name: "id",
  in: where,
  required: true,
  description: "The Idempotency-Key of the start.",
  schema: { type: "string", format: "uuid" },
});
