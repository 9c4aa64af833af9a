import { setFlagsFromString } from "node:v8";
import type { Agent, Dispatcher } from "undici";
import { unlessAborted } from "../../abort.ts";
import { type FetchInit, type HttpResponse, type Io, RequestError } from "../../io.ts";
import type { RawReply } from "./paid.ts";

/** The maximum number of connections for status requests, because a thousand with TLS would take 100 MB. */
const maxStatusConnections = 64;

/**
 * undici 7 throws an uncatchable error if a server closes the connection while undici's parser is paused (nodejs/undici#5360; 8 has
 * the fix, but needs Node 22). undici pauses the parser when this many bytes are unread, so with this limit it never pauses. A reader must then not
 * wait between chunks, because unread chunks would fill the memory; `download.ts` writes each chunk synchronously.
 */
const unlimitedBytes = Number.MAX_SAFE_INTEGER;

/**
 * Creates `Io["fetch"]`. A POST uses a connection of its own (`paid.ts`); everything else is free, may be sent twice, and uses
 * undici. Both are loaded with their first request, and connect as `connection.ts` does, through the proxies of `env`. Only the CLI
 * passes `nodeVersion`, which permits setting a V8 flag, because a library must not change its process.
 */
export function createFetch(env: Io["env"], { nodeVersion = "" } = {}): Io["fetch"] {
  let loading: ReturnType<typeof loadFreeSender> | undefined;
  return async (url, init = {}) => {
    if (init.method === "POST") {
      const { postPaid } = await import("./paid.ts").catch((error) => {
        throw new RequestError(error, { sent: false });
      });
      return createResponse(await postPaid(url, init, env));
    }
    try {
      loading ??= loadFreeSender(env, nodeVersion);
      const sendFree = await loading.catch((error) => {
        loading = undefined;
        throw error;
      });
      return createResponse(await sendFree(url, init));
    } catch (error) {
      throw new RequestError(error, { sent: true });
    }
  };
}

function createResponse({ statusCode, headers, body }: RawReply): HttpResponse {
  const get = (name: string) => [headers[name.toLowerCase()] ?? []].flat().join(", ") || null;
  const text = async () => (await import("node:stream/consumers")).text(body);
  return { status: statusCode, headers: { get }, body, text };
}

/** Loads undici, and returns a function that sends a request that costs nothing. */
async function loadFreeSender(env: Io["env"], nodeVersion: string) {
  if (nodeVersion.startsWith("20.")) keepParserUnoptimized();
  // Imported by its file: Bun replaces the module "undici" with an incomplete one.
  const { Agent } = await import("undici/index.js");
  // Loaded before the request, so that no part of a body is lost if the connection breaks while this loads.
  const { decodeBody } = await import("./content-coding.ts");
  const { connect } = await import("./connection.ts");
  const createConnector = (isPrivateOnly: boolean): NonNullable<Agent.Options["connect"]> => {
    return ({ protocol, host }, done) => {
      connect(new URL(`${protocol}//${host}`), env, { isPrivateOnly }).then(
        (socket) => done(null, socket),
        (error) => done(error, null),
      );
    };
  };
  const forStatus = new Agent({ connect: createConnector(false), connections: maxStatusConnections });
  // A separate agent, so that only checked connections are reused.
  const forPrivate = new Agent({ connect: createConnector(true), connections: maxStatusConnections });
  // Videos, which are requested without the key, use other connections, so that a long download does not delay status requests.
  const forVideos = new Agent({ connect: createConnector(false) });
  return async (url: string, init: FetchInit): Promise<RawReply> => {
    const agentWithKey = init.isPrivateOnly ? forPrivate : forStatus;
    const agent = init.headers?.Authorization === undefined ? forVideos : agentWithKey;
    const { statusCode, headers, body } = await unlessAborted(agent.request(optionsOf(url, init)), init.signal);
    // Without a reader, an error of the body would end the process.
    body.on("error", () => {});
    return { statusCode, headers, body: decodeBody(body, [headers["content-encoding"] ?? []].flat().join(",")) };
  };
}

/**
 * Node 20 compiles undici's WebAssembly parser a second time, optimized, after the first reply, and the process waits 90 ms for that before
 * it exits. With this budget (bytes of code run, 1.8 million by default) only long work such as video encoding is optimized.
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
