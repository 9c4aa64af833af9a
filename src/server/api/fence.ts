import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { HTTPException } from "hono/http-exception";
import { refuse } from "./message.ts";

/** Returns why a request is refused before any handler sees it. */
export type Fence = (incoming: IncomingMessage) => HTTPException | undefined;

/**
 * Accepts requests whose Host names this service, and none from a page of another origin: a web site whose name resolves to this machine's
 * address (DNS rebinding) sends its own name as Host. Names may include a port, for a service behind a forwarded port.
 */
export function createFence(port: number, names: string[]): Fence {
  const authorities = new Set(["localhost", ...names].map((name) => withPort(bracket(name.toLowerCase()), port)));
  const isOurs = (authority: string, incoming: IncomingMessage) =>
    authorities.has(authority) || authority === withPort(localAddress(incoming), port);
  return (incoming) => {
    const { headersDistinct, url } = incoming;
    if (!url?.startsWith("/")) return refuse(400, "invalid_target", "the request target must be a path");
    const [host = "", ...others] = headersDistinct.host ?? [];
    if (!headersDistinct.host || others.length > 0)
      return refuse(400, "invalid_host", "exactly one Host header is required");
    if (!isOurs(withPort(host.toLowerCase(), 80), incoming))
      return refuse(403, "forbidden_host", "the Host header names another host");
    if (!headersDistinct.origin) return undefined;
    const [, origin] = /^http:\/\/(.*)$/.exec(headersDistinct.origin.join()) ?? [];
    if (origin === undefined || !isOurs(withPort(origin, 80), incoming))
      return refuse(403, "forbidden_origin", "requests from other web sites are refused");
    return undefined;
  };
}

/** Returns the address that the client connected to. It may stand in Host, because DNS can rebind names alone. */
function localAddress({ socket }: IncomingMessage): string {
  const address = (socket.localAddress ?? "").replace(/^::ffff:(?=\d+\.)/, "");
  return bracket(address);
}

function bracket(name: string): string {
  return isIP(name) === 6 ? `[${name}]` : name;
}

function withPort(name: string, port: number): string {
  return /:\d+$/.test(name) ? name : `${name}:${port}`;
}
