import { systemCode } from "../errors.ts";
import type { HttpResponse, Io } from "../io.ts";
import { hideSecrets } from "../protocol/secrets.ts";
import { removeUrlSecrets } from "../protocol/url.ts";

/** The output of a session. */
export type SessionOutput = {
  note(text: string): void;
  /** Whether each request is reported with `trace`. */
  verbose: boolean;
  trace(text: string): void;
  /** Hides a secret in all further output. */
  hide(secret: string): void;
  /** The text without hidden secrets. */
  redact(text: string): string;
};

/** The maximum number of bytes of a reply that are shown: by mistake, a service may reply with a video. */
const maxShownBytes = 16_000;

/**
 * Prints each request and reply with `--verbose`; for the two endpoints of the API also the bodies, up to 16
 * kB each. The query of all other URLs is left out, since it may be secret.
 */
export function traceFetch(
  fetch: Io["fetch"],
  baseUrl: string,
  output: Pick<SessionOutput, "verbose" | "trace">,
  io: Pick<Io, "now">,
): Io["fetch"] {
  if (!output.verbose) return fetch;
  return async (url, init) => {
    const isApi = isEndpoint(url, baseUrl);
    const requestLine = `${init?.method ?? "GET"} ${isApi ? url : removeUrlSecrets(url)}`;
    const start = io.now();
    const report = (outcome: string | number) =>
      output.trace(`< ${outcome} ${requestLine} (${Math.round(io.now() - start)} ms)`);
    output.trace(`> ${requestLine}`);
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

/** Whether a URL is an API endpoint; other URLs below the base URL may be videos. */
function isEndpoint(url: string, baseUrl: string): boolean {
  const [address] = url.split("?");
  return address === `${baseUrl}/api/generate` || address === `${baseUrl}/api/generation-status`;
}

/** Returns the same reply, and shows the received part of its body after it was read. */
function traceReply(response: HttpResponse, show: (body: string) => void): HttpResponse {
  const { status, headers } = response;
  const decoder = new TextDecoder();
  async function* passOn() {
    let text = "";
    let length = 0;
    try {
      for await (const chunk of response.body ?? []) {
        if (length < maxShownBytes) text += decoder.decode(chunk.subarray(0, maxShownBytes - length), { stream: true });
        length += chunk.byteLength;
        yield chunk;
      }
    } finally {
      if (text !== "") show(length > maxShownBytes ? cutBody(text) : redactBody(text));
    }
  }
  const body = passOn();
  return { status, headers, body, text: async () => (await import("node:stream/consumers")).text(body) };
}

/** Cuts at a space or a quote, so that the redaction recognizes URLs and keys. */
function cutBody(text: string): string {
  return `${redactBody(text.replace(/[^\s"]*$/, ""))}… (cut at ${maxShownBytes / 1_000} kB)`;
}

/** A body without secrets and secret parts of URLs; JSON may escape a slash. */
export function redactBody(body: string): string {
  return (
    // The rest of an address is shown.
    hideSecrets("", body, () => false)
      // A body that was cut is no JSON.
      .replace(/("[\w-]*(?:key|secret|token|password|authorization)"\s*:\s*")(?:[^"\\]|\\.)*/gi, "$1[left out]")
      .replace(/(https?:(?:\\?\/){2})[^\s"@/?#]*@/gi, "$1...@")
      .replace(/(https?:(?:\\?\/){2}[^\s"?#]*\?)[^\s"]*/gi, "$1...")
      .replace(/(data:[^\s",]*,)[^\s"]*/gi, "$1...")
      // Keys of `vidgen serve`.
      .replace(/\bvgs_[0-9a-f]{8,}/g, "[left out]")
  );
}
