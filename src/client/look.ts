import { doctorHint, systemCode, VidgenError } from "../errors.ts";
import type { Clock } from "../io.ts";
import type { Api, Reply } from "./api.ts";
import { backoffMs, isTransient, retryAfterMs } from "./retry.ts";
import { errorText, type Generation, isRecord, readGeneration, saysNo } from "./schema.ts";

/** What one poll shows. `trouble` is anything that may pass: a retry is free. */
export type Look =
  | { kind: "generation"; generation: Generation }
  | { kind: "missing" }
  | { kind: "trouble"; reason: string; httpStatus?: number; retryAfterMs?: number | undefined };

/** A poll that takes longer counts as trouble. */
const lookLimitMs = 30_000;
/** How long `lookPatiently` retries. */
const patienceMs = 30_000;

/**
 * Asks for a generation's state once (interface 4.2). Throws what a retry cannot change: `auth`, `credits`, `rejected`, and the signal's
 * reason when that aborts.
 */
export async function look(api: Api, id: string, clock: Clock, signal: AbortSignal): Promise<Look> {
  const limit = clock.limit(lookLimitMs, signal, new Error("no answer within 30 s"));
  try {
    return readLook(await api.status(id, limit.signal), id, clock);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof VidgenError) throw error;
    return { kind: "trouble", reason: describeFailure(error) };
  } finally {
    limit.clear();
  }
}

/**
 * Asks for a generation's state until there is an answer, for 30 s. Throws as `look` does, `not_found`, `network` when none came, and the
 * signal's reason. `onNote` is called before each retry.
 */
export async function lookPatiently(
  api: Api,
  id: string,
  clock: Clock,
  signal: AbortSignal,
  onNote: (text: string) => void = () => {},
): Promise<Generation> {
  const end = clock.now() + patienceMs;
  for (let failures = 0; ; failures++) {
    const seen = await look(api, id, clock, signal);
    if (seen.kind === "generation") return seen.generation;
    if (seen.kind === "missing")
      throw new VidgenError("not_found", `The service knows no generation ${id}.`, { id, httpStatus: 404 });
    const waitMs = Math.max(seen.retryAfterMs ?? 0, backoffMs(failures));
    if (clock.now() + waitMs > end) {
      throw new VidgenError("network", `Could not get an answer: ${seen.reason}. Nothing was charged.`, {
        id,
        httpStatus: seen.httpStatus,
        hint: doctorHint,
      });
    }
    onNote(`No answer (${seen.reason}); trying again in ${Math.ceil(waitMs / 1000)} s.`);
    await clock.sleep(waitMs, signal);
  }
}

function readLook(reply: Reply, id: string, clock: Clock): Look {
  const { status } = reply;
  if (status === 404) return { kind: "missing" };
  if (isTransient(status)) {
    const after = retryAfterMs(reply.retryAfter, clock.date());
    return { kind: "trouble", reason: describeReply(reply), httpStatus: status, retryAfterMs: after };
  }
  if (status >= 300) throw refusal(reply).with({ id });
  const generation = reply.cut === undefined ? readGeneration(reply.json, id) : undefined;
  if (generation?.id === id) return { kind: "generation", generation };
  if (saysNo(reply.json) && errorText(reply.json) !== undefined) throw refusal(reply).with({ id });
  return { kind: "trouble", reason: `an unusable answer (HTTP ${status})`, httpStatus: status };
}

/** The error for an answer that says no, by its HTTP status and its text. */
export function refusal(reply: Reply): VidgenError {
  const said = describeReply(reply);
  const httpStatus = reply.status;
  if (lacksCredits(reply)) {
    const hint = "Add credits to the account, then try again; `vidgen list` shows what each start had left.";
    return new VidgenError("credits", `Credits are lacking: ${said}`, { httpStatus, hint });
  }
  if (httpStatus === 401 || httpStatus === 403) {
    const hint = "Check the key: `vidgen login` saves another, VIDGEN_API_KEY overrides it.";
    return new VidgenError("auth", `The service does not accept the API key: ${said}`, { httpStatus, hint });
  }
  if (httpStatus >= 300 && httpStatus < 400) {
    const hint = "Redirects are never followed with a key: check the base URL.";
    return new VidgenError("rejected", `The service redirects elsewhere: ${said}`, { httpStatus, hint });
  }
  return new VidgenError("rejected", `The service refused the request: ${said}`, { httpStatus });
}

function lacksCredits(reply: Reply): boolean {
  if (reply.status === 402) return true;
  // Codes such as "insufficient_credits" count as words too.
  const text = [errorText(reply.json), errorCode(reply.json)].join(" ").replaceAll("_", " ");
  return /\b(insufficient|not enough|no|out of|lack\w*)\b.{0,20}\bcredits?\b|\bcredits?\b.{0,30}\b(insufficient|exhausted|used up|run out|too low|lack\w*)\b/i.test(
    text,
  );
}

function errorCode(json: unknown): string | undefined {
  if (!isRecord(json)) return undefined;
  return typeof json.code === "string" ? json.code : errorCode(json.error);
}

/** An answer in a few words: what it says, if that is readable, and its HTTP status. */
export function describeReply(reply: Reply): string {
  const said = errorText(reply.json) ?? (looksReadable(reply.text) ? errorText(reply.text) : undefined);
  return said === undefined ? `HTTP ${reply.status}` : `${shorten(said)} (HTTP ${reply.status})`;
}

/** Cuts between two words: half of a key would not be recognised as one, and be shown. */
function shorten(text: string): string {
  return text.length <= 500 ? text : `${text.slice(0, 500).replace(/\S*$/, "")}…`;
}

function looksReadable(text: string): boolean {
  const start = text.trim();
  return start !== "" && start.length <= 500 && !/^[<[{"]/.test(start);
}

/** A connection's failure in a few words. */
export function describeFailure(error: unknown): string {
  const message = error instanceof Error && error.message !== "" ? error.message : String(systemCode(error) ?? error);
  const code = systemCode(error);
  return code === undefined || message.includes(code) ? message : `${message} (${code})`;
}
