import { lookup as systemLookup } from "node:dns/promises";
import { type IncomingMessage, type RequestOptions, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { LookupFunction, Socket } from "node:net";
import { type AddressRules, checkAddress, hostnameOf, readTarget } from "./target.ts";

/** Resolves with all addresses of a host name, because each is checked. */
export type Lookup = (name: string) => Promise<{ address: string; family: number }[]>;

export type ConnectionOptions = {
  /** Whether an account may reach this machine itself. Called for every check. */
  allowLoopback(account: string | undefined): boolean;
  /** Whether the owner of the service has allowed an account to reach an IP address that is not public. */
  isAllowed?: ((ip: string, account: string | undefined) => boolean) | undefined;
  /** Replaces the system's DNS lookup. */
  lookup?: Lookup;
};

/** `what` starts the message when the address is refused, such as "callbacks to". */
export type OutboundRequest = {
  what: string;
  /** The account that chose the address; without one, the service's owner chose it. */
  account?: string | undefined;
  method: string;
  headers: Record<string, string>;
  body?: string;
  signal: AbortSignal;
};

/**
 * Sends one request over a new connection, without a proxy, and resolves once the headers of its reply have arrived. Rejects with a `Forbidden`
 * when the service must not connect to the address, or to any IP address that its host name resolves to; with the signal's reason; else with
 * an `Error` that contains the system's error code.
 */
export async function sendOutbound(
  address: string,
  request: OutboundRequest,
  options: ConnectionOptions,
): Promise<IncomingMessage> {
  const { what, account, method, headers, body, signal } = request;
  const rules = rulesOf(options, account);
  const url = readTarget(address, what, rules);
  const check = (ip: string) => checkAddress(ip, what, rules);
  const openRequest = url.protocol === "https:" ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const outgoing = openRequest({
      method,
      host: hostnameOf(url),
      port: url.port,
      path: url.pathname + url.search,
      headers: { ...headers, Host: url.host },
      agent: false,
      signal,
      lookup: createLookup(check, options.lookup),
    } satisfies RequestOptions);
    outgoing.once("socket", (socket) => checkPeer(socket, check));
    outgoing.once("response", resolve);
    outgoing.on("error", (error) => reject(signal.aborted ? signal.reason : explain(error, url)));
    outgoing.once("close", () => reject(new Error(`${url.host} closed the connection without a response`)));
    outgoing.end(body);
  });
}

/** Returns the rules for the addresses that an account has chosen. */
export function rulesOf(
  { allowLoopback, isAllowed }: Pick<ConnectionOptions, "allowLoopback" | "isAllowed">,
  account: string | undefined,
): AddressRules {
  return { allowLoopback: () => allowLoopback(account), isAllowed: (ip) => isAllowed?.(ip, account) ?? false };
}

/** Resolves a host name for `net.connect`, which then connects only to checked addresses. One forbidden address refuses the name. */
function createLookup(check: (ip: string) => void, lookup: Lookup = lookupAll): LookupFunction {
  return (name, { all }, done) => {
    const checkedAddresses = lookup(name).then((addresses) => {
      for (const { address } of addresses) check(address);
      const [first] = addresses;
      if (!first) throw new Error(`${name} has no address`);
      return { addresses, first };
    });
    checkedAddresses.then(
      ({ addresses, first }) => (all ? done(null, addresses) : done(null, first.address, first.family)),
      (error) => done(error, []),
    );
  };
}

function lookupAll(name: string): ReturnType<Lookup> {
  return systemLookup(name, { all: true });
}

/** Checks the actual address of the connection again before the first byte is sent. */
function checkPeer(socket: Socket, check: (ip: string) => void): void {
  socket.prependOnceListener("connect", () => {
    try {
      check(socket.remoteAddress ?? "");
    } catch (error) {
      socket.destroy(error as Error);
    }
  });
}

/** Node's error has a code but no message when several addresses of a name refuse the connection. */
function explain(error: NodeJS.ErrnoException, { host }: URL): Error {
  if ("isForbidden" in error) return error;
  return new Error(`${host} cannot be reached (${error.code ?? error.message})`, { cause: error });
}
