import type { HttpResponse, Io } from "../../../io.ts";
import { type Kind, kinds } from "./kinds.ts";

const timeoutMs = 10_000;
const maxReplyBytes = 1_000_000;

/**
 * Finds out which kind of server an engine is, with GETs that cost nothing; their paths are appended to its URL. Resolves with `undefined` when
 * the engine answers like none of them. Rejects with the network's error when it does not answer, also not within 10 seconds a request.
 */
export async function detectKind(
  engine: { url: string; headers: Record<string, string> },
  io: Pick<Io, "fetch" | "limit">,
  signal: AbortSignal,
): Promise<Kind | undefined> {
  for (const path of new Set(kinds.map(({ probe }) => probe.path))) {
    const text = await read(`${engine.url.replace(/\/+$/, "")}${path}`, engine.headers, { ...io, signal });
    const kind = kinds.find(({ probe }) => probe.sign.test(text));
    if (kind) return kind;
  }
  return undefined;
}

async function read(
  url: string,
  headers: Record<string, string>,
  { fetch, limit, signal }: Pick<Io, "fetch" | "limit"> & { signal: AbortSignal },
): Promise<string> {
  const timeout = limit(timeoutMs, signal, new Error(`no response within ${timeoutMs / 1_000} s`));
  try {
    return await readAtMost(maxReplyBytes, await fetch(url, { headers, signal: timeout.signal }));
  } finally {
    timeout.clear();
  }
}

/** Returns the reply's text; of a longer one its beginning. */
async function readAtMost(maxBytes: number, { body }: HttpResponse): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    chunks.push(chunk.subarray(0, maxBytes - length));
    length += chunk.length;
    if (length >= maxBytes) break;
  }
  return Buffer.concat(chunks).toString();
}
