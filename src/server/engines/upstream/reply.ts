import * as z from "zod";
import type { HttpResponse } from "../../../io.ts";
import { isRecord, parseJson } from "../../../protocol/json.ts";
import { failureReason } from "../../../protocol/schema.ts";
import { retryAfterMs } from "../../../protocol/status.ts";

/** A job as a server of `/v1/videos` tells it. Unknown statuses count as running. */
export type Job = {
  /** Some servers give the same job another id at each poll; the first one stays valid. */
  id: string | undefined;
  status: string;
  progress: number | undefined;
  /** Where the video is, when it is not at the job's own `/content`. */
  url: string | undefined;
  /** Whether its server says that the video is of another kind than .mp4. */
  isOtherKind?: boolean | undefined;
  error: string | undefined;
  /** What the server calls the error. */
  code?: string | undefined;
  /** What the provider has charged, in USD. */
  cost?: number | undefined;
  /** When it was made, and until when its video is kept, in seconds since 1970. */
  completedAt?: number | undefined;
  expiresAt?: number | undefined;
  /** Why a completed job has no video that could be fetched, where its server shows that. */
  noFileWords?: string | undefined;
};

/** A reply as far as it could be read. */
export type Reply = {
  status: number;
  text: string;
  json: unknown;
  /** How long it asks to wait, in milliseconds, where it does. */
  retryAfterMs?: number | undefined;
};

const maxReplyBytes = 1_000_000;

export type ReadOptions = {
  maxBytes?: number | undefined;
  secret?: string | undefined;
  /** The date now, for a Retry-After that names one. */
  date?: Date | undefined;
};

/** Reads a reply to its end, with `secret` left out. Rejects when that breaks off, or is longer than `maxBytes`. */
export async function readReply(
  { status, headers, body }: Omit<HttpResponse, "text">,
  { maxBytes = maxReplyBytes, secret, date = new Date() }: ReadOptions = {},
): Promise<Reply> {
  const waitMs = retryAfterMs(headers.get("Retry-After"), date);
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.byteLength;
    if (length > maxBytes) throw new Error(`its reply is longer than ${maxBytes / 1_000_000} MB`);
    chunks.push(chunk);
  }
  // A byte order mark, which JSON does not have, may come before it.
  const all = Buffer.concat(chunks)
    .toString()
    .replace(/^\uFEFF/, "");
  // A shorter text is no real key, and may be part of many words.
  const text = secret === undefined || secret.length < 8 ? all : all.replaceAll(secret, "[key]");
  return { status, text, json: parseJson(text), ...(waitMs !== undefined && { retryAfterMs: waitMs }) };
}

/** What is not as the schema wants it counts as left out. */
export const optional = <Schema extends z.ZodType>(schema: Schema) => schema.optional().catch(undefined);
/** A job is asked for by its id in a path, where "." and ".." are folders; JSON.parse rounds a number that is too large, to another job's id. */
const idSchema = z.union([z.string().regex(/^(?!\.{0,2}$)\P{Cs}*$/su), z.int().transform(String)]);
const addressSchema = z.string().refine((text) => URL.canParse(text, "http://server/"));

const jobSchema = z.object({
  id: optional(idSchema),
  object: optional(z.string()),
  status: z.string(),
  progress: optional(z.number().min(0).max(100)),
  url: optional(addressSchema),
  error: z.unknown().optional(),
  usage: optional(z.object({ cost: z.number().nonnegative() })),
  completed_at: optional(z.number()),
  expires_at: optional(z.number()),
});

/** So `vidgen serve` tells of a job that was cancelled there, or that its own engine may be making: the shape has no status for these. */
const codedSchema = z.object({ code: z.enum(["cancelled", "unclear"]) });

/** Finds a job in a reply of any status: some servers answer the status of a failed job with HTTP 4xx or 5xx. */
export function findJob({ json }: Reply): Job | undefined {
  const parsed = jobSchema.safeParse(json);
  if (!parsed.success || (parsed.data.id === undefined && parsed.data.object !== "video")) return undefined;
  const { id, status, progress, url, error, completed_at: completedAt, expires_at: expiresAt, usage } = parsed.data;
  const ended = codedSchema.safeParse(error).data?.code ?? status;
  return {
    id,
    status: ended,
    progress,
    url,
    error: findWords(error) ?? (isRecord(json) ? clean(failureReason(json) ?? "") || undefined : undefined),
    completedAt,
    expiresAt,
    cost: usage?.cost,
    code: findCode(error),
  };
}

const codeSchema = z.object({ code: z.union([z.string(), z.int()]).transform(String) });

