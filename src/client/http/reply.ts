import { connectionReason, systemCode, VidgenError } from "../../errors.ts";
import type { HttpResponse } from "../../io.ts";
import { lacksCredits } from "../../protocol/credits.ts";
import { isRecord, parseReplyJson } from "../../protocol/json.ts";
import { errorText } from "../../protocol/schema.ts";
import { maxReplyBytes } from "./raw-reply.ts";

/** A reply of the service, with the received part of its body. */
export type Reply = {
  status: number;
  retryAfter: string | null;
  /** Some headers, by their names in lower case. */
  headers?: Readonly<Record<string, string>>;
  text: string;
  /** The body as JSON; `undefined` when it is not JSON. */
  json: unknown;
  /** The error if the body was cut off or too long. */
  cut?: unknown;
  /** The prompt of a start, which the refusal may repeat. */
  prompt?: string;
};

/** Headers that the client reads, or that help the service's operator to find a request; never a cookie. */
const reportedHeaders = [
  "x-request-id",
  "idempotency-key-lifetime",
  "remaining-credits",
  "retry-after",
  "date",
  "server",
  "via",
  "content-type",
  "cf-ray",
  "traceparent",
];

/**
 * Reads a reply whose body has at most `maxBytes`. If it is longer or cut off, `cut` is the error, and `text`
 * the received part.
 */
export async function readReply(response: HttpResponse, maxBytes = maxReplyBytes): Promise<Reply> {
  const { status, headers } = response;
  const { text: body, cut } = await readBodyText(response, maxBytes);
  const reported = reportedHeaders.map((name) => [name, headers.get(name)]).filter(([, value]) => value !== null);
  const retryAfter = headers.get("Retry-After");
  return { status, retryAfter, headers: Object.fromEntries(reported), ...parseBody(body), cut };
}

/** The JSON of a body. Where that is a text which holds an object of JSON, that object is the reply. */
function parseBody(text: string): Pick<Reply, "text" | "json"> {
  const json = parseReplyJson(text);
  const inner = typeof json === "string" ? parseReplyJson(json) : undefined;
  return typeof json === "string" && isRecord(inner) ? { text: json, json: inner } : { text, json };
}

async function readBodyText(response: HttpResponse, maxBytes: number): Promise<{ text: string; cut?: unknown }> {
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  try {
    for await (const chunk of response.body ?? []) {
      length += chunk.byteLength;
      if (length > maxBytes) return { text, cut: new Error(`the response is longer than ${maxBytes} bytes`) };
      text += decoder.decode(chunk, { stream: true });
    }
  } catch (cut) {
    return { text, cut };
  }
  return { text: text + decoder.decode() };
}

export const invalidKeyHint = "Use a key that is valid for this service.";

/** Whether a `vidgen serve` refuses a key that it knows, because the account is disabled. */
export function isDisabledAccount({ status, json }: Pick<Reply, "status" | "json">): boolean {
  return status === 403 && errorCode(json) === "account_disabled";
}

/** The error for a refused request, by the status and text of the reply. */
export function refusal(reply: Reply): VidgenError {
  const description = describeReply(reply);
  const { status: httpStatus, headers } = reply;
  if (lacksCredits(reply)) {
    const hint =
      errorCode(reply.json) === "insufficient_credits"
        ? "Ask the owner of the service for more: `vidgen accounts credits <account> 500` adds some."
        : "Add credits to your account, then try again; `vidgen list` shows the credits left after each start.";
    return new VidgenError("credits", `Not enough credits: ${description}`, { httpStatus, headers, hint });
  }
  if (isFromGateway(reply)) {
    const hint =
      "The API key may be fine. Check the base URL, and whether a proxy or firewall of this network blocks the request.";
    const message = `Refused by the service or a proxy in front of it: ${description}`;
    return new VidgenError("rejected", message, { httpStatus, headers, hint });
  }
  // Only images make a request large.
  if (httpStatus === 413) {
    const hint = "Use a smaller image, or the URL of one on the web.";
    const message = `The image is too large for the service or its proxy: ${description}`;
    return new VidgenError("rejected", message, { httpStatus, headers, hint });
  }
  if (isDisabledAccount(reply)) {
    const hint =
      "Ask the owner of the service to enable it: `vidgen accounts enable <account>`. What the account has started continues meanwhile.";
    return new VidgenError("auth", `The service refused the request: ${description}`, { httpStatus, headers, hint });
  }
  if (httpStatus === 401 || httpStatus === 403) {
    const hint = invalidKeyHint;
    return new VidgenError("auth", `The service rejected the API key: ${description}`, { httpStatus, headers, hint });
  }
  if (httpStatus >= 300 && httpStatus < 400) {
    const hint = "Check the base URL: vidgen does not follow redirects with a key.";
    return new VidgenError("rejected", `The service redirects to another URL: ${description}`, {
      httpStatus,
      headers,
      hint,
    });
  }
  return new VidgenError("rejected", `The service refused the request: ${description}`, { httpStatus, headers });
}

