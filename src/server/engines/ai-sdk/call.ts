import type { HttpResponse, Io } from "../../../io.ts";
import { withoutNumberWords } from "../../../protocol/json.ts";
import { type PartOptions, readReply, type ServerReply } from "../upstream/reply.ts";
import type { SubmitSignals } from "../upstream/submit.ts";
import { describe } from "../upstream/upstream.ts";

/** The result of a request: its reply, or its error, which is `undefined` while the request is in flight. */
export type CallResult = ServerReply | { error: unknown };

/** One call of a package, whose requests are observed. */
export type SdkCall = {
  fetch: typeof globalThis.fetch;
  /** The result of the last request; `undefined` when there was none. */
  result(): CallResult | undefined;
};

/** Headers that vidgen's own `fetch` sets, so that the package's headers of these names are dropped. */
const vidgenHeaders = ["user-agent", "content-length"];

/**
 * Returns a `fetch` based on vidgen's own, which knows whether a request was sent. After a failed request it sends nothing more, because a package
 * that retries by itself would start a second video.
 */
export function createCall(
  { fetch }: Pick<Io, "fetch">,
  signals: Partial<SubmitSignals>,
  { maxBytes, onPart }: PartOptions = {},
): SdkCall {
  let result: CallResult | undefined;
  const forward = async (request: Request, headerList: [string, string][]): Promise<HttpResponse> => {
    const { url, method } = request;
    const headers = Object.fromEntries(headerList);
    if (method === "GET") return fetch(url, { headers, ...signals });
    return fetch(url, { method, headers, body: new Uint8Array(await request.arrayBuffer()), ...signals });
  };
  return {
    async fetch(...args) {
      if (result && !isSuccess(result)) throw new Error("vidgen sends nothing more after a request that failed");
      const request = new Request(...args);
      const headerList = [...request.headers].filter(([name]) => !vidgenHeaders.includes(name));
      result = { error: undefined };
      try {
        const reply = await forward(request, headerList);
        const serverReply = await readReply(reply, { maxBytes, onPart, secret: secretIn(headerList) });
        result = serverReply;
        const headers = { "Content-Type": reply.headers.get("Content-Type") ?? "application/json" };
        const { status, text, json } = serverReply;
        // The package parses the reply itself, and cannot read the words of `parseReplyJson`.
        const body = json === undefined ? text : withoutNumberWords(text);
        return new Response(body || null, { status, headers });
      } catch (error) {
        result = { error };
        throw error;
      }
    },
    result: () => result,
  };
}

/** Whether the provider accepted a request. */
export function isSuccess(result: CallResult): boolean {
  return "status" in result && result.status >= 200 && result.status < 300;
}

/** Returns the key, which the package reads itself, from `Authorization: Key ...` or another header. */
function secretIn(headers: [string, string][]): string | undefined {
  const [, value] = headers.find(([name]) => /^authorization$|-(key|token)$/.test(name)) ?? [];
  return value?.split(" ").at(-1);
}

/** Returns the message of a package's error. Node's error about an invalid header repeats the header, which is the key. */
export function describeError(error: unknown): string {
  return describe(error).replace(/".*" is an invalid header value/, "the key cannot be sent in a header");
}
