import { lookup as systemLookup } from "node:dns/promises";
import { type IncomingMessage, type RequestOptions, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { LookupFunction, Socket } from "node:net";
import { checkAddress, hostOf, readTarget } from "./target.ts";

/** All addresses of a name; no fewer, since every one is checked. */
export type Lookup = (name: string) => Promise<{ address: string; family: number }[]>;

export type ConnectionOptions = {
  /** Whether this machine itself may be reached: only while the service listens on loopback alone. Asked anew for every connection. */
  allowLoopback(): boolean;
  /** Takes the place of the system's name service. */
  lookup?: Lookup;
};

/** `what` begins the sentence that refuses an address, such as "callbacks to". */
export type Sending = {
  what: string;
  method: string;
  headers: Record<string, string>;
  body?: string;
  signal: AbortSignal;
};

/**
 * Sends one request over a connection of its own, without any proxy, and resolves with the head of its reply. Rejects with a `Forbidden`
 * when the address, or any that its name has at this moment, must not be connected to; else with an `Error` that names the system's code.
 */
export async function send(text: string, sending: Sending, options: ConnectionOptions): Promise<IncomingMessage> {
  const url = readTarget(text, sending.what, { loopback: options.allowLoopback() });
  const check = (address: string) => checkAddress(address, sending.what, { loopback: options.allowLoopback() });
  const start = url.protocol === "https:" ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const outgoing = start({
      ...{ method: sending.method, host: hostOf(url), port: url.port, path: url.pathname + url.search },
      headers: { ...sending.headers, Host: url.host },
      ...{ agent: false, signal: sending.signal, lookup: createLookup(check, options.lookup) },
    } satisfies RequestOptions);
    outgoing.once("socket", (socket) => checkPeer(socket, check));
    outgoing.once("response", resolve);
    outgoing.on("error", (error) => reject(explain(error, url)));
    outgoing.once("close", () => reject(new Error(`${url.host} closed the connection without an answer`)));
    outgoing.end(sending.body);
  });
}

/** Looks a name up for `net.connect`, which then connects to nothing but what was checked. One forbidden address condemns the name. */
function createLookup(check: (address: string) => void, lookup: Lookup = lookupAll): LookupFunction {
  return (name, { all }, done) => {
    const found = lookup(name).then((addresses) => {
      for (const { address } of addresses) check(address);
      const [first] = addresses;
      if (!first) throw new Error(`${name} has no address`);
      return { addresses, first };
    });
    found.then(
      ({ addresses, first }) => (all ? done(null, addresses) : done(null, first.address, first.family)),
      (error) => done(error, []),
    );
  };
}

function lookupAll(name: string): ReturnType<Lookup> {
  return systemLookup(name, { all: true });
}

/** A second fence, before the first byte: the address that the connection really has. */
function checkPeer(socket: Socket, check: (address: string) => void): void {
  socket.prependOnceListener("connect", () => {
    try {
      check(socket.remoteAddress ?? "");
    } catch (error) {
      socket.destroy(error as Error);
    }
  });
}

/** When every address of a name refuses, Node's error has a code and no text. */
function explain(error: NodeJS.ErrnoException, { host }: URL): Error {
  if ("isForbidden" in error) return error;
  return new Error(`${host} cannot be reached (${error.code ?? error.message})`, { cause: error });
}
