import { text } from "node:stream/consumers";
import { unlessAborted } from "../abort.ts";
import type { createFetch } from "../client/http/http.ts";
import { type Machine, RequestError } from "../io.ts";

/** How long to wait for the last chunk of a body after its request was aborted. */
const lastChunkMs = 1_000;

/** Adapts a custom `fetch`. If it rejects, the request counts as sent, unless the error has `sent: false`. */
export function adaptFetch(
  fetch: typeof globalThis.fetch,
  { sleep }: Pick<Machine, "sleep">,
): ReturnType<typeof createFetch> {
  return async (url, { body, headers = {}, method = "GET", signal } = {}) => {
    try {
      const init: RequestInit = { method, headers, signal: signal ?? null, redirect: "manual" };
      if (body !== undefined) init.body = body as string;
      const response = await fetch(url, init);
      const chunks = response.body && signal ? untilAborted(response.body, { signal, sleep }) : response.body;
      const { status, headers: responseHeaders } = response;
      return {
        status,
        headers: responseHeaders,
        body: chunks,
        text: async () => (chunks === null ? "" : text(chunks)),
      };
    } catch (error) {
      const isUnsent = typeof error === "object" && error !== null && "sent" in error && error.sent === false;
      throw isUnsent ? new RequestError(error, { sent: false }) : error;
    }
  };
}

/** The chunks of a body. Ends on abort even if the custom `fetch` does not end the body. */
async function* untilAborted(
  body: AsyncIterable<Uint8Array>,
  { signal, sleep }: { signal: AbortSignal } & Pick<Machine, "sleep">,
): AsyncGenerator<Uint8Array> {
  const chunks = body[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = chunks.next();
      // A chunk that has arrived may contain the id of a paid generation.
      const { done, value } = await unlessAborted(next, signal).catch(() => unlessLate(next, { signal, sleep }));
      if (done) return;
      yield value;
    }
  } finally {
    void chunks.return?.().catch(() => {});
  }
}

/** Returns the chunk if it comes within a second; else rejects with the signal's reason. */
function unlessLate<Chunk>(next: Promise<Chunk>, { signal, sleep }: { signal: AbortSignal } & Pick<Machine, "sleep">) {
  const isLate = sleep(lastChunkMs).then(() => Promise.reject(signal.reason));
  return Promise.race([next, isLate]);
}
