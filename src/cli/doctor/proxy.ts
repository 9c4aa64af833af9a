import { isLoopback } from "../../client/credentials.ts";

/**
 * The proxy that a request to this address goes through, without the password that may be in it; `undefined` when there is none. It reads
 * the environment as undici's EnvHttpProxyAgent does, which carries the requests.
 */
export function proxyFor(address: string, env: Readonly<Record<string, string | undefined>>): string | undefined {
  const { protocol, hostname, port } = new URL(address);
  const proxy = (protocol === "https:" && (env.https_proxy ?? env.HTTPS_PROXY)) || (env.http_proxy ?? env.HTTP_PROXY);
  if (!proxy || isLoopback(hostname)) return undefined;
  const number = port || (protocol === "https:" ? "443" : "80");
  const entries = (env.no_proxy || env.NO_PROXY || "").split(/[,\s]/).filter((entry) => entry !== "");
  return entries.some((entry) => isExcepted(hostname, number, entry)) ? undefined : withoutPassword(proxy);
}

function isExcepted(hostname: string, port: string, entry: string): boolean {
  if (entry === "*") return true;
  const [, host = entry, onlyPort] = /^(.+):(\d+)$/.exec(entry) ?? [];
  if (onlyPort !== undefined && onlyPort !== port) return false;
  const name = host.replace(/^\*?\./, "").toLowerCase();
  return hostname === name || hostname.endsWith(`.${name}`);
}

function withoutPassword(proxy: string): string {
  return URL.canParse(proxy) ? new URL(proxy).origin : "an address that is none";
}
