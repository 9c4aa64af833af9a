import * as z from "zod";
import type { HttpResponse } from "../../../io.ts";
import { readDataUrl } from "../../../protocol/data-url.ts";
import { isRecord, parseJson, parseReplyJson } from "../../../protocol/json.ts";
import { failureReason } from "../../../protocol/schema.ts";
import { retryAfterMs } from "../../../protocol/status.ts";
import { isDataUrl } from "../../../protocol/url.ts";
import type { FailureKind } from "../../store/generations.ts";

/** A job as a server of `/v1/videos` reports it. Unknown statuses count as running. */
export type UpstreamJob = {
  /** Some servers give the same job another id at each poll; the first one stays valid. */
  id: string | undefined;
  status: string;
  progress: number | undefined;
  /** The address of the video, when it is not at the job's own `/content`. */
  url: string | undefined;
  /** Whether the server says that the video is not an .mp4. */
  isNotMp4?: boolean | undefined;
  error: string | undefined;
  /** What has failed, if the reply shows that. */
  failure?: FailureKind | undefined;
  /** The server's code for the error. */
  code?: string | undefined;
  /** What the provider has charged, in USD. */
  cost?: number | undefined;
  /** When the job was completed, and until when its video is kept, in seconds since 1970. */
  completedAt?: number | undefined;
  expiresAt?: number | undefined;
  /** Why a completed job has no video to download, where its server shows that. */
  noFileReason?: string | undefined;
};

/** A reply whose body was read. */
export type ServerReply = {
  status: number;
  text: string;
  json: unknown;
  /** How long the server asks to wait, in milliseconds. */
  retryAfterMs?: number | undefined;
  /** Whether it asks for a name and a password (Basic), as a proxy does. */
  asksForBasic?: boolean;
};

const maxReplyBytes = 1_000_000;
const partBytes = 1_000_000;

/** How long a reply may be, by default 1 MB, and what is called for each megabyte. */
export type PartOptions = { maxBytes?: number | undefined; onPart?: (() => void) | undefined };

export type ReadReplyOptions = PartOptions & {
  secret?: string | undefined;
  /** The current date, for a Retry-After that is a date. */
  date?: Date | undefined;
};

/**
 * Reads a reply to its end and removes `secret` from its text. Calls `onPart` for each megabyte. Rejects when the reply breaks off or is longer than
 * `maxBytes` (`isTooLong`); the error has the reply's status as `replied`.
 */
export async function readReply(
  { status, headers, body }: Omit<HttpResponse, "text">,
  { maxBytes = maxReplyBytes, onPart, secret, date = new Date() }: ReadReplyOptions = {},
): Promise<ServerReply> {
  const waitMs = retryAfterMs(headers.get("Retry-After"), date);
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of body ?? []) {
      if (Math.floor((length + chunk.byteLength) / partBytes) > Math.floor(length / partBytes)) onPart?.();
      length += chunk.byteLength;
      if (length > maxBytes)
        throw Object.assign(new Error(`its reply is longer than ${maxBytes / 1_000_000} MB`), { isTooLong: true });
      chunks.push(chunk);
    }
  } catch (error) {
    throw Object.assign(error instanceof Error ? error : new Error(String(error)), { replied: status });
  }
  // Some servers send a byte order mark, which JSON does not allow.
  const whole = Buffer.concat(chunks)
    .toString()
    .replace(/^\uFEFF/, "");
  // A shorter text is not a real key, and may be part of ordinary words.
  const text = secret === undefined || secret.length < 8 ? whole : whole.replaceAll(secret, "[key]");
  const asksForBasic = /^basic\b/i.test(headers.get("WWW-Authenticate") ?? "");
  const optional = { ...(waitMs !== undefined && { retryAfterMs: waitMs }), ...(asksForBasic && { asksForBasic }) };
  return { status, text, json: parseReplyJson(text), ...optional };
}

