import type { HttpResponse, Io } from "../../../io.ts";
import { readReply, type ServerReply } from "../upstream/reply.ts";
import type { SubmitSignals } from "../upstream/submit.ts";
import { describe } from "../upstream/upstream.ts";

/** What came of a request: its reply, or why there is none; `undefined` while it is out. */
export type CallResult = ServerReply | { error: unknown };

/** One call of a package, whose requests are watched. */
export type SdkCall = {
  fetch: typeof globalThis.fetch;
  /** What came of the last request; `undefined` when there was none. */
  answer(): CallResult | undefined;
};

/** Some providers put the video into their reply, in base64. */
const maxReplyBytes = 64_000_000;

/** Those that vidgen's own `fetch` sets: a second User-Agent, or a length that it does not know, would be sent beside its own. */
const ownHeaders = ["user-agent", "content-length"];

/**
 * Returns a `fetch` over vidgen's own one, which knows whether a request was sent. After one that failed it sends nothing more: a package
 * that tries again by itself would start a second video.
 */
export function createCall({ fetch }: Pick<Io, "fetch">, signals: Partial<SubmitSignals>): SdkCall {
  let answer: CallResult | undefined;
  const forward = async (request: Request, given: [string, string][]): Promise<HttpResponse> => {
    const { url, method } = request;
    const headers = Object.fromEntries(given);
    if (method === "GET") return fetch(url, { headers, ...signals });
    return fetch(url, { method, headers, body: new Uint8Array(await request.arrayBuffer()), ...signals });
  };
  return {
    async fetch(...args) {
      if (answer && !isSuccess(answer)) throw new Error("vidgen sends nothing more after a request that failed");
      const request = new Request(...args);
      const given = [...request.headers].filter(([name]) => !ownHeaders.includes(name));
      answer = { error: undefined };
      try {
        const reply = await forward(request, given);
        const read = await readReply(reply, { maxBytes: maxReplyBytes, secret: secretIn(given) });
        answer = read;
        const headers = { "Content-Type": reply.headers.get("Content-Type") ?? "application/json" };
        return new Response(read.text || null, { status: read.status, headers });
      } catch (error) {
        answer = { error };
        throw error;
      }
    },
    answer: () => answer,
  };
}

/** Whether the provider has taken a request. */
export function isSuccess(answer: CallResult): boolean {
  return "status" in answer && answer.status >= 200 && answer.status < 300;
}

/** The key, which the package has read itself: `Authorization: Key ...`, or a header of its own. */
function secretIn(headers: [string, string][]): string | undefined {
  const [, value] = headers.find(([name]) => /^authorization$|-(key|token)$/.test(name)) ?? [];
  return value?.split(" ").at(-1);
}

/** What a package says; Node's error about a header that it cannot send repeats the header, which is the key. */
export function describeError(error: unknown): string {
  return describe(error).replace(/".*" is an invalid header value/, "the key cannot be sent in a header");
}
