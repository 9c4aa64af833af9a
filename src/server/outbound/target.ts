import { isIP } from "node:net";
import { findForbiddenKind } from "../../protocol/addresses.ts";

/** The error for an address that this process must not connect to; the rules of another process may differ. */
export type Forbidden = Error & { isForbidden: true };

/** Which addresses are allowed although they are not public. */
export type AddressRules = {
  /** Whether the service may connect to this machine itself. Called for every check. */
  allowLoopback(): boolean;
  /** Whether the owner of the service has allowed an IP address. */
  isAllowed?: ((ip: string) => boolean) | undefined;
};

/** The ports that the fetch standard blocks, because servers of other protocols might obey an HTTP request. */
const badPorts = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);

/**
 * Reads an address that others chose. Throws a `Forbidden` unless it is http(s), has no user name, does not use a port of another protocol, and
 * is not a forbidden IP address in any notation. Host names are checked when they are resolved.
 */
export function readTarget(text: string, what: string, rules: AddressRules): URL {
  if (!URL.canParse(text)) throw forbid(what, "this address", "it is not a URL");
  const url = new URL(text);
  if (!/^https?:$/.test(url.protocol))
    throw forbid(what, `${url.protocol} addresses`, "only http and https are allowed");
  const host = hostnameOf(url);
  if (url.username !== "" || url.password !== "") throw forbid(what, host, "the URL contains a user name");
  if (badPorts.has(portOf(url))) throw forbid(what, url.host, "the port is used by another protocol");
  if (isIP(host) !== 0) checkAddress(host, what, rules);
  return url;
}

/** Throws a `Forbidden` unless the service may connect to this IP address. */
export function checkAddress(ip: string, what: string, { allowLoopback, isAllowed }: AddressRules): void {
  const kind = findForbiddenKind(ip, allowLoopback(), isAllowed);
  if (kind !== undefined) throw forbid(what, ip, kind);
}

/** The host as `node:net` expects it: an IPv6 address has no brackets. */
export function hostnameOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, "$1");
}

function portOf({ port, protocol }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : 80;
}

function forbid(what: string, where: string, reason: string): Forbidden {
  return Object.assign(new Error(`${what} ${where} are refused: ${reason}`), { isForbidden: true as const });
}