/** A value that does not match the schema counts as missing. */
export const optional = <Schema extends z.ZodType>(schema: Schema) => schema.optional().catch(undefined);
/** The id becomes part of a path, where "." and ".." are folders. JSON.parse rounds a number that is too large, to another job's id. */
const idSchema = z.union([z.string().regex(/^(?!\.{0,2}$)\P{Cs}*$/su), z.int().transform(String)]);
const addressSchema = z.string().refine((text) => isDataUrl(text) || URL.canParse(text, "http://server/"));

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

/**
 * `vidgen serve` reports these two ends of a job by an error code, because the API has no status for them: a cancelled job, and a job that its engine
 * may still be running.
 */
const endCodeSchema = z.object({ code: z.enum(["cancelled", "unclear"]) });

/** Finds a job in a reply of any status, because some servers answer the status of a failed job with HTTP 4xx or 5xx. */
export function findJob(reply: ServerReply): UpstreamJob | undefined {
  const { json } = reply;
  const parsed = jobSchema.safeParse(json);
  if (!parsed.success || (parsed.data.id === undefined && parsed.data.object !== "video")) return undefined;
  const { id, status, progress, url, error, completed_at: completedAt, expires_at: expiresAt, usage } = parsed.data;
  const endStatus = endCodeSchema.safeParse(error).data?.code ?? status;
  return {
    id,
    status: endStatus,
    progress,
    url,
    error: findMessage(error) ?? (isRecord(json) ? clean(failureReason(json) ?? "") || undefined : undefined),
    completedAt,
    expiresAt,
    cost: usage?.cost,
    failure: findFailure(reply),
    code: findCode(error),
  };
}

