import { isUtf8 } from "node:buffer";
import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { findClosingQuote, isRecord } from "../../protocol/json.ts";
import type { About, RequestLog } from "../observe/log.ts";
import { isUnavailable, type ReportProblem } from "../observe/problem.ts";
import { type ArrivingBody, createBodyMemory } from "./body-memory.ts";

/** What comes with a request over a socket: Node's objects and the log entry. */
export type Bindings = Partial<
  HttpBindings & {
    log: RequestLog;
    /** Stops counting the request as one in progress. */
    leaveLimit(): void;
  }
>;

/** A web service as a function that never rejects. */
export type Handler = (request: Request, bindings?: Bindings) => Promise<Response>;

/** The context of a route of the API: the request, and the account of its key; for the page also the version of the data when the request arrived. */
export type ApiContext = Context<ApiEnv>;
export type ApiEnv = { Bindings: Bindings; Variables: About & { account: string; version: string } };

/** Returns the error that refuses a request. Its reply is `{"error":{"code","message","type"}}`. */
export function refuse(
  status: number,
  code: string,
  message: string,
  headers: Record<string, string> = {},
): HTTPException {
  // A code may have the name of a client's field in it.
  const res = Response.json(errorBody(status, code.replace(/\W/g, "_"), message), { status, headers });
  return new HTTPException(status as ContentfulStatusCode, { message, res });
}

const errorTypes: Record<number, string> = {
  401: "authentication_error",
  403: "permission_error",
  429: "rate_limit_error",
};

/** The body of each refusal; `type` is for clients of `/v1/videos`. */
export function errorBody(status: number, code: string, message: string) {
  const type = status >= 500 ? "server_error" : (errorTypes[status] ?? "invalid_request_error");
  return { error: { code, message, type } };
}

/** For replies with HTTP 503 and 429, in seconds. */
export const retryAfter = { "Retry-After": "5" };

/**
 * Returns the reply for a thrown value: the refusal, a 503 during an outage, or a 500 without details of the error. Reports only the error of a 500,
 * because an outage is reported once, not for each request.
 */
export function errorResponse(thrown: unknown, reportProblem: ReportProblem = () => {}): Response {
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
  reportProblem("A request was answered with HTTP 500", thrown);
  return errorResponse(refuse(500, "internal", "internal error in the local service"));
}

/**
 * Returns a reply with a stream as its body. On a socket, a pipeline sends it and cuts the connection if the stream fails: hono's adapter would print
 * the error, and might append its text to the body.
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

/** The largest body that a route reads by default. */
export const defaultBodyBytes = 1_000_000;

/** A body as the text that was sent and as the parsed value; `earlierTexts` returns those that earlier versions read from the same body. */
export type JsonBody = { text: string; json: unknown; earlierTexts?(): string[] };

/** Reads a JSON body. Throws a refusal if it is not JSON, or larger than `defaultBodyBytes`. */
export async function readJson(c: ApiContext): Promise<JsonBody> {
  return parseJson(c, await readBody(c, { maxBytes: defaultBodyBytes }));
}

export type BodyOptions = {
  maxBytes: number;
  /** The accepted media types; JSON by default. */
  types?: readonly string[];
  /** Stores the body while it is received. */
  arriving?: ArrivingBody;
};

const jsonType = "application/json";

/** Reads a body. Throws a refusal if the body has another media type, is larger than `maxBytes`, or does not fit into memory. */
export async function readBody(
  { req }: ApiContext,
  { maxBytes, types = [jsonType], arriving = createBodyMemory(Number.POSITIVE_INFINITY)("") }: BodyOptions,
): Promise<Uint8Array> {
  if (!types.includes(bodyType(req)))
    throw refuse(415, "unsupported_media_type", `the body must be ${types.join(" or ")}`);
  if (!/^identity$/i.test(req.header("Content-Encoding") ?? "identity"))
    throw refuse(415, "unsupported_content_encoding", "the body must not be compressed", {
      "Accept-Encoding": "identity",
    });
  let length = 0;
  // Also reads a refused body to its end, because many clients send all of it before they read the reply.
  for await (const chunk of req.raw.body ?? []) {
    length += chunk.byteLength;
    if (length > maxBytes) arriving.release();
    else arriving.add(chunk);
  }
  if (length > maxBytes) throw refuse(413, "body_too_large", `the body is larger than ${maxBytes / 1_000_000} MB`);
  const body = arriving.finish();
  // The status is not 503, because after a 503 a client cannot know whether it was charged.
  if (body === undefined)
    throw refuse(429, "busy", "too many large requests arrive at once; nothing was charged; try again", retryAfter);
  return body;
}

/** The media type of a body, such as "application/json". */
export function bodyType(req: ApiContext["req"]): string {
  const [type = ""] = (req.header("Content-Type") ?? "").split(";");
  return type.trim().toLowerCase();
}

/** Parses a body as JSON. Throws a refusal if it is not JSON, or too costly to parse for its size. */
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

/**
 * Leaves out the fields of a body that are null: clients in Go and C#, and those made with Pydantic, send null for a field that has no value.
 * `nulls` are their names.
 */
export function withoutNulls(body: JsonBody): JsonBody & { nulls: string[] } {
  if (!isRecord(body.json)) return { ...body, nulls: [] };
  const fields = Object.entries(body.json);
  const nulls = fields.filter(([, value]) => value === null).map(([name]) => name);
  return { ...body, json: Object.fromEntries(fields.filter(([, value]) => value !== null)), nulls };
}

const maxDepth = 100;
const maxMembers = 10_000;

/** Returns why a JSON text would take unusually long to parse and check; `undefined` if it would not. */
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
