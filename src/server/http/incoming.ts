import type { IncomingMessage } from "node:http";
import type { Body } from "./body.ts";
import { createLightKind } from "./light.ts";

type Arrived = {
  incoming: IncomingMessage;
  url: URL;
  body: Body | undefined;
  gone: AbortController;
  headers?: Headers;
};

const requests = createLightKind<Arrived, Request>(
  Request.prototype,
  (arrived) => {
    const method = methodOf(arrived);
    const hasBody = arrived.body && method !== "GET" && method !== "HEAD";
    return new Request(arrived.url.href, {
      ...{ method, headers: headersOf(arrived), signal: arrived.gone.signal },
      ...(hasBody && { body: arrived.body?.stream(), duplex: "half" }),
    } as RequestInit);
  },
  { method: methodOf, url: ({ url }) => url.href, headers: headersOf, signal: ({ gone }) => gone.signal },
);

/** A request as it came over the socket; its `signal` is that of `gone`. Of its host, `url` says what to believe. */
export function toRequest(incoming: IncomingMessage, arrived: Omit<Arrived, "incoming" | "headers">): Request {
  return requests.create({ ...arrived, incoming });
}

/** fetch's Request knows no TRACE and CONNECT; no route takes OPTIONS either. */
function methodOf({ incoming: { method = "GET" } }: Arrived): string {
  return ["TRACE", "TRACK", "CONNECT"].includes(method) ? "OPTIONS" : method;
}

function headersOf(arrived: Arrived): Headers {
  arrived.headers ??= toHeaders(arrived.incoming);
  return arrived.headers;
}

/** One by one: made of a list, Node takes four times as long. */
function toHeaders({ headers: all }: IncomingMessage): Headers {
  const headers = new Headers();
  for (const name in all) {
    const value = all[name] ?? "";
    if (typeof value === "string") headers.append(name, value);
    else for (const one of value) headers.append(name, one);
  }
  return headers;
}
