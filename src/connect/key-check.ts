import { createApi } from "../client/http/api.ts";
import { askOnce } from "../client/http/ask.ts";
import { describeReply, isFromGateway, type Reply } from "../client/http/reply.ts";
import type { Io } from "../io.ts";
import { isRecord } from "../protocol/json.ts";
import { isTransient } from "../protocol/status.ts";

export type KeyCheck = {
  /** `foreign`: the reply of another kind of server; `unusual`: an error that does not concern the key. */
  verdict: "accepted" | "denied" | "unavailable" | "foreign" | "unusual";
  /** A short description of the reply. */
  replyText: string;
  httpStatus: number;
  /** The balance, if the service states it. */
  credits?: number;
};

/** Without a key, only the service is checked; the verdict on a video service is then `denied`. */
type TryOptions = { baseUrl: string; apiKey: string | undefined; limitMs: number };

/**
 * Checks a key with one free request for the status of a made-up id. A service that answers "not found"
 * accepts the key, and `vidgen serve` adds the balance. Rejects as `fetch` does, and without a reply within
 * `limitMs`.
 */
export async function tryKey({ baseUrl, apiKey, limitMs }: TryOptions, io: Io): Promise<KeyCheck> {
  const { probe } = createApi({ baseUrl, apiKey, fetch: io.fetch });
  const answer = await askOnce(probe, { baseUrl, limitMs, signal: io.signal }, io);
  if (answer.reply === undefined) throw answer.cause;
  const { reply } = answer;
  const balance = reply.headers?.["remaining-credits"];
  const credits = balance !== undefined && /^\d{1,15}$/.test(balance) ? { credits: Number(balance) } : {};
  return { verdict: verdictOf(reply), replyText: describeReply(reply), httpStatus: reply.status, ...credits };
}

function verdictOf(reply: Reply): KeyCheck["verdict"] {
  const { status, json } = reply;
  if (isFromGateway(reply)) return "unusual";
  if (status === 401 || status === 403) return "denied";
  if (isTransient(status)) return "unavailable";
  if (isRecord(json) && (status < 300 || status === 404)) return "accepted";
  return status < 400 ? "foreign" : "unusual";
}
