import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { HTTPException } from "hono/http-exception";
import { unmapAddress } from "../../protocol/addresses.ts";
import { refuse } from "../http/message.ts";
import { type Cors, corsHeaders } from "./cors.ts";

/** Why a request is refused before any handler sees it; `note` is for the log only. */
export type FenceRefusal = { refusal: HTTPException; note?: string };

export type Fence = (incoming: IncomingMessage) => FenceRefusal | undefined;

export type FenceOptions = {
  port: number;
  /** Host names of this service, besides localhost and its address; with a port for a service behind a forwarded port. */
  names: string[];
  /** The origin of this service behind a proxy that adds TLS, such as "https://video.example". */
  publicOrigin?: string | undefined;
  cors?: Cors | undefined;
};

/**
 * Accepts requests whose Host names this service, and none from a page of another origin, except as `cors` allows. A web site whose name resolves
 * to this machine's address (DNS rebinding) sends its own name as Host. Health checks may have any Host, because a load balancer may send any.
 */
export function createFence({ port, names, publicOrigin, cors }: FenceOptions): Fence {
  const authorities = new Set(["localhost", ...names].map((name) => withPort(bracket(name.toLowerCase()), port)));
  const isOurs = (authority: string, incoming: IncomingMessage) =>
    authorities.has(authority) || authority === withPort(localAddress(incoming), port);
  return (incoming) => {
    const { headersDistinct, url } = incoming;
    if (!url?.startsWith("/")) return { refusal: refuse(400, "invalid_target", "the request target must be a path") };
    const [host = "", ...others] = headersDistinct.host ?? [];
    if (!isHealthPath(url)) {
      if (!headersDistinct.host || others.length > 0)
        return { refusal: refuse(400, "invalid_host", "exactly one Host header is required") };
      if (!isOurs(withPort(host.toLowerCase(), 80), incoming)) {
        const allowed = new Set([...authorities, withPort(localAddress(incoming), port)]);
        const note = `allowed hosts: ${[...allowed].join(", ")}`;
        return { refusal: refuse(403, "forbidden_host", forbiddenHost), note };
      }
    }
    const origin = headersDistinct.origin?.join();
    if (origin === undefined || origin === publicOrigin || corsHeaders(incoming, cors)) return undefined;
    const [, authority] = /^http:\/\/(.*)$/.exec(origin) ?? [];
    if (authority === undefined || !isOurs(withPort(authority, 80), incoming))
      return { refusal: refuse(403, "forbidden_origin", "requests from other web sites are refused") };
    return undefined;
  };
}

const forbiddenHost =
  "this host name or port is not allowed: ssh must forward the same port on both sides; whoever runs the service allows a name with --name or --public-url, and its log lists the allowed ones";

/** The paths whose replies reveal nothing (health.ts). */
function isHealthPath(url: string): boolean {
  return /^\/(healthz|readyz)(\?|$)/.test(url);
}

/** Returns the address that the client connected to. Host may contain it, because DNS can rebind only names. */
function localAddress({ socket }: IncomingMessage): string {
  return bracket(unmapAddress(socket.localAddress ?? ""));
}

function bracket(name: string): string {
  return isIP(name) === 6 ? `[${name}]` : name;
}

function withPort(name: string, port: number): string {
  return /:\d+$/.test(name) ? name : `${name}:${port}`;
}
