import type { HttpResponse, Io } from "../../../io.ts";
import { type Kind, kinds } from "./kinds.ts";

const timeoutMs = 10_000;
const maxReplyBytes = 1_000_000;

/**
 * Finds out which kind of server an engine is, with GETs that cost nothing; their paths are appended to its URL. Resolves with `undefined` when
 * the engine answers like none of them. Rejects with the network's error when it does not answer, also not within 10 seconds a request; and with
 * the HTTP status when it cannot be told because the key is wrong, or the engine does not work now.
 */
export async function detectKind(
  engine: { url: string; headers: Readonly<Record<string, string>> },
  io: Pick<Io, "fetch" | "limit">,
  signal: AbortSignal,
): Promise<Kind | undefined> {
  let trouble: number | undefined;
  for (const path of new Set(kinds.map(({ probe }) => probe.path))) {
    const { status, text } = await read(`${engine.url.replace(/\/+$/, "")}${path}`, engine.headers, { ...io, signal });
    const kind = kinds.find(({ probe }) => probe.path === path && probe.sign.test(text));
    if (kind) return kind;
    if ([401, 403, 429].includes(status) || status >= 500) trouble ??= status;
  }
  if (trouble !== undefined) throw new Error(`HTTP ${trouble}`);
  return undefined;
}

async function read(
  url: string,
  headers: Readonly<Record<string, string>>,
  { fetch, limit, signal }: Pick<Io, "fetch" | "limit"> & { signal: AbortSignal },
): Promise<{ status: number; text: string }> {
  const timeout = limit(timeoutMs, signal, new Error(`no response within ${timeoutMs / 1_000} s`));
  try {
    const reply = await fetch(url, { headers, signal: timeout.signal });
    return { status: reply.status, text: await readAtMost(maxReplyBytes, reply) };
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
