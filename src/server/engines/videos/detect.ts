import type { Io } from "../../../io.ts";
import { type Kind, kinds } from "./kinds.ts";
import { readReply } from "./reply.ts";

const timeoutMs = 10_000;

/**
 * Finds out which kind of server an engine is, with GETs that cost nothing; their paths are appended to its URL. Resolves with `undefined` when
 * the engine answers like none of them. Rejects with the network's error when it does not answer, also not within 10 seconds a request, and
 * when a reply is longer than 1 MB.
 */
export async function detectKind(
  engine: { url: string; headers: Record<string, string> },
  io: Pick<Io, "fetch" | "limit">,
  signal: AbortSignal,
): Promise<Kind | undefined> {
  for (const path of new Set(kinds.map(({ probe }) => probe.path))) {
    const limit = io.limit(timeoutMs, signal, new Error(`no response within ${timeoutMs / 1_000} s`));
    try {
      const url = `${engine.url.replace(/\/+$/, "")}${path}`;
      const { text } = await readReply(await io.fetch(url, { headers: engine.headers, signal: limit.signal }));
      const kind = kinds.find(({ probe }) => probe.sign.test(text));
      if (kind) return kind;
    } finally {
      limit.clear();
    }
  }
  return undefined;
}
