import { isRecord } from "./json.ts";
import { errorText } from "./schema.ts";

/**
 * The parts of a reply that show whether credits are missing. `retryAfter` is the Retry-After, unparsed or in
 * milliseconds; `prompt` is that of the request, which the reply may repeat.
 */
type RefusalReply = {
  status: number;
  json: unknown;
  retryAfter?: string | number | null | undefined;
  prompt?: string | undefined;
};

/** Codes that mean missing credits, in lower case. 1101 and 1102 are Kling's. */
const creditCodes =
  /^(insufficient[ _-]?(user[ _-]?)?(quota|balance|credits?|funds)|arrearage|exhausted[ _-]balance|1101|1102)$/;

/** Phrases about credits, balance and arrears. A bare "no credits" counts only before "left" or at the end. */
const shortagePatterns = [
  /\b(insufficient|not enough|out of|lack\w*|do(es)?(n't| not) have (enough|sufficient))\b.{0,20}\bcredits?\b/i,
  /\bcredits?\b.{0,30}\b(insufficient|not enough|not sufficient|exhausted|used up|run out|too low|lack\w*)\b/i,
  /\bused (up )?all (of )?(your |its |the )?(available )?credits\b/i,
  /\bno (\w+ )?credits?( left| remaining| available|\W*$)/im,
  /\b(insufficient|exhausted|not enough) ((account|user|wallet|credit|available|token) )?(balance|funds)\b(?! (of|between|in) (?!your|the account))/i,
  /\b(account|user|wallet|credit|your|available) (credit )?(balance|funds)( (is|are|has been|was))? (insufficient|not enough|not sufficient|exhausted|too low|used up|depleted)\b/i,
  /\binsufficient (user )?quota\b/i,
  /\barrears\b|\barrearage\b|\btop up your (account|balance|credits)\b/i,
  /(积分|點數|点数|余额|餘額|额度|資金|资金)(已)?(不足|不够|用尽|耗尽)|欠费|欠費/,
];

/** Phrases about billing. They do not count with 429, since providers use them for rate limits too. */
const billingPatterns = [
  /\bbilling (hard )?limit (has been )?(reached|exceeded)\b/i,
  /\b(requires?|enable|without) (an? )?(active )?billing\b/i,
  /\bbilling (is |has been |account is )?(not enabled|not active|inactive|disabled)\b/i,
  /\bpayment (is )?(required|overdue)\b/i,
  /\b(reached|exceeded) (your|its|the) (monthly )?spending limit\b/i,
  // Alibaba's code for a purchased or trial quota. With 429 it is a rate limit.
  /^AllocationQuota\b/,
];

/** Texts that are not about money: the credits of a film, and quoted text, since a refusal may repeat a prompt. */
const filmCreditsAndQuotes =
  /\b(end|closing|opening|title) credits\b|"[^"]*\s[^"]*"|“[^”]*”|(?<!\w)'[^']*\s[^']*'(?!\w)/gi;

/**
 * Whether a refusal says that the account is out of credits, in the words of any service or provider. The
 * client and the server's engines both use it. The status alone decides only for 402; the caller checks
 * whether the reply is a refusal at all.
 */
export function lacksCredits({ status, json, retryAfter, prompt = "" }: RefusalReply): boolean {
  if (status === 402) return true;
  // A rate limit states when it ends.
  if (status === 429 && (retryAfter || JSON.stringify(json ?? null).includes("google.rpc.RetryInfo"))) return false;
  const replyTexts = listTexts(json);
  if (replyTexts.some((text) => creditCodes.test(text.toLowerCase()))) return true;
  const patterns = status === 429 ? shortagePatterns : [...shortagePatterns, ...billingPatterns];
  const withoutPrompt = (text: string) => (prompt === "" ? text : text.replaceAll(prompt, ""));
  // Codes such as "insufficient_credits" are read as words.
  const phrases = replyTexts.map((text) => withoutPrompt(text).replaceAll("_", " ").replace(filmCreditsAndQuotes, ""));
  return phrases.some((phrase) => patterns.some((pattern) => pattern.test(phrase)));
}

const textFields = ["error", "message", "detail", "msg", "title", "type", "reason", "errors"];

/** All texts of an error reply, from all fields that services use, because the first may be a mere "Forbidden". */
function listTexts(json: unknown): string[] {
  if (typeof json === "string") return [errorText(json) ?? ""];
  if (Array.isArray(json)) return json.flatMap(listTexts);
  if (!isRecord(json)) return [];
  const code = typeof json.code === "object" ? "" : String(json.code ?? "");
  return [code, ...textFields.flatMap((field) => listTexts(json[field]))];
}
