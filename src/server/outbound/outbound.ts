import type { IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import type { Clock, HttpResponse } from "../../io.ts";
import { type ConnectionOptions, type OutboundRequest, rulesOf, sendOutbound } from "./connection.ts";
import { readTarget } from "./target.ts";

export type OutboundOptions = ConnectionOptions & { clock: Pick<Clock, "limit"> };

/**
 * Posts a callback. Redirects are not followed: a 3xx is a reply like any other. `retryAfter` is the unparsed header of the reply; `text` is its
 * body, unless the body was cut off or is longer than 20 kB.
 */
export type Post = (
  url: string,
  options: { account: string; headers: Record<string, string>; body: string; signal: AbortSignal },
) => Promise<{ status: number; retryAfter?: string | undefined; text?: string | undefined }>;

/**
 * Fetches an image within 30 seconds. Checks and follows up to 3 redirects. The body is empty unless the status is 200; `retryAfter` is the
 * unparsed header. Rejects with `isFinal: true` when the same request later would fail too: the image is larger than `maxBytes`, or a redirect
 * cannot be followed.
 */
export type Get = (
  url: string,
  options: { account: string; signal: AbortSignal; maxBytes: number },
) => Promise<{ status: number; retryAfter?: string | undefined; body: Uint8Array }>;

/** Opens a file as a stream. Checks and follows up to 3 redirects. */
export type Open = (url: string, options: { signal: AbortSignal; accept: string }) => Promise<HttpResponse>;

/**
 * The requests that the service makes to addresses that others chose. Each rejects with the reason of its signal, or with an `Error` whose
 * message is for people; `isForbidden: true` means that the service must not connect to the address. Proxy settings of the environment are
 * ignored, and connections are not reused.
 */
export type Outbound = { post: Post; get: Get; open: Open; findImageFault?: FindImageFault };

/** Returns why an account may not have an image fetched from an address, as far as the address itself says that; `undefined` if it may. */
export type FindImageFault = (url: string, account: string) => string | undefined;

const imagesFrom = "images from";
const getTimeoutMs = 30_000;
const maxPostReplyBytes = 20_000;
const maxRedirects = 3;

export function createOutbound(options: OutboundOptions): Outbound {
  return {
    findImageFault(url, account) {
      try {
        readTarget(url, imagesFrom, rulesOf(options, account));
        return undefined;
      } catch (error) {
        return error instanceof Error ? error.message : String(error);
      }
    },
    async post(url, request) {
      const reply = await sendOutbound(url, { ...request, what: "callbacks to", method: "POST" }, options);
      // Only the status decides, so an error in the rest of the reply is ignored.
      const body = await readAtMost(maxPostReplyBytes, reply).catch(() => undefined);
      const text = body && new TextDecoder().decode(body);
      return { status: reply.statusCode ?? 0, retryAfter: reply.headers["retry-after"], text };
    },
    async get(url, { account, signal, maxBytes }) {
      const reason = new Error(`no response within ${getTimeoutMs / 1_000} s`);
      const timeout = options.clock.limit(getTimeoutMs, signal, reason);
      try {
        const accept = "image/png, image/jpeg, image/webp";
        const request = { what: imagesFrom, account, accept, signal: timeout.signal };
        const reply = await follow(url, request, options);
        const [status, retryAfter] = [reply.statusCode ?? 0, reply.headers["retry-after"]];
        if (status !== 200) {
          reply.destroy();
          return { status, retryAfter, body: new Uint8Array() };
        }
        const body = await readAtMost(maxBytes, reply);
        if (!body) throw final(new Error(`it is larger than ${maxBytes / 1_000_000} MB`));
        return { status, body };
      } catch (error) {
        throw timeout.signal.aborted ? timeout.signal.reason : error;
      } finally {
        timeout.clear();
      }
    },
    async open(url, request) {
      const reply = await follow(url, { ...request, what: "videos from" }, options);
      const get = (name: string) => [reply.headers[name.toLowerCase()] ?? []].flat().join(", ") || null;
      return { status: reply.statusCode ?? 0, headers: { get }, body: reply, text: () => text(reply) };
    },
  };
}

async function follow(
  firstUrl: string,
  { accept, ...rest }: Pick<OutboundRequest, "what" | "account" | "signal"> & { accept: string },
  options: OutboundOptions,
): Promise<IncomingMessage> {
  // Some hosts refuse a request without a User-Agent.
  const headers = { Accept: accept, "Accept-Encoding": "identity", "User-Agent": "vidgen" };
  let url = firstUrl;
  for (let redirects = 0; redirects <= maxRedirects; redirects++) {
    const reply = await sendOutbound(url, { ...rest, method: "GET", headers }, options);
    const { location } = reply.headers;
    if (![301, 302, 303, 307, 308].includes(reply.statusCode ?? 0) || location === undefined) return reply;
    reply.destroy();
    url = URL.canParse(location, url) ? new URL(location, url).href : location;
    try {
      readTarget(url, rest.what, rulesOf(options, rest.account));
    } catch (error) {
      throw final(error);
    }
  }
  throw final(new Error(`it redirects more than ${maxRedirects} times`));
}

function final(error: unknown) {
  return Object.assign(Object(error), { isFinal: true });
}

/** Reads a whole reply; stops and returns `undefined` when it is longer than `maxBytes`. */
async function readAtMost(maxBytes: number, reply: IncomingMessage): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of reply as AsyncIterable<Uint8Array>) {
    length += chunk.byteLength;
    if (length > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
