import { isUtf8 } from "node:buffer";
import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { About, RequestLog } from "../observe/log.ts";
import { isUnavailable, type OnTrouble } from "../observe/trouble.ts";
import { type ArrivingBody, createBodyMemory } from "./body-memory.ts";

/** What comes with a request over a socket: Node's own objects, and what is logged of it. */
export type Bindings = Partial<
  HttpBindings & {
    log: RequestLog;
    /** Stops counting it among the requests in progress. */
    leaveLimit(): void;
  }
>;

/** A web service as a function that never rejects. */
export type Handler = (request: Request, bindings?: Bindings) => Promise<Response>;

/** What a route of the API gets: the request and the account that its key belongs to. */
export type ApiContext = Context<ApiEnv>;
export type ApiEnv = { Bindings: Bindings; Variables: About & { account: string } };

/** Returns the error that refuses a request. Its reply is `{"error":{"code","message","type"}}`: the interface shows none (section 7). */
export function refuse(
  status: number,
  code: string,
  message: string,
  headers: Record<string, string> = {},
): HTTPException {
  const res = Response.json(errorBody(status, code, message), { status, headers });
  return new HTTPException(status as ContentfulStatusCode, { message, res });
}

const errorTypes: Record<number, string> = {
  401: "authentication_error",
  403: "permission_error",
  429: "rate_limit_error",
};

/** The body of every refusal; `type` is for clients of `/v1/videos`. */
export function errorBody(status: number, code: string, message: string) {
  const type = status >= 500 ? "server_error" : (errorTypes[status] ?? "invalid_request_error");
  return { error: { code, message, type } };
}

/** For replies with HTTP 503 and 429, in seconds. */
export const retryAfter = { "Retry-After": "5" };

/**
 * Returns the reply for anything thrown: that of a refusal, a 503 while the database is away, or a 500 that does not reveal the error;
 * `onTrouble` gets that one alone: the operator is told once of an outage, not of each request.
 */
export function errorResponse(thrown: unknown, onTrouble: OnTrouble = () => {}): Response {
  if (thrown instanceof HTTPException && thrown.res) return thrown.res;
  if (isUnavailable(thrown))
    return errorResponse(
      refuse(
        503,
        "unavailable",
        "the service cannot do this now; try again, with the same Idempotency-Key if you start a generation",
        retryAfter,
      ),
    );
  onTrouble("A request was answered with HTTP 500", thrown);
  return errorResponse(refuse(500, "internal", "internal error in the local service"));
}

/**
 * Returns a reply with a stream as its body. On a socket a pipeline sends it, which cuts the connection when the stream fails; hono's
 * adapter would print the error, and might append its text to the body.
 */
export async function streamResponse(
  body: Readable,
  { status, headers }: { status: number; headers: Record<string, string> },
  outgoing: ServerResponse | undefined,
): Promise<Response> {
  if (!outgoing) return new Response(Readable.toWeb(body) as ReadableStream, { status, headers });
  outgoing.req.resume();
  outgoing.writeHead(status, headers);
  await pipeline(body, outgoing).catch(() => {});
  return RESPONSE_ALREADY_SENT;
}

/** Returns the Idempotency-Key of a request that has one. Throws a refusal of one that is empty or too long. */
export function readIdempotencyKey({ req }: ApiContext): string | undefined {
  const key = req.header("Idempotency-Key");
  if (key === "" || (key !== undefined && key.length > maxKeyLength))
    throw refuse(400, "invalid_idempotency_key", `an Idempotency-Key has 1 to ${maxKeyLength} characters`);
  return key;
}

/** The most that an Idempotency-Key has, in characters. */
export const maxKeyLength = 255;

/** The largest body that is read where a route does not say otherwise. */
export const usualBodyBytes = 1_000_000;

/** A body as the text that was sent and as its value. */
export type JsonBody = { text: string; json: unknown };

/** Returns a request's JSON. Throws a refusal when it is not JSON or has more than `usualBodyBytes`. */
export async function readJson(c: ApiContext): Promise<JsonBody> {
  return parseJson(c, await readBody(c, { maxBytes: usualBodyBytes }));
}

export type BodyOptions = {
  maxBytes: number;
  /** The media types that it may have. */
  types?: readonly string[];
  /** Where it is kept while it arrives. */
  arriving?: ArrivingBody;
};

const jsonType = "application/json";

/** Reads a body. Throws a refusal when it is said to be of another type, has more than `maxBytes`, or there is no memory for it. */
export async function readBody(
  { req }: ApiContext,
  { maxBytes, types = [jsonType], arriving = createBodyMemory(Number.POSITIVE_INFINITY)("") }: BodyOptions,
): Promise<Uint8Array> {
  if (!types.includes(bodyType(req)))
    throw refuse(415, "unsupported_media_type", `the body must be ${types.join(" or ")}`);
  let length = 0;
  // A body that is refused is read to its end as well: many clients send all of it before they read the reply.
  for await (const chunk of req.raw.body ?? []) {
    length += chunk.byteLength;
    if (length > maxBytes) arriving.release();
    else arriving.add(chunk);
  }
  if (length > maxBytes) throw refuse(400, "body_too_large", `the body is larger than ${maxBytes / 1_000_000} MB`);
  const body = arriving.finish();
  // A client reads 503 as "it may have been charged".
  if (body === undefined)
    throw refuse(429, "busy", "too many large requests arrive at once; nothing was charged; try again", retryAfter);
  return body;
}

/** The media type of a body, such as "application/json". */
export function bodyType(req: ApiContext["req"]): string {
  const [type = ""] = (req.header("Content-Type") ?? "").split(";");
  return type.trim().toLowerCase();
}

/** Returns the JSON that was read. Throws a refusal when it is none, or costs more than its size. */
export function parseJson(c: ApiContext, bytes: Uint8Array): JsonBody {
  const text = new TextDecoder().decode(bytes);
  c.set("requestBody", text);
  const fault = findJsonFault(text);
  if (fault !== undefined) throw refuse(400, "invalid_json", `the body ${fault}`);
  try {
    if (isUtf8(bytes)) return { text, json: JSON.parse(text) };
  } catch {}
  throw refuse(400, "invalid_json", "the body is not JSON");
}

const maxDepth = 100;
const maxMembers = 10_000;

/** Says of a JSON text that it would take much longer to parse and to check than its size tells; `undefined` when it does not. */
export function findJsonFault(text: string): string | undefined {
  let [depth, members] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') at = findClosingQuote(text, at + 1);
    else if (character === "]" || character === "}") depth--;
    else if (character === "," || character === "[" || character === "{") {
      members++;
      if (character !== ",") depth++;
      if (depth > maxDepth) return `is nested more than ${maxDepth} levels deep`;
      if (members > maxMembers) return `has more than ${maxMembers.toLocaleString("en")} members`;
    }
  }
  return undefined;
}

function findClosingQuote(text: string, start: number): number {
  // Most texts, such as an image of megabytes, have no quote inside.
  const first = text.indexOf('"', start);
  if (first !== -1 && text[first - 1] !== "\\") return first;
  let at = start;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at;
}
