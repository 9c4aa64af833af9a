import { systemCode } from "../../errors.ts";
import type { HttpResponse, Io } from "../../io.ts";
import type { Output } from "./output.ts";

/**
 * Prints each request and reply with `--verbose`, and the bodies of the API's. The query of a media URL is left out: it may be a secret.
 */
export function traceFetch(fetch: Io["fetch"], baseUrl: string, output: Output, io: Pick<Io, "now">): Io["fetch"] {
  if (!output.verbose) return fetch;
  return async (url, init) => {
    const isApi = url.startsWith(baseUrl);
    const shown = `${init?.method ?? "GET"} ${isApi ? url : url.replace(/\?.*$/s, "?...")}`;
    const start = io.now();
    const report = (outcome: string | number) =>
      output.trace(`< ${outcome} ${shown} (${Math.round(io.now() - start)} ms)`);
    output.trace(`> ${shown}`);
    if (typeof init?.body === "string") output.trace(`> ${redactBody(init.body)}`);
    try {
      const response = await fetch(url, init);
      report(response.status);
      return isApi ? traceReply(response, (body) => output.trace(`< ${redactBody(body)}`)) : response;
    } catch (error) {
      report(systemCode(error) ?? (error instanceof Error ? error.message : "failed"));
      throw error;
    }
  };
}

/** The reply, whose body is shown once it has been read, or as much of it as came. */
function traceReply(response: HttpResponse, show: (body: string) => void): HttpResponse {
  const { status, headers, body } = response;
  const decoder = new TextDecoder();
  async function* passOn(chunks: AsyncIterable<Uint8Array>) {
    let text = "";
    try {
      for await (const chunk of chunks) {
        text += decoder.decode(chunk, { stream: true });
        yield chunk;
      }
    } finally {
      if (text !== "") show(text);
    }
  }
  const text = async () => {
    const whole = await response.text();
    show(whole);
    return whole;
  };
  return { status, headers, body: body && passOn(body), text };
}

/** A body without the keys, and the parts of its addresses, that may be secrets; JSON may escape a slash. */
export function redactBody(body: string): string {
  return body
    .replace(/("[\w-]*(?:key|secret|token|password|authorization)"\s*:\s*")(?:[^"\\]|\\.)*/gi, "$1[left out]")
    .replace(/(https?:(?:\\?\/){2})[^\s"@/?#]*@/gi, "$1...@")
    .replace(/(https?:(?:\\?\/){2}[^\s"?#]*\?)[^\s"]*/gi, "$1...")
    .replace(/(data:[^\s",]*,)[^\s"]*/gi, "$1...");
}