/** How PyTorch begins its message when the GPU, or the machine, has too little memory. */
const outOfMemoryWords =
  /^((torch\.)?(cuda\.)?OutOfMemoryError\b|(CUDA|HIP|MPS)( error:| backend)? out of memory\b|\[enforce fail at \S+ [^:]*DefaultCPUAllocator: can't allocate memory)/i;

/** Whether an error that begins with these words says that the engine has too little memory. A refusal may quote them, but not begin with them. */
export function isOutOfMemory(words: string): boolean {
  return outOfMemoryWords.test(words);
}

/** Returns what a reply about a failed job, or a refused create, says has failed. */
export function findFailure({ json }: Pick<ServerReply, "json">): FailureKind | undefined {
  const error = isRecord(json) && isRecord(json.error) ? json.error : json;
  if (isOutOfMemory(findMessage(isRecord(json) ? (json.error ?? json) : json) ?? "")) return "memory";
  return isAboutRequest({ json: error }) ? "refused" : undefined;
}

/** Whether an error is the server's own words about a job. A proxy's 404 says nothing about the job. */
export function isAboutJob({ json }: ServerReply): boolean {
  return /\b(video|generation|job|task)s?\b/i.test(findMessage(json) ?? "");
}

/** How servers of `/v1/videos` refuse a create for something else than its prompt. */
const refusals: readonly [RegExp, FailureKind][] = [
  [/\b(input_reference|image_reference|images?)\b[^.]{0,40}\bnot supported\b/i, "start_image"],
  [/\b(invalid|unknown) model\b|\bmodel\b[^.]{0,80}\b(mismatch|not found|does not exist)\b/i, "model"],
  [/\b(must|should) (be|have|match)\b|\bvalidation error|\bfield required\b|\bout of range\b/i, "value"],
];

/** Whether the reply is not this server's: a proxy's 404, or a 404 of a server that does not have the endpoint. */
export function isOfOtherServer({ status, json }: ServerReply): boolean {
  const words = findMessage(json) ?? "";
  return (
    (status === 404 || status === 405) &&
    (words === "" || /^(not found|method not allowed|.*\broute\b.*)$/i.test(words))
  );
}

/** Returns what a refused create has failed for. The reply may repeat the prompt. */
export function findRefusal(reply: ServerReply, prompt = ""): FailureKind {
  const words = readComplaints(reply).join("\n");
  const [, kind] =
    refusals.find(([pattern]) => pattern.test(prompt === "" ? words : words.replaceAll(prompt, ""))) ?? [];
  return findFailure(reply) ?? kind ?? "refused";
}

const codeSchema = z.object({ code: z.union([z.string(), z.int()]).transform(String) });

/** Finds a server's code for an error, such as "content_policy_violation"; vLLM-Omni puts an HTTP status there. */
function findCode(error: unknown): string | undefined {
  const code = codeSchema.safeParse(error).data?.code;
  return code !== undefined && /^[\w.:-]{1,64}$/.test(code) ? code : undefined;
}

const createdSchema = z.object({ id: idSchema });

/** Finds the id of the job that a create started. */
export function findCreatedId({ json }: ServerReply): string | undefined {
  return createdSchema.safeParse(json).data?.id;
}

const finishedSchema = z.object({
  data: z.array(z.object({ url: optional(addressSchema), b64_json: optional(z.string()) })).min(1),
});

/** Finds the video in the reply of a server that generates it at once: its bytes, or its address. */
export function findFinishedVideo({ json }: ServerReply): { bytes: Uint8Array } | { address: string } | undefined {
  const { url, b64_json } = finishedSchema.safeParse(json).data?.data[0] ?? {};
  if (b64_json) return { bytes: Buffer.from(b64_json, "base64") };
  if (url === undefined) return undefined;
  return isDataUrl(url) ? { bytes: readDataUrl(url) } : { address: url };
}

const detailSchema = z.object({
  detail: z.array(z.object({ loc: z.array(z.union([z.string(), z.number()])), msg: z.string(), type: z.string() })),
});

const maxComplaints = 50;
/** Separates the complaints in one text: vLLM-Omni writes a list into the text, Pydantic one complaint per line. */
const complaintSeparator = /; |\}, ?\{|\n(?=\S)/;
/** The part of a complaint before the input that it quotes, such as the prompt. */
const partBeforeInput = /^(.*?)(?:input_value=|'input':|$)/s;

/** Returns the complaints of a refusal, each as a whole text. */
export function readComplaints({ json, text }: ServerReply): string[] {
  const list = detailSchema.safeParse(json).data?.detail;
  const complaints =
    list?.map(({ loc, msg, type }) => `${loc.join(" ")}: ${msg} (${type})`) ??
    (json === undefined ? [text] : textsIn(json)).flatMap((each) => each.split(complaintSeparator));
  return complaints
    .slice(0, maxComplaints)
    .map((each) => (partBeforeInput.exec(each)?.[1] ?? "").slice(0, maxComplaintLength));
}

const maxComplaintLength = 64_000;

/** Returns all texts in an error; `findMessage` returns the first one. */
function textsIn(value: unknown, depth = 0): string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null || depth > 4) return [];
  return Object.values(value).flatMap((each) => textsIn(each, depth + 1));
}

/** Whether a reply refuses the key. A proxy may answer 403 by itself even if the key is right; its page is not JSON. */
export function refusesKey({ status, json }: ServerReply): boolean {
  return status === 401 || (status === 403 && json !== undefined) || (status === 400 && hasNoDatabase(json));
}

/** Says that a server does not accept the key, or wants one. */
export function describeKeyRefusal({ status, asksForBasic }: ServerReply, { hasKey }: { hasKey: boolean }): string {
  const basic =
    "asks for a name and a password (Basic), which vidgen does not send: a Bearer key is needed, or a proxy without Basic";
  if (asksForBasic) return `${basic} (HTTP ${status})`;
  return `${hasKey ? "refuses the key" : "asks for a key"} (HTTP ${status})`;
}

