import type { IncomingMessage } from "node:http";
import type { Body } from "./body.ts";
import { createLightKind } from "./light.ts";

type Arrived = {
  incoming: IncomingMessage;
  url: string;
  body: Body | undefined;
  /** Aborts when the client has gone; made when somebody wants to know. */
  signal(): AbortSignal;
  headers?: Headers;
};

const requests = createLightKind<Arrived, Request>(
  Request.prototype,
  (arrived) => {
    const method = methodOf(arrived);
    const hasBody = arrived.body && method !== "GET" && method !== "HEAD";
    return new Request(arrived.url, {
      ...{ method, headers: toHeaders(arrived.incoming.headers), signal: arrived.signal() },
      ...(hasBody && { body: arrived.body?.stream(), duplex: "half" }),
    } as RequestInit);
  },
  { method: methodOf, url: ({ url }) => url, headers: headersOf, signal: ({ signal }) => signal() },
);

/** Of the headers, one is asked for at the most, as a rule: making them all costs more than the rest of a request. */
const headers = createLightKind<IncomingMessage["headers"], Headers>(Headers.prototype, toHeaders, {
  get: (all) => (name) => {
    const value = all[name.toLowerCase()];
    return typeof value === "object" ? value.join(", ") : (value ?? null);
  },
});

/** A request as it came over the socket. Of its host, `url` says what to believe. */
export function toRequest(incoming: IncomingMessage, arrived: Omit<Arrived, "incoming" | "headers">): Request {
  return requests.create({ ...arrived, incoming });
}

/** fetch's Request knows no TRACE and CONNECT; no route takes OPTIONS either. */
function methodOf({ incoming: { method = "GET" } }: Arrived): string {
  return ["TRACE", "TRACK", "CONNECT"].includes(method) ? "OPTIONS" : method;
}

function headersOf(arrived: Arrived): Headers {
  arrived.headers ??= headers.create(arrived.incoming.headers);
  return arrived.headers;
}

/** One by one: made of a list, Node takes four times as long. */
function toHeaders(all: IncomingMessage["headers"]): Headers {
  const made = new Headers();
  for (const name in all) {
    const value = all[name] ?? "";
    if (typeof value === "string") made.append(name, value);
    else for (const one of value) made.append(name, one);
  }
  return made;
}
