import type { IncomingMessage } from "node:http";
import type { Clock } from "../../io.ts";
import { type ConnectionOptions, send } from "./connection.ts";

export type OutboundOptions = ConnectionOptions & { clock: Pick<Clock, "limit"> };

export type PostReply = { status: number; headers: Headers };
export type GetReply = PostReply & { body: Uint8Array };

/**
 * The requests that the service makes by itself, to addresses that others chose. Both reject with an `Error` made for people; it has
 * `isForbidden: true` when the address must not be connected to. No proxy of the environment is used, and no connection twice.
 */
export type Outbound = {
  /** Posts a callback within 15 seconds, and follows no redirect: a 3xx is a reply as any other. Of the reply's body 20 kB are read away. */
  post(
    url: string,
    options: { headers: Record<string, string>; body: string; signal: AbortSignal },
  ): Promise<PostReply>;
  /** Fetches an image within 30 seconds, over up to 3 redirects, each checked anew. Rejects when it has more than `maxBytes`. */
  get(url: string, options: { signal: AbortSignal; maxBytes: number }): Promise<GetReply>;
};

const postLimitMs = 15_000;
const getLimitMs = 30_000;
const longestPostReply = 20_000;
const mostRedirects = 3;

export function createOutbound(options: OutboundOptions): Outbound {
  return {
    post: (url, sending) =>
      within(postLimitMs, sending.signal, options, async (signal) => {
        const reply = await send(url, { ...sending, what: "callbacks to", method: "POST", signal }, options);
        // The status has said all: trouble with the rest of the reply changes nothing.
        await readAtMost(longestPostReply, reply).catch(() => {});
        return { status: reply.statusCode ?? 0, headers: toHeaders(reply) };
      }),
    get: (url, { signal: parent, maxBytes }) =>
      within(getLimitMs, parent, options, async (signal) => {
        const reply = await follow(url, signal, options);
        const body = await readAtMost(maxBytes, reply);
        if (!body) throw new Error(`it is larger than ${maxBytes / 1_000_000} MB`);
        return { status: reply.statusCode ?? 0, headers: toHeaders(reply), body };
      }),
  };
}

async function within<Reply>(
  limitMs: number,
  parent: AbortSignal,
  { clock }: OutboundOptions,
  run: (signal: AbortSignal) => Promise<Reply>,
): Promise<Reply> {
  const limit = clock.limit(limitMs, parent, new Error(`no answer within ${limitMs / 1_000} s`));
  try {
    limit.signal.throwIfAborted();
    return await run(limit.signal);
  } catch (error) {
    throw limit.signal.aborted ? limit.signal.reason : error;
  } finally {
    limit.clear();
  }
}

async function follow(first: string, signal: AbortSignal, options: OutboundOptions): Promise<IncomingMessage> {
  const headers = { Accept: "image/png, image/jpeg, image/webp", "Accept-Encoding": "identity" };
  let url = first;
  for (let redirects = 0; redirects <= mostRedirects; redirects++) {
    const reply = await send(url, { what: "images from", method: "GET", headers, signal }, options);
    const { location } = reply.headers;
    if (![301, 302, 303, 307, 308].includes(reply.statusCode ?? 0) || location === undefined) return reply;
    reply.destroy();
    url = URL.canParse(location, url) ? new URL(location, url).href : location;
  }
  throw new Error(`it is behind more than ${mostRedirects} redirects`);
}

/** Reads a reply to its end; `undefined` when it is longer, and then no more of it is read. */
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

function toHeaders({ headersDistinct }: IncomingMessage): Headers {
  return new Headers(
    Object.entries(headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    ),
  );
}
