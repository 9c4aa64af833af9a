import type { FetchInit, Io } from "../../io.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { isPlainHttp } from "../../protocol/url.ts";
import { type Reply, readReply } from "./reply.ts";

export type Api = {
  /** The service's base URL, without a trailing slash. */
  baseUrl: string;
  /**
   * POST /api/generate, the only request that costs money. Sent once; rejects as `fetch` does. `attempt` is
   * its Idempotency-Key; `label` is its batch, which `vidgen serve` shows.
   */
  start(request: StartRequest, attempt: string, options: SendStartOptions): Promise<Reply>;
  /** GET /api/generation-status, which is free and safe to repeat. Rejects as `fetch` does. */
  status(id: string, signal: AbortSignal): Promise<Reply>;
  /** Polls an id that does not exist: "not found" shows that the service works and accepts the key. */
  probe(signal: AbortSignal): Promise<Reply>;
  /** POST /api/cancel, which only `vidgen serve` has: safe to repeat. Rejects as `fetch` does. */
  cancel(id: string, signal: AbortSignal): Promise<Reply>;
  /**
   * DELETE /v1/videos/{id}, which only `vidgen serve` has: deletes an ended generation, cancels a running
   * one. Rejects as `fetch` does.
   */
  remove(id: string, signal: AbortSignal, options?: RemoveOptions): Promise<Reply>;
  /** The same service, for requests of its owner about the generations of another account. Only `vidgen serve` has accounts. */
  forAccount(account: string): Api;
  /** GET /v1/models, with prices, which only `vidgen serve` has. Rejects as `fetch` does. */
  models(signal: AbortSignal): Promise<Reply>;
  /** /accounts, which `vidgen serve` has for its owner: GET without a body, POST with one. Rejects as `fetch` does. */
  accounts(path: string, request: AccountsRequest): Promise<Reply>;
};

/** With `acknowledgesUnclear`, a generation that may have been charged (`unclear`) is deleted too. */
export type RemoveOptions = { acknowledgesUnclear?: boolean | undefined };

export type SendStartOptions = Pick<FetchInit, "signal" | "unsentSignal" | "beforeSend" | "onUpload" | "onReceived"> & {
  label?: Label | undefined;
};

/** The batch of a start, and its number of rows. */
export type Label = { name: string; size: number };

/** `key` is the Idempotency-Key of a POST. */
export type AccountsRequest = { body?: object | undefined; key?: string | undefined; signal: AbortSignal };

/** A status may have the video itself, as a `data:` URL. */
const maxStatusBytes = 90_000_000;

const nonexistentId = "00000000-0000-4000-8000-000000000000";

type ApiOptions = {
  baseUrl: string;
  apiKey?: string | undefined;
  /** The account whose generations the owner of the service asks about, if not the owner's own. */
  account?: string | undefined;
  fetch: Io["fetch"];
};

/**
 * The service's endpoints over `fetch`. The key, which is optional, is sent only to `baseUrl`, because
 * redirects are not followed.
 */
export function createApi(options: ApiOptions): Api {
  const { baseUrl, apiKey, account, fetch } = options;
  const accountQuery = (separator: "?" | "&") =>
    account === undefined ? "" : `${separator}account=${encodeURIComponent(account)}`;
  const headers = {
    ...(apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` }),
    Accept: "application/json",
    "Accept-Encoding": "identity",
  };
  const restriction: FetchInit = isPlainHttp(baseUrl) ? { reach: "private" } : {};
  const send = async (path: string, init: FetchInit, maxBytes?: number) =>
    readReply(
      await fetch(baseUrl + path, { ...init, ...restriction, headers: { ...headers, ...init.headers } }),
      maxBytes,
    );
  const status = (id: string, signal: AbortSignal) =>
    send(`/api/generation-status?id=${encodeURIComponent(id)}${accountQuery("&")}`, { signal }, maxStatusBytes);
  return {
    baseUrl,
    start: (request, attempt, { label, ...sendOptions }) => {
      const init = startInit(request, attempt);
      return send("/api/generate", { ...sendOptions, ...init, headers: { ...init.headers, ...labelHeaders(label) } });
    },
    status,
    probe: (signal) => status(nonexistentId, signal),
    cancel: (id, signal) =>
      send(`/api/cancel?id=${encodeURIComponent(id)}${accountQuery("&")}`, { method: "POST", signal }),
    remove: (id, signal, { acknowledgesUnclear } = {}) => {
      const query = acknowledgesUnclear ? `?acknowledged=unclear${accountQuery("&")}` : accountQuery("?");
      return send(`/v1/videos/${encodeURIComponent(id)}${query}`, { method: "DELETE", signal });
    },
    forAccount: (account) => createApi({ ...options, account }),
    models: (signal) => send("/v1/models", { signal }),
    accounts: (path, { body, key, signal }) => send(`/accounts${path}`, { signal, ...(body && postInit(body, key)) }),
  };
}

/** The start request, without the API key. */
export function startInit(request: StartRequest, attempt: string) {
  return postInit(request, attempt);
}

/** Percent-encodes the name, since header values must be ASCII. */
function labelHeaders(label: Label | undefined): Record<string, string> {
  if (label === undefined) return {};
  return { "Vidgen-Label": encodeURIComponent(label.name), "Vidgen-Label-Size": String(label.size) };
}

function postInit(body: object, key: string | undefined) {
  const headers = { "Content-Type": "application/json", ...(key !== undefined && { "Idempotency-Key": key }) };
  return { method: "POST", headers, body: JSON.stringify(body) };
}
