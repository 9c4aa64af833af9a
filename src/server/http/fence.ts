import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { headerOf } from "./incoming.ts";
import { type Refusal, refuse } from "./refusal.ts";

/** What a request must be to be let in; returns why it is not. */
export type Fence = (incoming: IncomingMessage) => Refusal | undefined;

/**
 * Lets in what was sent to this service by its own name, and no page of another origin: a web site whose name is turned to this machine's
 * address (DNS rebinding) sends its own name as Host. Names may bring a port of their own, where something forwards to the service.
 */
export function createFence(port: number, names: string[]): Fence {
  const authorities = new Set(["localhost", ...names].map((name) => withPort(bracket(name.toLowerCase()), port)));
  const isOurs = (authority: string, incoming: IncomingMessage) =>
    authorities.has(authority) || authority === withPort(localName(incoming), port);
  return (incoming) => {
    if (!incoming.url?.startsWith("/")) return refuse(400, "invalid_target", "the request target must be a path");
    if (countHosts(incoming) !== 1) return refuse(400, "invalid_host", "the Host header must be there, once");
    const host = headerOf(incoming, "host") ?? "";
    const origin = headerOf(incoming, "origin") ?? undefined;
    if (!isOurs(withPort(host.toLowerCase(), 80), incoming))
      return refuse(403, "forbidden_host", "the Host header names another service");
    const own = origin === undefined || /^http:\/\/(.*)$/.exec(origin)?.[1];
    if (own !== true && (own === undefined || !isOurs(withPort(own, 80), incoming)))
      return refuse(403, "forbidden_origin", "requests from other web sites are refused");
    return undefined;
  };
}

/** The address that the client went to. What listens on all addresses is reached by each of them, and none is a name to be turned. */
function localName({ socket }: IncomingMessage): string {
  const address = (socket.localAddress ?? "").replace(/^::ffff:(?=\d+\.)/, "");
  return bracket(address);
}

function bracket(name: string): string {
  return isIP(name) === 6 ? `[${name}]` : name;
}

function withPort(name: string, port: number): string {
  return /:\d+$/.test(name) ? name : `${name}:${port}`;
}

/** Node keeps the first of several Host headers and drops the others. */
function countHosts({ rawHeaders }: IncomingMessage): number {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    if (name.length === 4 && name.toLowerCase() === "host") count++;
  }
  return count;
}
