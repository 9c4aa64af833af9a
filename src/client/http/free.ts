import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { setFlagsFromString } from "node:v8";
import type { Agent, Dispatcher } from "undici";
import { unlessAborted } from "../../abort.ts";
import { checkAddressSpace } from "../../address-space.ts";
import type { FetchInit, Io } from "../../io.ts";
import { connect } from "./connection.ts";
import { decodeBody } from "./content-coding.ts";
import type { RawReply } from "./paid.ts";

/** The maximum number of connections for status requests, because a thousand with TLS would take 100 MB. */
const maxStatusConnections = 64;

/**
 * undici 7 throws an uncatchable error if a server closes the connection while undici's parser is paused
 * (nodejs/undici#5360; 8 has the fix, but needs Node 22). undici pauses the parser when this many bytes are
 * unread, so with this limit it never pauses. A reader must then not wait between chunks, because unread
 * chunks would fill the memory; `download.ts` writes each chunk synchronously.
 */
const unlimitedBytes = Number.MAX_SAFE_INTEGER;

/** The memories of undici's parser, and of Node's own copy of undici, which Node loads with it. */
const parserMemories = 2;

type Undici = typeof import("undici");
let loading: Promise<Undici> | undefined;

/**
 * Loads all that polls and downloads need, and starts undici's parser. Called before a request that costs
 * money: what cannot run here fails before anything is paid. Rejects with `output` if the address space is
 * too small. Only on Node 20 does `nodeVersion` change something (see `createFetch`).
 */
export function loadUndici(nodeVersion = ""): Promise<Undici> {
  const load = async () => {
    checkAddressSpace(parserMemories);
    if (nodeVersion.startsWith("20.")) keepParserUnoptimized();
    // Imported by its file: Bun replaces the module "undici" with an incomplete one.
    const undici = await import("undici/index.js");
    await startParser(undici);
    return undici;
  };
  loading ??= load().catch((error) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

/** Sends a request to a stream that answers it, because undici compiles its parser with the first connection. */
async function startParser({ Client }: Undici): Promise<void> {
  const server = new Duplex({
    read() {},
    write(_request, _encoding, done) {
      done();
      setImmediate(() => this.push("HTTP/1.1 204 No Content\r\n\r\n"));
    },
  });
  const client = new Client("http://localhost", {
    connect: (_address, done) => void setImmediate(() => done(null, server as Socket)),
  });
  await client.request({ method: "GET", path: "/" });
  await client.destroy();
}

/** Loads undici, and returns a function that sends a request that costs nothing. Rejects as `loadUndici` does. */
export async function createFreeSender(env: Io["env"], nodeVersion: string) {
  const { Agent } = await loadUndici(nodeVersion);
  const createConnector = (reach?: FetchInit["reach"]): NonNullable<Agent.Options["connect"]> => {
    return ({ protocol, host }, done) => {
      connect(new URL(`${protocol}//${host}`), env, { reach }).then(
        (socket) => done(null, socket),
        (error) => done(error, null),
      );
    };
  };
  const forStatus = new Agent({ connect: createConnector(), connections: maxStatusConnections });
  // Separate agents, so that only checked connections are reused.
  const forPrivate = new Agent({ connect: createConnector("private"), connections: maxStatusConnections });
  const forThisMachine = new Agent({ connect: createConnector("this machine") });
  // Videos, which are requested without the key, use other connections, so that a long download does not delay status requests.
  const forVideos = new Agent({ connect: createConnector() });
  // A request that closes its connection must not get one that was kept.
  const forOneRequest = new Agent({ connect: createConnector() });
  const agentFor = ({ reach, headers }: FetchInit) => {
    if (reach === undefined && headers?.Connection === "close") return forOneRequest;
    if (reach === "this machine") return forThisMachine;
    if (headers?.Authorization === undefined) return forVideos;
    return reach === "private" ? forPrivate : forStatus;
  };
  return async (url: string, init: FetchInit): Promise<RawReply> => {
    const agent = agentFor(init);
    const { statusCode, headers, body } = await unlessAborted(agent.request(optionsOf(url, init)), init.signal);
    // Without a reader, an error of the body would end the process.
    body.on("error", () => {});
    return { statusCode, headers, body: decodeBody(body, [headers["content-encoding"] ?? []].flat().join(",")) };
  };
}

/**
 * Node 20 compiles undici's WebAssembly parser a second time, optimized, after the first reply, and the
 * process waits 90 ms for that before it exits. With this budget (bytes of code run, 1.8 million by default)
 * only long work such as video encoding is optimized.
 */
function keepParserUnoptimized(): void {
  setFlagsFromString("--wasm-tiering-budget=1000000000");
}

function optionsOf(url: string, init: FetchInit): Dispatcher.RequestOptions {
  const { origin, pathname, search } = new URL(url);
  const { method = "GET", body = null, signal } = init;
  const headers = { "User-Agent": "vidgen", ...init.headers };
  const options = { origin, path: pathname + search, headers, body, signal, highWaterMark: unlimitedBytes };
  return { ...options, method: method as Dispatcher.HttpMethod };
}