/** LiteLLM looks up an unknown key in its database; without one, it reports only that the database is missing. */
function hasNoDatabase(json: unknown): boolean {
  return isRecord(json) && isRecord(json.error) && json.error.type === "no_db_connection";
}

/** The fields in which OpenRouter and others say why they refuse a prompt, beside the message or in it. */
const moderationFields = ["reasons", "flagged_input"];
const moderationCodes =
  /^(content_(policy_violation|filter(ed)?|violation)|moderation_\w+|(input|prompt|output)_(blocked|flagged|moderation)|safety_\w+)$/i;
/** A refusal of a request names the request before the reason: "your account was suspended: content policy" is about the account. */
const moderationWords =
  /^[^.]{0,60}\b(content|prompt|input|image|request|generation|video)s?\b[^.]{0,80}\b(violat|flagged|moderat|unsafe|nsfw|prohibited|disallowed|inappropriate|sensitive|safety|guidelines)/i;
const accountWords =
  /\b(account|organi[sz]ation|team|user|key)\b[^.]{0,40}\b(suspended|disabled|banned|blocked|locked)\b/i;

/** Whether a refusal is about the content of one request, and not about the account or its key. */
export function isAboutRequest({ json }: Pick<ServerReply, "json">): boolean {
  const error = isRecord(json) && isRecord(json.error) ? json.error : json;
  if (!isRecord(error)) return false;
  const parts = [error, error.metadata].filter(isRecord);
  const hasField = parts.some((part) => moderationFields.some((field) => field in part));
  const codes = [error.code, error.type].filter((code) => typeof code === "string");
  const words = findMessage(json) ?? "";
  return (
    hasField ||
    codes.some((code) => moderationCodes.test(code)) ||
    (moderationWords.test(words) && !accountWords.test(words))
  );
}

/** Returns the code of the error in a reply, which is `{error: {code}}` or `{code}`. */
export function errorCodeOf({ json }: ServerReply): string | undefined {
  return findCode(isRecord(json) && isRecord(json.error) ? json.error : json);
}

/** Whether all of a job's fields for the address and the path of its video are null: SGLang replies so when it runs without an output path. */
export function statesNoFile({ json }: ServerReply): boolean {
  return isRecord(json) && ["url", "file_path", "file_paths"].every((name) => json[name] === null);
}

/** Whether LiteLLM returned an error of its upstream in place of the job: the job may be lost, but the error may also be a 401, 429 or 503. */
export function isUpstreamFault({ status, text }: ServerReply): boolean {
  return status === 500 && /\bvalidation errors? for VideoObject\b/.test(text);
}

