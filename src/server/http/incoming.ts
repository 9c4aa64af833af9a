import type { IncomingMessage, ServerResponse } from "node:http";
import type { Body } from "./body.ts";
import { createLightKind } from "./light.ts";

type Arrived = {
  incoming: IncomingMessage;
  url: string;
  body: Body | undefined;
  outgoing: ServerResponse;
  headers: Headers | undefined;
  signal: AbortSignal | undefined;
};

const requests = createLightKind<Arrived, Request>(
  Request.prototype,
  (arrived) => {
    const method = methodOf(arrived);
    const hasBody = arrived.body && method !== "GET" && method !== "HEAD";
    return new Request(arrived.url, {
      ...{ method, headers: toHeaders(arrived.incoming.headers), signal: signalOf(arrived) },
      ...(hasBody && { body: arrived.body?.stream(), duplex: "half" }),
    } as RequestInit);
  },
  { method: methodOf, url: ({ url }) => url, headers: headersOf, signal: signalOf },
);

/** Of the headers, one is asked for at the most, as a rule: making them all costs more than the rest of a request. */
const headers = createLightKind<IncomingMessage, Headers>(Headers.prototype, ({ headers }) => toHeaders(headers), {
  get: (incoming) => (name) => headerOf(incoming, name),
});

/** One header as it came, several of a name with commas between them; `null` where there is none. Node's own `headers` makes them all. */
export function headerOf({ rawHeaders }: IncomingMessage, name: string): string | null {
  let found: string | null = null;
  const wanted = name.toLowerCase();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const each = rawHeaders[i] ?? "";
    if (each.length !== wanted.length || each.toLowerCase() !== wanted) continue;
    found = found === null ? (rawHeaders[i + 1] ?? "") : `${found}, ${rawHeaders[i + 1]}`;
  }
  return found;
}

/** A request as it came over the socket. Of its host, `url` says what to believe. */
export function toRequest(
  incoming: IncomingMessage,
  { url, body, outgoing }: Pick<Arrived, "url" | "body" | "outgoing">,
): Request {
  // All of one shape from the start, or V8 would make each its own.
  return requests.create({ incoming, url, body, outgoing, headers: undefined, signal: undefined });
}

/** fetch's Request knows no TRACE and CONNECT; no route takes OPTIONS either. */
function methodOf({ incoming: { method = "GET" } }: Arrived): string {
  return ["TRACE", "TRACK", "CONNECT"].includes(method) ? "OPTIONS" : method;
}

function headersOf(arrived: Arrived): Headers {
  arrived.headers ??= headers.create(arrived.incoming);
  return arrived.headers;
}

/** Aborts when the client has gone before its reply was through; made when somebody wants to know. */
function signalOf(arrived: Arrived): AbortSignal {
  arrived.signal ??= createSignal(arrived.outgoing);
  return arrived.signal;
}

function createSignal(outgoing: ServerResponse): AbortSignal {
  const gone = new AbortController();
  const abort = () => outgoing.writableFinished || gone.abort(new Error("the client has gone"));
  if (outgoing.closed) abort();
  else outgoing.once("close", abort);
  return gone.signal;
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
