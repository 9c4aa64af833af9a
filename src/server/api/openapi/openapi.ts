import * as z from "zod";
import packageJson from "../../../../package.json" with { type: "json" };
import { createBoundedMap } from "../../bounded-map.ts";
import type { ServiceParts } from "../../service-parts.ts";
import { isUnlimited } from "../request-limit.ts";
import { type Paths, type Route, type Routes, responses, schemas, schemaUri } from "./operation.ts";
import { endedWebhook } from "./webhook.ts";

/** All named schemas as JSON Schema, in which they refer to each other. */
function jsonSchemas(): object {
  const all = z.toJSONSchema(schemas, {
    // With "output", objects could not have fields that are not described.
    io: "input",
    uri: schemaUri,
    // Client generators read a default as a field that is always present; and a provider's model may have its own default.
    override: ({ jsonSchema }) => void delete jsonSchema.default,
  }).schemas;
  return Object.fromEntries(Object.entries(all).map(([name, { $schema, $id, ...schema }]) => [name, schema]));
}

const shared = (name: keyof typeof responses) => ({ $ref: `#/components/responses/${name}` });
const withKey = { 401: shared("Unauthorized"), 503: shared("Unavailable"), default: shared("Refused") };

/** What the tags mean, and the replies that all operations with a tag have in common. */
const tags: Record<keyof Routes, { description: string; responses: object; security?: [] }> = {
  generations: { description: "From a prompt to a video.", responses: withKey },
  videos: { description: "The same generations for clients of `/v1/videos`.", responses: withKey },
  service: {
    description: "Without a key.",
    responses: { 403: shared("Elsewhere"), default: shared("Refused") },
    security: [],
  },
};

const busy = { 429: shared("Busy") };

function describePaths(tag: keyof Routes, paths: Paths): object {
  const { description: _, responses, ...rest } = tags[tag];
  const describeRoute = (method: string, path: string, { handle, isRoutine, ...operation }: Route) => ({
    tags: [tag],
    ...rest,
    ...operation,
    responses: { ...responses, ...(isUnlimited(method, path) ? {} : busy), ...operation.responses },
  });
  const described = Object.entries(paths).map(([path, { HEAD: _, ...routes }]) => [
    path.replace(/:(\w+)/g, "{$1}"),
    Object.fromEntries(
      Object.entries(routes).map(([method, route]) => [method.toLowerCase(), describeRoute(method, path, route)]),
    ),
  ]);
  return Object.fromEntries(described);
}

/** Returns the description of the API, as OpenAPI 3.1, for a client that reaches it at this address. */
function describe(baseUrl: string, routes: Routes): object {
  const groups = Object.entries(routes) as [keyof Routes, Paths][];
  return {
    openapi: "3.1.0",
    info: {
      title: "vidgen serve",
      version: packageJson.version,
      summary: "Videos from prompts",
      description:
        "A generation makes one video from a prompt, and images if there are any. Start it, poll its status until it has ended, and download the video.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: baseUrl }],
    security: [{ key: [] }],
    tags: Object.entries(tags).map(([name, { description }]) => ({ name, description })),
    paths: Object.assign({}, ...groups.map(([tag, paths]) => describePaths(tag, paths))),
    webhooks: { ended: { post: endedWebhook } },
    components: {
      securitySchemes: { key: { type: "http", scheme: "bearer", description: "The API key of an account." } },
      schemas: jsonSchemas(),
      responses,
    },
  };
}

/** A service has a few addresses, and the description is built once for each, because that takes much longer than any other reply without a key. */
const maxAddresses = 10;

/** GET /openapi.json describes these routes, and takes no key. */
export function createOpenapiRoute({ publicUrl }: Pick<ServiceParts, "publicUrl">, routes: () => Routes): Route {
  const texts = createBoundedMap<string>(maxAddresses);
  return {
    operationId: "describe",
    summary: "Returns this description",
    description: "It is the same for every account.",
    responses: {
      200: { description: "OpenAPI 3.1", content: { "application/json": { schema: { type: "object" } } } },
    },
    handle(c) {
      const baseUrl = publicUrl ?? new URL(c.req.url).origin;
      const text = texts.get(baseUrl) ?? JSON.stringify(describe(baseUrl, routes()));
      texts.set(baseUrl, text);
      return c.body(text, 200, { "Content-Type": "application/json" });
    },
  };
}
