import dns from "node:dns";
import { type EventEmitter, once } from "node:events";
import { request } from "node:http";
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { systemCode } from "../../errors.ts";
import type { FetchInit, Io } from "../../io.ts";
import { isPrivateAddress } from "../../protocol/addresses.ts";
import { findProxy, type HttpProxy, plainHttpError, tunnelError } from "./proxy.ts";

/** How long each step of connecting may take without a response. */
const silenceLimitMs = 10_000;
/** The system asks several name servers in turn, also for an IPv6 address, which may take 15 s. */
const lookupLimitMs = 20_000;
/** The interval of TCP keep-alive, which is needed because a reply may take minutes, and routers drop idle connections. */
const keepAliveMs = 60_000;

/** A server or a proxy; `host` is a name or an IP address without brackets. */
type Peer = { isSecure: boolean; host: string; port: number };

type ConnectOptions = Pick<FetchInit, "reach"> & { signal?: AbortSignal | undefined };

/**
 * Connects to the host of a URL, through the proxy from `env` if there is one, and resolves when a request
 * can be written; nothing was written yet. Rejects with the signal's reason as soon as it aborts.
 */
export async function connect(url: URL, env: Io["env"], { signal, reach }: ConnectOptions = {}): Promise<Socket> {
  signal?.throwIfAborted();
  const peer = peerOf(url);
  if (reach === "this machine") return open(peer, { signal });
  const proxy = findProxy(url, env);
  if (reach === "private" && proxy !== undefined) throw plainHttpError(proxy, url);
  if (reach === "private") return openPrivate(peer, signal);
  if (proxy === undefined) return open(peer, { signal });
  const tunnel = await openTunnel(proxy, `${url.hostname}:${peer.port}`, signal);
  return peer.isSecure ? open(peer, { signal, tunnel }) : tunnel;
}

function peerOf({ protocol, hostname, port }: URL): Peer {
  const isSecure = protocol === "https:";
  return { isSecure, host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port) || (isSecure ? 443 : 80) };
}

/**
 * Opens a connection and checks that the other end has a private address, since a name may resolve to another
 * address each time.
 */
async function openPrivate(peer: Peer, signal: AbortSignal | undefined): Promise<Socket> {
  const { host } = peer;
  if (isIP(host) !== 0 && !isPrivateAddress(host)) throw notPrivateError(host, host);
  const socket = await open(peer, { signal, lookup: lookUpPrivate });
  // Other runtimes may ignore `lookup`.
  const { remoteAddress } = socket;
  if (remoteAddress !== undefined && isPrivateAddress(remoteAddress)) return socket;
  socket.destroy();
  if (remoteAddress === undefined) throw failure(`${host} closed the connection`, "ECONNRESET");
  throw notPrivateError(host, remoteAddress);
}

/** Looks up a name as `net.connect` does, but returns only private addresses. */
const lookUpPrivate: LookupFunction = (name, { all, ...options }, done) => {
  dns.lookup(name, { ...options, all: true }, (error, found) => {
    if (error) return done(error, "", 0);
    const addresses = found.filter(({ address }) => isPrivateAddress(address));
    const [first] = addresses;
    if (first === undefined) return done(notPrivateError(name, found[0]?.address ?? "no address"), "", 0);
    return all ? done(null, addresses) : done(null, first.address, first.family);
  });
};

type OpenSocketOptions = {
  signal: AbortSignal | undefined;
  /** The connection through which TLS runs, instead of a new one. */
  tunnel?: Socket;
  lookup?: LookupFunction;
};

async function open({ isSecure, host, port }: Peer, { signal, tunnel, lookup }: OpenSocketOptions): Promise<Socket> {
  const to = { host, port, ...(lookup && { lookup }) };
  const tls = { ...(tunnel && { socket: tunnel }), ALPNProtocols: ["http/1.1"], servername: isIP(host) ? "" : host };
  const socket = isSecure ? connectTls({ ...to, ...tls }) : connectTcp(to);
  // Without a listener, an error would end the process. Whoever uses the connection sees that it has ended.
  socket.on("error", () => {});
  await waitForEvent(socket, isSecure ? "secureConnect" : "connect", { socket, host, signal });
  return socket.setNoDelay(true).setKeepAlive(true, keepAliveMs);
}

/** Makes a proxy connect to `target` with CONNECT (RFC 9110, section 9.3.6). */
async function openTunnel(proxy: HttpProxy, target: string, signal?: AbortSignal): Promise<Socket> {
  const { url, authorization } = proxy;
  const headers = { Host: target, ...(authorization !== undefined && { "Proxy-Authorization": authorization }) };
  const peer = peerOf(url);
  const socket = await open(peer, { signal });
  const connectRequest = request({ method: "CONNECT", path: target, headers, createConnection: () => socket });
  connectRequest.on("error", () => {});
  const [{ statusCode }] = await waitForEvent(connectRequest.end(), "connect", { socket, host: peer.host, signal });
  if (statusCode === 200) return socket;
  socket.destroy();
  throw tunnelError(proxy, target, statusCode);
}

type WaitOptions = { socket: Socket; host: string; signal?: AbortSignal | undefined };

/**
 * Waits for an event, at most `lookupLimitMs` for the address of the host, and at most `silenceLimitMs` for
 * each later step. On an error, abort or timeout the connection is closed.
 */
async function waitForEvent(emitter: EventEmitter, event: string, { socket, host, signal }: WaitOptions) {
  let isLookingUp = socket.connecting && isIP(host) === 0;
  const onLookup = () => {
    isLookingUp = false;
    socket.setTimeout(silenceLimitMs);
  };
  const onSilence = () =>
    void socket.destroy(
      isLookingUp
        ? lookupFailure(host, "EAI_AGAIN")
        : failure(`${host} did not respond within ${silenceLimitMs / 1000} s`, "ETIMEDOUT"),
    );
  socket.once("lookup", onLookup).setTimeout(isLookingUp ? lookupLimitMs : silenceLimitMs, onSilence);
  try {
    return await once(emitter, event, { signal });
  } catch (error) {
    socket.destroy();
    if (signal?.aborted) throw signal.reason;
    const code = systemCode(error) ?? "";
    throw code.startsWith("EAI_") ? lookupFailure(host, code) : error;
  } finally {
    socket.setTimeout(0).off("timeout", onSilence).off("lookup", onLookup);
  }
}

function lookupFailure(host: string, code: string): Error {
  return failure(`the name ${host} could not be looked up`, code);
}

function notPrivateError(host: string, address: string): Error {
  const subject = host === address ? address : `${host} is ${address}, which`;
  return failure(
    `${subject} is not in a private network, and plain http would show the key on the way`,
    "ERR_NOT_PRIVATE",
  );
}

/** `retry.ts` and `vidgen doctor` read the code of a failure. */
function failure(message: string, code: string): Error {
  return Object.assign(new Error(message), { code });
}