/** Finds the word that a server has for an error, such as "content_policy_violation"; vLLM-Omni has an HTTP status there. */
function findCode(error: unknown): string | undefined {
  const code = codeSchema.safeParse(error).data?.code;
  return code !== undefined && /^[\w.:-]{1,64}$/.test(code) ? code : undefined;
}

const createdSchema = z.object({ id: idSchema });

/** Finds the name of the job that a create started. */
export function findCreated({ json }: Reply): string | undefined {
  return createdSchema.safeParse(json).data?.id;
}

const finishedSchema = z.object({
  data: z.array(z.object({ url: optional(addressSchema), b64_json: optional(z.string()) })).min(1),
});

/** Finds the video in the reply of a server that makes it at once: its bytes, or its address. */
export function findFinished({ json }: Reply): { bytes: Uint8Array } | { address: string } | undefined {
  const { url, b64_json } = finishedSchema.safeParse(json).data?.data[0] ?? {};
  if (b64_json) return { bytes: Buffer.from(b64_json, "base64") };
  return url === undefined ? undefined : { address: url };
}

const detailSchema = z.object({
  detail: z.array(z.object({ loc: z.array(z.union([z.string(), z.number()])), msg: z.string(), type: z.string() })),
});

const maxComplaints = 50;
/** Between the complaints of one text: those of vLLM-Omni are a list in a text, those of Pydantic have lines of their own. */
const betweenComplaints = /; |\}, ?\{|\n(?=\S)/;
/** What follows repeats what was sent, such as the prompt. */
const beforeInput = /^(.*?)(?:input_value=|'input':|$)/s;

/** Returns what a refusal complains of, whole: a text for each complaint. */
export function readComplaints({ json, text }: Reply): string[] {
  const list = detailSchema.safeParse(json).data?.detail;
  const complaints =
    list?.map(({ loc, msg, type }) => `${loc.join(" ")}: ${msg} (${type})`) ??
    (json === undefined ? [text] : textsIn(json)).flatMap((each) => each.split(betweenComplaints));
  return complaints.slice(0, maxComplaints).map((each) => (beforeInput.exec(each)?.[1] ?? "").slice(0, maxComplaint));
}

const maxComplaint = 64_000;

/** All texts of an error, where `findWords` looks for the first one. */
function textsIn(value: unknown, depth = 0): string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null || depth > 4) return [];
  return Object.values(value).flatMap((each) => textsIn(each, depth + 1));
}

/** Whether a reply refuses the key. A proxy may answer 403 by itself, also where the key is right: its page is no word of the server. */
export function refusesKey({ status, json }: Reply): boolean {
  return status === 401 || (status === 403 && json !== undefined) || (status === 400 && hasNoDatabase(json));
}

/** LiteLLM looks for a key that it does not know in its database, and says only that it has none. */
function hasNoDatabase(json: unknown): boolean {
  return isRecord(json) && isRecord(json.error) && json.error.type === "no_db_connection";
}

/** Where OpenRouter and others say why they refuse a prompt, beside the message or in it. */
const moderationFields = ["reasons", "flagged_input"];
const moderationCodes =
  /^(content_(policy_violation|filter(ed)?|violation)|moderation_\w+|(input|prompt|output)_(blocked|flagged|moderation)|safety_\w+)$/i;
/** What is asked for is named before what is wrong with it: "your account was suspended: content policy" is about the account. */
const moderationWords =
  /^[^.]{0,60}\b(content|prompt|input|image|request|generation|video)s?\b[^.]{0,80}\b(violat|flagged|moderat|unsafe|nsfw|prohibited|disallowed|inappropriate|sensitive|safety|guidelines)/i;
const accountWords =
  /\b(account|organi[sz]ation|team|user|key)\b[^.]{0,40}\b(suspended|disabled|banned|blocked|locked)\b/i;

/** Whether a refusal is about what one request asks for, and not about who asks. */
export function isAboutRequest({ json }: Reply): boolean {
  const error = isRecord(json) && isRecord(json.error) ? json.error : json;
  if (!isRecord(error)) return false;
  const places = [error, error.metadata].filter(isRecord);
  const hasField = places.some((place) => moderationFields.some((field) => field in place));
  const codes = [error.code, error.type].filter((code) => typeof code === "string");
  const words = findWords(json) ?? "";
  return (
    hasField ||
    codes.some((code) => moderationCodes.test(code)) ||
    (moderationWords.test(words) && !accountWords.test(words))
  );
}

/** What a server calls the error in a reply, which is `{error: {code}}` or `{code}`. */
export function errorCodeOf({ json }: Reply): string | undefined {
  return findCode(isRecord(json) && isRecord(json.error) ? json.error : json);
}