/** Finds an address in the text of an error. */
export function findAddressIn({ json }: ServerReply): string | undefined {
  const { detail } = (json ?? {}) as { detail?: unknown };
  return typeof detail === "string"
    ? /https?:\/\/[^\s"'<>]*[^\s"'<>.,)]/.exec(detail.slice(0, maxCleaned))?.[0]
    : undefined;
}

/** Returns the message of a reply for people; at least its HTTP status. */
export function describeReply({ status, text, json }: ServerReply): string {
  const words = findMessage(json) ?? (json === undefined && !/^\s*</.test(text) && !isBinary(text) ? clean(text) : "");
  return words === "" ? `HTTP ${status}` : `HTTP ${status}: ${words}`;
}

/** Binary data, such as a video, is never printed. */
function isBinary(text: string): boolean {
  return /[\0\uFFFD]/.test(text.slice(0, maxCleaned));
}

const idFields = /^(\w+_)?(id|uuid)$/i;
const maxBeginning = 200;

/**
 * Returns the readable start of a reply that names no job: its message, then a field like an id, with which somebody may find the job at the server,
 * then its raw text.
 */
export function beginningOf(reply: ServerReply): string {
  const { json, text } = reply;
  const words = describeReply(reply);
  if (!isRecord(json)) return words;
  const id = findId(json);
  const beginning = clean(text).slice(0, maxBeginning);
  return [words, id, beginning].filter((part) => part !== undefined && part !== "").join("; ");
}

function findId(value: unknown, depth = 0): string | undefined {
  if (!isRecord(value) || depth > 3) return undefined;
  const idField = Object.entries(value).find(
    ([name, id]) => idFields.test(name) && ["string", "number"].includes(typeof id),
  );
  if (idField) return clean(`${idField[0]} ${idField[1]}`).slice(0, maxBeginning);
  return Object.values(value)
    .map((part) => findId(part, depth + 1))
    .find((id) => id !== undefined);
}

const pythonToken = /'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|\b(None|True|False)\b|,\s*(?=[)\]}])|[()]/gs;
const pythonEscape = /\\(?:x([\da-f]{2})|u([\da-f]{4})|(.))/gs;
const pythonValues: Readonly<Record<string, string>> = {
  None: "null",
  True: "true",
  False: "false",
  "(": "[",
  ")": "]",
};

/** Returns a dict or a list of Python as JSON: LiteLLM and FastAPI put such a text into a message. */
function fromPython(text: string): string {
  const readEscape = (_: string, hex?: string, unicode?: string, one?: string) =>
    one === undefined
      ? String.fromCharCode(Number.parseInt(hex ?? unicode ?? "", 16))
      : ({ n: "\n", t: "\t", r: "\r" }[one] ?? one);
  return text.replace(pythonToken, (token, single?: string, double?: string) => {
    const inside = single ?? double;
    return inside === undefined
      ? (pythonValues[token] ?? "")
      : JSON.stringify(inside.replace(pythonEscape, readEscape));
  });
}

const maxDepth = 8;
/** A longer text is not read as JSON. */
const maxJsonCharacters = 100_000;

/**
 * Finds the message in an error, which is a text, also with JSON in it, or an object: `{message}`, `{error: ...}`, `{detail: ...}`. OpenRouter puts
 * the message of the provider behind it into `metadata.raw`, beside a generic message of its own.
 */
function findMessage(error: unknown, depth = 0): string | undefined {
  if (depth > maxDepth) return undefined;
  if (typeof error === "string") {
    const [value = ""] = /^[{[].*|(?<=^Error code: \d+ - )\{.*/s.exec(error.slice(0, maxJsonCharacters)) ?? [];
    const json = parseJson(value) ?? parseJson(fromPython(value));
    return findMessage(json, depth + 1) ?? (clean(error) || undefined);
  }
  if (Array.isArray(error))
    return error.map((part) => findMessage(part, depth + 1)).find((words) => words !== undefined);
  if (!isRecord(error)) return undefined;
  const { message, msg, error: inner, detail, metadata, loc } = error;
  // FastAPI puts the name of the field beside the message.
  if (Array.isArray(loc) && typeof msg === "string")
    return clean(`${loc.filter((each) => each !== "body").join(".")}: ${msg}`);
  const { raw, provider_name: provider } = isRecord(metadata) ? metadata : {};
  const isPage = typeof raw === "string" && /^\s*</.test(raw);
  const deepest = isPage ? undefined : findMessage(raw, depth + 1);
  if (deepest !== undefined) return typeof provider === "string" ? clean(`${provider}: ${deepest}`) : deepest;
  for (const part of [message, msg, inner, detail]) {
    const words = findMessage(part, depth + 1);
    if (words !== undefined) return words;
  }
  return undefined;
}

const maxMessage = 500;
/** The maximum number of characters that are read, because an engine may send a megabyte. */
const maxCleaned = 4_000;

/** Returns the text on one line, without control characters, and without the queries of addresses, which may contain secrets. */
export function clean(text: string): string {
  const line = text
    .slice(0, maxCleaned)
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ")
    .replace(/(https?:\/\/[^\s"'?]+)\?[^\s"']*/g, "$1")
    .trim();
  return line.length > maxMessage ? `${line.slice(0, maxMessage)}…` : line;
}
