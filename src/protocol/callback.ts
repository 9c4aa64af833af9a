import type { IncomingHttpHeaders } from "node:http";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import { describeDataUrl } from "./data-url.ts";
import { isRecord } from "./json.ts";
import { isDataUrl } from "./url.ts";

/** A received request; `body` is `undefined` if it is longer than 1 MB. */
export type Incoming = { method: string; headers: IncomingHttpHeaders; body: Buffer | undefined };

/** A callback (section 6 of api.md) whose signature is valid, or was not checked. */
export type Callback = {
  /** `id`, `status` and `video_url` of the body; `undefined` unless they are text. */
  id: string | undefined;
  status: string | undefined;
  videoUrl: string | undefined;
  /** The same for each delivery of a callback; `undefined` if it is not signed. */
  webhookId: string | undefined;
  isSigned: boolean;
  isVerified: boolean;
  /** The headers that an application needs to verify the signature itself, by lower-case name. */
  headers: Record<string, string>;
  /** The body, unchanged, because the signature is of its bytes. */
  body: string;
};

/** Why a request is not a valid callback, and the HTTP status for its sender. */
export type CallbackFault = { httpStatus: number; fault: string };

const forwardedHeaders = ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature"];

/** Whether a text is a secret of Standard Webhooks: base64, with or without `whsec_`. */
export function isSecret(text: string): boolean {
  try {
    return Boolean(new Webhook(text));
  } catch {
    return false;
  }
}

/** Reads a callback. With a secret of Standard Webhooks, verifies its signature and that it is at most 5 minutes old. */
export function readCallback(incoming: Incoming, secret: string | undefined): Callback | CallbackFault {
  const { method, body: bytes } = incoming;
  if (method !== "POST") return { httpStatus: 405, fault: `${method} instead of POST` };
  if (bytes === undefined) return { httpStatus: 413, fault: "the body is longer than 1 MB" };
  const body = decode(bytes);
  if (body === undefined) return { httpStatus: 400, fault: "the body is not UTF-8" };
  const headers = Object.fromEntries(
    forwardedHeaders.flatMap((name) =>
      incoming.headers[name] === undefined ? [] : [[name, String(incoming.headers[name])]],
    ),
  );
  const fault = secret === undefined ? undefined : findSignatureFault(body, headers, secret);
  if (fault !== undefined) return { httpStatus: 401, fault };
  const fields = readJsonObject(body);
  if (fields === undefined) return { httpStatus: 400, fault: "the body is not a JSON object" };
  const { id, status, video_url } = fields;
  return {
    id: asText(id),
    status: asText(status),
    videoUrl: describeVideoUrl(asText(video_url)),
    headers,
    body,
    webhookId: headers["webhook-id"],
    isSigned: "webhook-signature" in headers,
    isVerified: secret !== undefined,
  };
}

/** Why the signature is invalid, such as "invalid signature: message timestamp too old". */
function findSignatureFault(body: string, headers: Record<string, string>, secret: string): string | undefined {
  try {
    new Webhook(secret).verify(body, headers, { jsonParse: false });
    return undefined;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return `invalid signature: ${error.message.toLowerCase()}`;
    throw error;
  }
}

/** Decodes UTF-8; `undefined` for invalid bytes. Replacing them would give a text that was never signed. */
function decode(bytes: Buffer): string | undefined {
  const text = bytes.toString("utf8");
  return bytes.equals(Buffer.from(text)) ? text : undefined;
}

/** Accepts deeply nested values too, for which the function that `parseJson` passes to JSON.parse would run out of stack. */
function readJsonObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function asText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** A `data:` URL is shown by its size and hash: a callback delivers no video. */
function describeVideoUrl(url: string | undefined): string | undefined {
  return url !== undefined && isDataUrl(url) && url.includes(",") ? describeDataUrl(url) : url;
}
