import { createApi } from "../client/http/api.ts";
import { askOnce } from "../client/http/ask.ts";
import { describeReply, isByGateway, type Reply } from "../client/http/reply.ts";
import type { Io } from "../io.ts";
import { isRecord } from "../protocol/json.ts";
import { isTransient } from "../protocol/status.ts";

export type KeyCheck = {
  /** `foreign`: no reply of this service; `unusual`: an error, but not because of the key. */
  verdict: "accepted" | "denied" | "unavailable" | "foreign" | "unusual";
  /** The reply in a few words. */
  said: string;
  httpStatus: number;
  /** The balance, where the service tells it. */
  credits?: number;
};

/** Without a key the service is tried alone, which then says "denied". */
type TryOptions = { baseUrl: string; apiKey: string | undefined; limitMs: number };

/**
 * Checks a key with one free request: the status of a made-up id (interface 4.2). A service that answers "not found" has accepted the key, and
 * `vidgen serve` tells its balance with that. Rejects as `fetch` does, and when there is no reply within `limitMs`.
 */
export async function tryKey({ baseUrl, apiKey, limitMs }: TryOptions, io: Io): Promise<KeyCheck> {
  const { probe } = createApi({ baseUrl, apiKey, fetch: io.fetch });
  const asked = await askOnce(probe, { baseUrl, limitMs, signal: io.signal }, io);
  if (asked.reply === undefined) throw asked.cause;
  const { reply } = asked;
  const balance = reply.headers?.["remaining-credits"];
  const credits = balance !== undefined && /^\d{1,15}$/.test(balance) ? { credits: Number(balance) } : {};
  return { verdict: judge(reply), said: describeReply(reply), httpStatus: reply.status, ...credits };
}

function judge(reply: Reply): KeyCheck["verdict"] {
  const { status, json } = reply;
  if (isByGateway(reply)) return "unusual";
  if (status === 401 || status === 403) return "denied";
  if (isTransient(status)) return "unavailable";
  if (isRecord(json) && (status < 300 || status === 404)) return "accepted";
  return status < 400 ? "foreign" : "unusual";
}
