import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import type { Handler } from "../../../src/server/http/message.ts";

type Json = Record<string, unknown>;
type Ref = { $ref: string };
type Media = { schema: Ref | Json; example?: unknown };
export type Reply = { description: string; content?: Record<string, Media>; headers?: Json };
export type Operation = {
  description: string;
  parameters?: { name: string; description?: string }[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, Reply | Ref>;
};
/** What these tests read of a description. */
export type Description = {
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  webhooks: { ended: { post: Operation } };
  components: Json;
};

const jsonType = "application/json";

export async function readDescription(api: Handler, baseUrl: string): Promise<Description> {
  return (await (await api(new Request(`${baseUrl}/openapi.json`))).json()) as Description;
}

/** Follows a reference to a shared part. */
export function resolve<Part extends object>(description: Description, part: Part | Ref): Part {
  if (!("$ref" in part)) return part;
  const names = part.$ref.split("/").slice(1);
  return names.reduce<unknown>((at, name) => (at as Json)[name], description) as Part;
}

/** Returns what is wrong with a value that the description says is JSON; `undefined` for nothing. */
export function createValidator(description: Description) {
  const ajv = new Ajv2020({ strict: false });
  formats.default(ajv);
  ajv.addSchema(description, "open");
  ajv.addSchema(close(description) as object, "closed");
  /** A request may have more fields than are described, a reply may not. */
  return (media: Media | undefined, value: unknown, may: "open" | "closed"): string | undefined => {
    const { schema = {} } = media ?? {};
    const check = "$ref" in schema ? ajv.getSchema(`${may}${schema.$ref}`) : ajv.compile(schema);
    return !check || check(value) ? undefined : ajv.errorsText(check.errors);
  };
}

/** Forbids fields that are not described. */
function close(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(close);
  if (typeof part !== "object" || part === null) return part;
  const closed = Object.fromEntries(Object.entries(part).map(([name, value]) => [name, close(value)]));
  return "properties" in part ? { ...closed, additionalProperties: false } : closed;
}

/** The description is the same at every service, but for the address. */
let reading: Promise<Checker> | undefined;

/** The same service, which throws when a JSON reply is not as its own /openapi.json says. */
export function createDescribed(api: Handler, baseUrl: string): Handler {
  return async (request, bindings) => {
    const reply = await api(request, bindings);
    // What breaks off on purpose has a length, and cannot be read twice.
    if (reply.headers.get("Content-Type") !== jsonType || reply.headers.has("Content-Length")) return reply;
    reading ??= readDescription(api, baseUrl).then(createChecker);
    const check = await reading;
    check(request, reply.status, await reply.clone().text());
    return reply;
  };
}

type Checker = ReturnType<typeof createChecker>;

function createChecker(description: Description) {
  const validate = createValidator(description);
  return ({ method, url }: Request, status: number, text: string) => {
    const { pathname } = new URL(url);
    const template = Object.keys(description.paths).find((path) =>
      new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`).test(pathname),
    );
    const operation = description.paths[template ?? ""]?.[method.toLowerCase()];
    if (!operation) return;
    const found = operation.responses[status] ?? (status < 400 ? undefined : operation.responses.default);
    const media = found && resolve(description, found).content?.[jsonType];
    const fault = media ? validate(media, JSON.parse(text), "closed") : "no such reply";
    if (fault !== undefined)
      throw new Error(`${method} ${pathname}, ${status}, is not as /openapi.json says: ${fault}\n${text}`);
  };
}