/**
 * Whether a 400, 401 or 403 comes from a proxy or gateway, and so says nothing about the key or the generation: a page, or
 * the error of a server that does not accept the request's host or origin.
 */
export function isFromGateway(reply: Pick<Reply, "status" | "json" | "text">): boolean {
  if (![400, 401, 403].includes(reply.status)) return false;
  if (reply.json === undefined) return reply.text.trimStart().startsWith("<");
  return ["forbidden_host", "forbidden_origin"].includes(errorCode(reply.json) ?? "");
}

export function errorCode(json: unknown): string | undefined {
  if (!isRecord(json)) return undefined;
  return typeof json.code === "string" ? json.code : errorCode(json.error);
}

/** A short description of a reply: its message, if it has a readable one, and its HTTP status. */
export function describeReply(reply: Reply): string {
  const message = errorText(reply.json) ?? (looksReadable(reply.text) ? errorText(reply.text) : pageTitle(reply.text));
  return message === undefined ? `HTTP ${reply.status}` : `${shortenReply(message)} (HTTP ${reply.status})`;
}

function pageTitle(text: string): string | undefined {
  return errorText(/<title[^>]*>([^<]*)/i.exec(text)?.[1]);
}

/** As `describeReply`, but with the names and values of a JSON reply, such as `task_id 12345, state queued`. */
export function describeValues(reply: Reply): string {
  const values = listValues(reply.json).join(", ");
  return values === "" ? describeReply(reply) : `${shortenReply(values)} (HTTP ${reply.status})`;
}

/** Leaves out long values and URLs, which may be secret. */
function listValues(json: unknown, name = ""): string[] {
  if (typeof json === "object" && json !== null)
    return Object.entries(json).flatMap(([name, value]) => listValues(value, name));
  const value = errorText(String(json)) ?? "";
  const canBeShown = json !== null && json !== undefined && value.length <= 200 && !value.includes("://");
  return canBeShown ? [`${name} ${value}`.trim()] : [];
}

/** Cuts at a space, so that the redaction recognizes an echoed key. */
function shortenReply(text: string): string {
  return text.length <= 500 ? text : `${text.slice(0, 500).replace(/\S*$/, "")}…`;
}

function looksReadable(text: string): boolean {
  const start = text.trim();
  return start !== "" && start.length <= 500 && !/^[<[{"]/.test(start);
}

/** A short description of a connection failure, with what makes a certificate of a private CA trusted. */
export function describeFailure(error: unknown): string {
  const code = systemCode(error);
  const ownText = error instanceof Error && error.message !== "" ? error.message : String(code ?? error);
  const message = connectionReason(error, { withPlace: true }) ?? ownText;
  // The code is left out if the message already contains it, or says the same in words.
  const namesCode = code === undefined || message.includes(code) || /PROXY|^ERR_SSL_/.test(code);
  const text = namesCode ? message : `${message} (${code})`;
  const isUntrusted = /^(UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_)/.test(code ?? "");
  return isUntrusted ? `${text}; for a private CA, set NODE_EXTRA_CA_CERTS to its file` : text;
}
