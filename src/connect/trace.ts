import { systemCode } from "../errors.ts";
import type { HttpResponse, Io } from "../io.ts";
import { shortenAddresses } from "../protocol/url.ts";

/** What a session reports to its user by. */
export type Notes = {
  note(text: string): void;
  /** Whether each request is reported too, by `trace`. */
  verbose: boolean;
  trace(text: string): void;
  /** Replaces a secret in everything that is reported from now on. */
  hide(secret: string): void;
  /** The text without those. */
  redact(text: string): string;
};

/** More of a reply would fill the screen, and the memory where it is no reply of the API but a video. */
const maxShown = 16_000;

/**
 * Prints each request and reply with `--verbose`, and the bodies of those to the two endpoints of the API, up to 16 kB each. The query of any
 * other address is left out: it may be a secret.
 */
export function traceFetch(
  fetch: Io["fetch"],
  baseUrl: string,
  output: Pick<Notes, "verbose" | "trace">,
  io: Pick<Io, "now">,
): Io["fetch"] {
  if (!output.verbose) return fetch;
  return async (url, init) => {
    const isApi = isEndpoint(url, baseUrl);
    const shown = `${init?.method ?? "GET"} ${isApi ? url : shortenAddresses(url)}`;
    const start = io.now();
    const report = (outcome: string | number) =>
      output.trace(`< ${outcome} ${shown} (${Math.round(io.now() - start)} ms)`);
    output.trace(`> ${shown}`);
    if (typeof init?.body === "string") output.trace(`> ${redactBody(init.body)}`);
    try {
      const response = await fetch(url, init);
      report(response.status);
      return isApi ? traceReply(response, (body) => output.trace(`< ${body}`)) : response;
    } catch (error) {
      report(systemCode(error) ?? (error instanceof Error ? error.message : "failed"));
      throw error;
    }
  };
}

/** Not any address below the base URL: that may be the one of a video. */
function isEndpoint(url: string, baseUrl: string): boolean {
  const [address] = url.split("?");
  return address === `${baseUrl}/api/generate` || address === `${baseUrl}/api/generation-status`;
}

/** The reply, whose body is shown once it has been read, or as much of it as came. */
function traceReply(response: HttpResponse, show: (body: string) => void): HttpResponse {
  const { status, headers } = response;
  const decoder = new TextDecoder();
  async function* passOn() {
    let text = "";
    let length = 0;
    try {
      for await (const chunk of response.body ?? []) {
        if (length < maxShown) text += decoder.decode(chunk.subarray(0, maxShown - length), { stream: true });
        length += chunk.byteLength;
        yield chunk;
      }
    } finally {
      if (text !== "") show(length > maxShown ? cutBody(text) : redactBody(text));
    }
  }
  const body = passOn();
  return { status, headers, body, text: async () => (await import("node:stream/consumers")).text(body) };
}

/** Ends at a space or a quote: half of an address or of a key would not be recognised. */
function cutBody(text: string): string {
  return `${redactBody(text.replace(/[^\s"]*$/, ""))}… (cut at ${maxShown / 1_000} kB)`;
}

/** A body without the keys, and the parts of its addresses, that may be secrets; JSON may escape a slash. */
export function redactBody(body: string): string {
  return (
    body
      .replace(/("[\w-]*(?:key|secret|token|password|authorization)"\s*:\s*")(?:[^"\\]|\\.)*/gi, "$1[left out]")
      .replace(/(https?:(?:\\?\/){2})[^\s"@/?#]*@/gi, "$1...@")
      .replace(/(https?:(?:\\?\/){2}[^\s"?#]*\?)[^\s"]*/gi, "$1...")
      .replace(/(data:[^\s",]*,)[^\s"]*/gi, "$1...")
      // A key that `vidgen serve` has made, wherever it stands.
      .replace(/\bvgs_[0-9a-f]{8,}/g, "[left out]")
  );
}