/** Whether a job tells of a place for its video, and of none there: SGLang's does without an output path. */
export function lacksFile({ json }: Reply): boolean {
  return isRecord(json) && ["url", "file_path", "file_paths"].every((name) => json[name] === null);
}

/** Whether LiteLLM has an error of its upstream for a job, which it takes for the job: a lost one, but also a 401, 429 or 503 there. */
export function isUpstreamFault({ status, text }: Reply): boolean {
  return status === 500 && /\bvalidation errors? for VideoObject\b/.test(text);
}

/** Finds an address in the text of an error. */
export function findAddressIn({ json }: Reply): string | undefined {
  const { detail } = (json ?? {}) as { detail?: unknown };
  return typeof detail === "string"
    ? /https?:\/\/[^\s"'<>]*[^\s"'<>.,)]/.exec(detail.slice(0, maxCleaned))?.[0]
    : undefined;
}

/** Returns what a reply says, for people; at least its HTTP status. */
export function wordsOf({ status, text, json }: Reply): string {
  const words = findWords(json) ?? (json === undefined && !/^\s*</.test(text) && !isBinary(text) ? clean(text) : "");
  return words === "" ? `HTTP ${status}` : `HTTP ${status}: ${words}`;
}

/** Bytes that are no text, such as those of a video, are never printed. */
function isBinary(text: string): boolean {
  return /[\0\uFFFD]/.test(text.slice(0, maxCleaned));
}

const idFields = /^(\w+_)?(id|uuid)$/i;
const maxBeginning = 200;

/**
 * The readable beginning of a reply that names no job, a field like an id first: somebody may look it up at the server. The words that it has
 * for people come before.
 */
export function beginningOf(reply: Reply): string {
  const { json, text } = reply;
  const words = wordsOf(reply);
  if (!isRecord(json)) return words;
  const id = findId(json);
  const beginning = clean(text).slice(0, maxBeginning);
  return [words, id, beginning].filter((part) => part !== undefined && part !== "").join("; ");
}

function findId(value: unknown, depth = 0): string | undefined {
  if (!isRecord(value) || depth > 3) return undefined;
  const own = Object.entries(value).find(
    ([name, id]) => idFields.test(name) && ["string", "number"].includes(typeof id),
  );
  if (own) return clean(`${own[0]} ${own[1]}`).slice(0, maxBeginning);
  return Object.values(value)
    .map((part) => findId(part, depth + 1))
    .find((id) => id !== undefined);
}

const maxDepth = 8;
/** A longer text is not read as JSON. */
const maxJsonCharacters = 100_000;

/**
 * Finds the text in an error, which is a text itself, also with JSON in it, or an object: `{message}`, `{error: ...}`, `{detail: ...}`. OpenRouter
 * has the words of the provider behind it in `metadata.raw`, and a message of its own that says nothing.
 */
function findWords(error: unknown, depth = 0): string | undefined {
  if (depth > maxDepth) return undefined;
  if (typeof error === "string") {
    const json = error.startsWith("{") && error.length <= maxJsonCharacters ? parseJson(error) : undefined;
    return findWords(json, depth + 1) ?? (clean(error) || undefined);
  }
  if (Array.isArray(error)) return error.map((part) => findWords(part, depth + 1)).find((words) => words !== undefined);
  if (!isRecord(error)) return undefined;
  const { message, msg, error: inner, detail, metadata, loc } = error;
  // FastAPI names the field beside what is wrong with it.
  if (Array.isArray(loc) && typeof msg === "string")
    return clean(`${loc.filter((each) => each !== "body").join(".")}: ${msg}`);
  const { raw, provider_name: provider } = isRecord(metadata) ? metadata : {};
  const isPage = typeof raw === "string" && /^\s*</.test(raw);
  const deepest = isPage ? undefined : findWords(raw, depth + 1);
  if (deepest !== undefined) return typeof provider === "string" ? clean(`${provider}: ${deepest}`) : deepest;
  for (const part of [message, msg, inner, detail]) {
    const words = findWords(part, depth + 1);
    if (words !== undefined) return words;
  }
  return undefined;
}

const maxWords = 500;
/** Only so much of a text is looked at: an engine may send a megabyte. */
const maxCleaned = 4_000;

/** The text on one line, without control characters, and without the queries of addresses, which may hold secrets. */
export function clean(text: string): string {
  const line = text
    .slice(0, maxCleaned)
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ")
    .replace(/(https?:\/\/[^\s"'?]+)\?[^\s"']*/g, "$1")
    .trim();
  return line.length > maxWords ? `${line.slice(0, maxWords)}…` : line;
}
