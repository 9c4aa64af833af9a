import { usage, VidgenError } from "../errors.ts";
import { isSecret, readCallback } from "../protocol/callback.ts";
import { parseJson } from "../protocol/json.ts";
import { asGeneration } from "../protocol/schema.ts";
import { type Generation, toGeneration } from "./results.ts";

/** A callback with a valid signature. */
export type CallbackEvent = Generation & {
  /** The id of the callback; the same if the service sends it again. */
  webhookId: string;
};

/** A request that a server received: a web `Request`, or the headers and the body of a Node request. */
export type CallbackRequest =
  | Request
  | {
      /** The headers; their names may be in any case. */
      headers: Readonly<Record<string, string | string[] | undefined>>;
      /** The raw body, because the signature is of these bytes, not of parsed JSON. */
      body: string | Uint8Array;
    };

/**
 * Reads a callback and checks it with `secret` as in Standard Webhooks: its signature, and its age of at most
 * 5 minutes. Sends nothing and costs nothing. Rejects with `auth` if the signature or the age is not valid,
 * with `rejected` if the body is not a callback, and with `usage` for an invalid secret.
 */
export async function verifyCallback(request: CallbackRequest, secret: string): Promise<CallbackEvent> {
  if (typeof secret !== "string" || !isSecret(secret))
    throw usage("The secret must be base64, with or without whsec_.");
  const { headers } = request;
  const body = request instanceof Request ? new Uint8Array(await request.arrayBuffer()) : request.body;
  if (typeof body !== "string" && !(body instanceof Uint8Array))
    throw usage("The body must be the raw text or bytes: the signature is of those, not of parsed JSON.");
  const callback = readCallback(
    {
      method: "POST",
      headers: headers instanceof Headers ? Object.fromEntries(headers) : lowerCaseNames(headers),
      body: Buffer.from(body as string),
    },
    secret,
  );
  if ("fault" in callback)
    throw new VidgenError(callback.httpStatus === 401 ? "auth" : "rejected", `Not a callback: ${callback.fault}.`);
  const generation = asGeneration(parseJson(callback.body));
  if (!generation) throw new VidgenError("rejected", "Not a callback: its id or its status is missing.");
  return { ...toGeneration(generation), webhookId: String(callback.webhookId) };
}

function lowerCaseNames(headers: Readonly<Record<string, string | string[] | undefined>>) {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
