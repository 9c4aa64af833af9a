import { STATUS_CODES } from "node:http";
import * as z from "zod";
import { type ApiContext, errorBody } from "../../http/message.ts";
import { maxKeyLength } from "../idempotency.ts";
import { tooManyRequests } from "../request-limit.ts";

/** What /openapi.json says of a route. */
export type Operation = {
  operationId: string;
  summary: string;
  description: string;
  parameters?: object[];
  requestBody?: object;
  responses: { [status: string]: object };
};

/** A route of the owner, whose client is vidgen itself. Requests of a routine route are not logged. */
export type OwnerRoute = { isRoutine?: boolean; handle: (c: ApiContext) => Response | Promise<Response> };

/** A route that is described with the schemas that check its requests. */
export type Route = Operation & OwnerRoute;

/** Routes by their paths and methods. HEAD is answered like GET, without the body. */
export type Paths<Each = Route> = { [path: string]: { [method in "GET" | "HEAD" | "POST" | "DELETE"]?: Each } };
export type OwnerPaths = Paths<OwnerRoute>;

/** The routes that are described, by their tags: the first two take the key of any account, the last none. */
export type Routes = Record<"generations" | "videos" | "service", Paths>;

/** The schemas that have a name in the description. */
export const schemas = z.registry<{ id: string }>();

/** Returns the schema of an object that has a name in the description. */
export function named<Shape extends z.core.$ZodShape>(id: string, shape: Shape) {
  return z.object(shape).register(schemas, { id });
}

/** Returns the address of a named schema. */
export function schemaUri(name: string): string {
  return `#/components/schemas/${name}`;
}

export function schemaRef(schema: z.ZodType): { $ref: string } {
  return { $ref: schemaUri(schemas.get(schema)?.id ?? "") };
}

export const id = z.string().meta({ format: "uuid" });
export const url = z.string().meta({ format: "uri" });
export const idempotencyKey = z.string().min(1).max(maxKeyLength);
export const time = z.string().meta({ format: "date-time" });

const error = named("Error", {
  error: z.object({
    code: z.string(),
    message: z.string(),
    type: z.string(),
    account: z.string().optional().meta({ description: "With `other_account`: the account of the generation." }),
  }),
});

const content = (schema: z.ZodType, example?: object) => ({
  "application/json": { schema: schemaRef(schema), ...(example && { example }) },
});

export const requestBody = (schema: z.ZodType, example: object) => ({
  required: true,
  content: content(schema, example),
});

export const reply = (description: string, schema: z.ZodType, example?: object) => ({
  description,
  content: content(schema, example),
});

const refused = (status: number, code: string, message: string) =>
  reply(STATUS_CODES[status] ?? "", error, errorBody(status, code, message));

/** A status that refuses a request, with the code and the message of one example, and the headers of the reply. */
export const refusal = (status: number, code: string, message: string, headers?: object) => ({
  [status]: { ...refused(status, code, message), ...(headers && { headers }) },
});

const text = { type: "string" };

export const retryAfterHeader = { "Retry-After": { description: "Seconds.", schema: text } };

/** The parameters of a request that these schemas describe, by their names. */
export function parameters(where: "query" | "path" | "header", shape: z.core.$ZodShape): object[] {
  const { properties = {}, required = [] } = z.toJSONSchema(z.object(shape), { io: "input" });
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...schema } = property as z.core.JSONSchema.JSONSchema;
    return { name, in: where, description, schema, ...(required.includes(name) && { required: true }) };
  });
}

export const responses = {
  Unauthorized: {
    ...refused(401, "unauthorized", "unknown API key"),
    headers: { "WWW-Authenticate": { description: "Bearer.", schema: text } },
  },
  Elsewhere: refused(403, "forbidden_origin", "requests from other web sites are refused"),
  Busy: { ...refused(429, "busy", tooManyRequests), headers: retryAfterHeader },
  Unavailable: { ...reply("The database cannot be reached", error), headers: retryAfterHeader },
  Refused: reply("Any other refusal", error),
};
