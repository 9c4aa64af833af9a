import { type EventEmitter, once } from "node:events";
import { request } from "node:http";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { systemCode } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { findProxy, type HttpProxy, tunnelError } from "./proxy.ts";

/** How long the other side may say nothing, at each step of making a connection. */
const silenceLimitMs = 10_000;
/** The system asks several name servers, one after the other, and waits for the IPv6 address too: 15 s where none comes. */
const lookupLimitMs = 20_000;
/** TCP keep-alive: a reply may take minutes, and a router in between forgets a connection that is silent. */
const keepAliveMs = 60_000;

/** A server or a proxy: `host` is a name or an IP address, without brackets. */
type Peer = { isSecure: boolean; host: string; port: number };

/**
 * Connects to the host of a URL, through the proxy that `env` names for it, and resolves once a request can be written: no byte of one has
 * been. Rejects with the signal's reason as soon as it aborts.
 */
export async function connect(url: URL, env: Io["env"], signal?: AbortSignal): Promise<Socket> {
  signal?.throwIfAborted();
  const peer = peerOf(url);
  const proxy = findProxy(url, env);
  if (proxy === undefined) return open(peer, signal);
  const tunnel = await openTunnel(proxy, `${url.hostname}:${peer.port}`, signal);
  return peer.isSecure ? open(peer, signal, tunnel) : tunnel;
}

function peerOf({ protocol, hostname, port }: URL): Peer {
  const isSecure = protocol === "https:";
  return { isSecure, host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port) || (isSecure ? 443 : 80) };
}

/** With a `tunnel` TLS begins inside it. */
async function open({ isSecure, host, port }: Peer, signal?: AbortSignal, tunnel?: Socket): Promise<Socket> {
  const tls = { ...(tunnel && { socket: tunnel }), ALPNProtocols: ["http/1.1"], servername: isIP(host) ? "" : host };
  const socket = isSecure ? connectTls({ host, port, ...tls }) : connectTcp({ host, port });
  // Whoever uses the connection learns of its end anyway.
  socket.on("error", () => {});
  await nextEvent(socket, isSecure ? "secureConnect" : "connect", { socket, host, signal });
  return socket.setNoDelay(true).setKeepAlive(true, keepAliveMs);
}

/** Has a proxy connect to `target`, by CONNECT (RFC 9110, section 9.3.6). */
async function openTunnel(proxy: HttpProxy, target: string, signal?: AbortSignal): Promise<Socket> {
  const { url, authorization } = proxy;
  const headers = { Host: target, ...(authorization !== undefined && { "Proxy-Authorization": authorization }) };
  const peer = peerOf(url);
  const socket = await open(peer, signal);
  const asking = request({ method: "CONNECT", path: target, headers, createConnection: () => socket });
  asking.on("error", () => {});
  const [{ statusCode }] = await nextEvent(asking.end(), "connect", { socket, host: peer.host, signal });
  if (statusCode === 200) return socket;
  socket.destroy();
  throw tunnelError(proxy, target, statusCode);
}

type Step = { socket: Socket; host: string; signal?: AbortSignal | undefined };

/** Waits for an event. If an error, the signal or a long silence comes first, the connection that is being made ends. */
async function nextEvent(emitter: EventEmitter, event: string, { socket, host, signal }: Step) {
  let isLookup = socket.connecting && isIP(host) === 0;
  const onLookup = () => {
    isLookup = false;
    socket.setTimeout(silenceLimitMs);
  };
  const onSilence = () =>
    void socket.destroy(
      isLookup
        ? lookupFailure(host, "EAI_AGAIN")
        : failure(`${host} did not respond within ${silenceLimitMs / 1000} s`, "ETIMEDOUT"),
    );
  socket.once("lookup", onLookup).setTimeout(isLookup ? lookupLimitMs : silenceLimitMs, onSilence);
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

/** By its code `retry.ts` and `vidgen doctor` judge a failure. */
function failure(message: string, code: string): Error {
  return Object.assign(new Error(message), { code });
}
