import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { unmapAddress } from "../../protocol/addresses.ts";

/**
 * Returns the address of the client of a request: the other end of its connection, or, if that is a trusted proxy, the rightmost address in
 * X-Forwarded-For that is not one. What stands left of it was written by the client itself, and so is not read.
 */
export function clientAddress(
  { socket, headers }: Pick<IncomingMessage, "headers"> & { socket: { remoteAddress?: string | undefined } },
  isTrusted: (address: string) => boolean,
): string {
  let address = unmapAddress(socket.remoteAddress ?? "");
  for (const hop of String(headers["x-forwarded-for"] ?? "")
    .split(",")
    .reverse()) {
    // Some proxies add the port.
    const forwarded = hop.trim().replace(/^\[(.*)\](:\d+)?$|^([\d.]+):\d+$/, "$1$3");
    if (!isTrusted(address) || isIP(forwarded) === 0) return address;
    address = unmapAddress(forwarded);
  }
  return address;
}
