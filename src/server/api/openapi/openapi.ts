import * as z from "zod";
import packageJson from "../../../../package.json" with { type: "json" };
import { createRecent } from "../../capacity.ts";
import type { ApiContext } from "../message.ts";
import { paths, webhooks } from "./operations.ts";
import { responses } from "./replies.ts";
import { schemaRef, schemas } from "./schemas.ts";

/** All schemas as JSON Schema, in which those with a name refer to each other. */
function jsonSchemas(): object {
  const registry = z.registry<{ id: string }>();
  for (const [name, schema] of Object.entries(schemas)) registry.add(schema, { id: name });
  const all = z.toJSONSchema(registry, {
    // As it is sent: other fields may come with those that are described.
    io: "input",
    uri: (name) => schemaRef(name).$ref,
    // Generators of clients read it as a field that is always there; and a provider's model may have its own.
    override: ({ jsonSchema }) => void delete jsonSchema.default,
  }).schemas;
  return Object.fromEntries(Object.entries(all).map(([name, { $schema, $id, ...schema }]) => [name, schema]));
}

/** Returns the description of the API, as OpenAPI 3.1, for a client that reaches it at this address. */
function describe(baseUrl: string): object {
  return {
    openapi: "3.1.0",
    info: {
      title: "vidgen serve",
      version: packageJson.version,
      summary: "Videos from prompts",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: baseUrl }],
    security: [{ key: [] }],
    tags: [
      { name: "generations", description: "From a prompt to a video." },
      { name: "videos", description: "The same generations for clients of `/v1/videos`." },
      { name: "owner", description: "With the key of the local account." },
      { name: "service", description: "Without a key." },
    ],
    paths,
    webhooks,
    components: {
      securitySchemes: { key: { type: "http", scheme: "bearer", description: "The API key of an account." } },
      schemas: jsonSchemas(),
      responses,
    },
  };
}

export type OpenapiOptions = {
  /** The address of the API where clients reach it by another one than its own, as behind a proxy. */
  publicUrl?: string | undefined;
};

/** A service has a few names; for each the description is made once, as that takes much longer than any other reply without a key. */
const maxAddresses = 10;

/** GET /openapi.json, which takes no key: but for the address it is the same at every service of this version. */
export function createOpenapiRoute({ publicUrl }: OpenapiOptions): (c: ApiContext) => Response {
  const texts = createRecent<string>(maxAddresses);
  return (c) => {
    const baseUrl = publicUrl ?? new URL(c.req.url).origin;
    const text = texts.get(baseUrl) ?? JSON.stringify(describe(baseUrl));
    texts.set(baseUrl, text);
    return c.body(text, 200, { "Content-Type": "application/json" });
  };
}
