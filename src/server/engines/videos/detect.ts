import { VidgenError } from "../../../errors.ts";
import type { Io } from "../../../io.ts";
import { describeKeyRefusal, readReply, refusesKey, type ServerReply } from "../upstream/reply.ts";
import { replyError } from "../upstream/submit.ts";
import { type Kind, kinds } from "./kinds.ts";

const timeoutMs = 10_000;
/** A proxy may list very many models. */
const maxListBytes = 16_000_000;

/**
 * Detects the kind of a server by GETs that cost nothing. If `engine.kind` is given, checks only whether the server is of that kind. Resolves with
 * `undefined` when the replies match no kind. Rejects with the network's error when a request gets no reply within 10 seconds, with an error when a
 * reply is longer than 1 MB, with the HTTP status when the server does not work now, and with `auth` when it refuses the key.
 */
export async function detectKind(
  engine: { url: string; kind?: Kind | undefined; headers: Readonly<Record<string, string>> },
  io: Pick<Io, "fetch" | "limit">,
  signal: AbortSignal,
): Promise<Kind | undefined> {
  let failure: ServerReply | undefined;
  const candidates = engine.kind ? [engine.kind] : kinds;
  for (const path of new Set(candidates.map(({ probe }) => probe.path))) {
    const limit = io.limit(timeoutMs, signal, new Error(`no response within ${timeoutMs / 1_000} s`));
    try {
      const url = `${engine.url.replace(/\/+$/, "")}${path}`;
      const reply = await readReply(await io.fetch(url, { headers: engine.headers, signal: limit.signal }));
      const { status, text } = reply;
      const kind = candidates.find(({ probe }) => probe.sign.test(text));
      if (kind) return kind;
      if ([401, 403, 429].includes(status) || status >= 500) failure ??= reply;
    } finally {
      limit.clear();
    }
  }
  if (failure === undefined) return undefined;
  throwIfRefused(failure, engine.headers);
  throw replyError(failure, `HTTP ${failure.status}`);
}

function throwIfRefused(reply: ServerReply, { Authorization }: Readonly<Record<string, string>>): void {
  if (refusesKey(reply))
    throw new VidgenError("auth", describeKeyRefusal(reply, { hasKey: Authorization !== undefined }));
}

/** Checks the key of a server whose kind is detected without it. Rejects with `auth` when the key is wrong. */
export async function checkKey(
  { url, headers }: { url: string; headers: Readonly<Record<string, string>> },
  { keyPath }: Pick<Kind, "keyPath">,
  { io, signal }: { io: Pick<Io, "fetch">; signal: AbortSignal },
): Promise<void> {
  if (keyPath === undefined) return;
  const reply = await io.fetch(`${url}${keyPath}`, { headers, signal });
  throwIfRefused(await readReply(reply, { maxBytes: maxListBytes }), headers);
}
