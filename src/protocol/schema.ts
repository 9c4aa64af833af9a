import * as z from "zod/mini";
import { usage } from "../errors.ts";
import { isSameId, isUsableId } from "./id.ts";
import { isRecord } from "./json.ts";

/** The interface's three states of a generation (section 3 of api.md). */
export const states = ["processing", "completed", "failed"] as const;

/**
 * What `vidgen serve` says in `error_code`, a field that the interface does not have, about some failures.
 * "credits": the account at the engine's provider has no credits. "unclear": it is unknown whether the engine
 * makes the video and charges for it. "not_submitted": no engine accepted it. "auth": the engine refuses its
 * key, so it was not submitted. "not_fetched": the engine made it, but its file cannot be used.
 */
export const failureCodes = ["credits", "unclear", "not_submitted", "auth", "not_fetched"] as const;
export type FailureCode = (typeof failureCodes)[number];

/**
 * The body of the start request (section 4.1 of api.md). Only `prompt` and `model` are always present; the
 * rest is sent unchanged.
 */
export type StartRequest = { prompt: string; model: string; [field: string]: unknown };

/** A generation as any reply may show it (section 2.1 of api.md): the start reply's `data`, the status reply, the callback. */
export type WireGeneration = {
  /** The id that the service assigned. */
  id: string;
  /** "processing", "completed", "failed", or the service's own word. */
  status: string;
  /** The URL of the video, once it is completed. */
  video_url?: string | null | undefined;
  /** The URL of a thumbnail. */
  thumbnail_url?: string | null | undefined;
  /** When it was started, as stated by the service. */
  created_at?: string | null | undefined;
  /** When it was completed, as stated by the service. */
  completed_at?: string | null | undefined;
  /** The model. */
  model?: string | null | undefined;
  /** The prompt. */
  prompt?: string | null | undefined;
  /** Why it failed: a text, or an object of the service. */
  error?: unknown;
  /** Other fields of the service. */
  [field: string]: unknown;
};

/** An optional field: a value of the wrong type becomes null. */
const optionalText = z.catch(z.nullish(z.string()), null);

/** Checks only `id` and `status` strictly; other fields are kept. */
const generationSchema: z.ZodMiniType<WireGeneration> = z.looseObject({
  id: z.string().check(z.refine(isUsableId)),
  status: z.string(),
  video_url: optionalText,
  thumbnail_url: optionalText,
  created_at: optionalText,
  completed_at: optionalText,
  model: optionalText,
  prompt: optionalText,
});

/** Reads a generation, without values of the wrong type; `undefined` without a usable id and a status. */
export function asGeneration(value: unknown): WireGeneration | undefined {
  return generationSchema.safeParse(value).data;
}

/** The service's reply to a start (section 2.3 of api.md). */
export type AcceptedStart = {
  generation: WireGeneration;
  /** Its cost, if the service states it, as `vidgen serve` does; not part of the interface. */
  credits_charged?: number | undefined;
  /** Without a stated cost: by how much the balance fell, if known. Others may have spent too. */
  balance_fell?: number | undefined;
  remaining_credits: number | undefined;
  /** What the request may not have meant, such as a field without effect, as `vidgen serve` says; not part of the interface. */
  warnings?: readonly string[] | undefined;
};

/**
 * Reads the status reply (section 4.2 of api.md) about `askedId`, flat or inside `data`; `undefined` if it is
 * neither, or about another generation. A reply without an id counts as one about `askedId`.
 */
export function readGeneration(json: unknown, askedId: string): WireGeneration | undefined {
  for (const candidate of isRecord(json) ? [json, json.data] : []) {
    if (!isRecord(candidate) || !isAbout(askedId, candidate.id)) continue;
    const generation = asGeneration({ ...candidate, id: askedId });
    if (generation) return generation;
  }
  return undefined;
}

/** Whether a reply is about the id. A numeric id may have lost digits in JavaScript. */
function isAbout(askedId: string, id: unknown): boolean {
  if (typeof id === "number") return Number(askedId) === id;
  return id === undefined || (typeof id === "string" && isSameId(id, askedId));
}

/**
 * Some services deviate from the interface: a state in upper case, or another word for success with a URL, becomes the
 * interface's word, and a relative URL of the video is resolved against the base URL.
 */
export function normalizeGeneration(generation: WireGeneration, baseUrl: string): WireGeneration {
  const video_url = resolveUrl(generation.video_url, `${baseUrl}/`);
  const word = generation.status.toLowerCase();
  const isSuccess = ["succeeded", "success"].includes(word) && Boolean(video_url);
  const state = isSuccess ? "completed" : states.find((state) => state === word);
  return { ...generation, video_url, status: state ?? generation.status };
}

/** The `error` of a cancelled generation. */
export const cancelledError = "cancelled";

/** After it: the engine whose own status said so, with its reason; or the engine that could not be asked. */
const cancelledErrors = /^cancelled( at \S+(: .*)?| while it waited for .*)?$/s;

/** Whether an `error` is that of a cancelled generation, as `vidgen serve` writes it. A service may begin its own words about a failure so, too. */
export function isCancelledError(error: string | null | undefined): boolean {
  return typeof error === "string" && cancelledErrors.test(error);
}

/**
 * The state of a failed generation in a reply that begins with other text, which may be somebody else's: it
 * counts after three equal polls.
 */
export const doubtfulFailure = "failed, in a reply after other text";

/**
 * Other services' words for the end of a generation, in lower case. They are not in the interface, and may
 * come too early, so a word counts only after three polls have returned it.
 */
const foreignStates: ReadonlyMap<string, "completed" | "failed"> = new Map([
  ...["done", "complete", "finished", "ready", "succeed"].map((word) => [word, "completed"] as const),
  ...["fail", "failure", "error", "expired", "cancelled", "canceled", "nsfw", doubtfulFailure].map(
    (word) => [word, "failed"] as const,
  ),
]);

/** The meaning of another service's word for a state; `undefined` if the generation may be running. */
export function meaningOf({ status }: WireGeneration): "completed" | "failed" | undefined {
  return foreignStates.get(status.trim().toLowerCase());
}

/**
 * Fields with the reason of a failure at various services, in lower case and without "_"; the first one with
 * a readable text counts.
 */
const reasonFields = [
  "error",
  "failreason",
  "failurereason",
  "failedreason",
  "failmsg",
  "failmessage",
  "errormessage",
  "errormsg",
  "reason",
  "reasons",
  "errors",
  "failure",
  "taskstatusmsg",
  "statusmessage",
  "detail",
  "message",
];

/** Why a generation failed, with all reasons of a list; `undefined` if it does not say. */
export function failureReason(generation: object): string | undefined {
  const valuesByName = new Map(
    Object.entries(generation).map(([name, value]) => [name.replaceAll("_", "").toLowerCase(), value]),
  );
  const texts = reasonFields.map((field) => {
    const reasons = [valuesByName.get(field)].flat().map(errorText);
    return errorText(reasons.filter((reason) => reason !== undefined).join("; "));
  });
  return texts.find((text) => text !== undefined);
}

function resolveUrl(url: WireGeneration["video_url"], base: string): WireGeneration["video_url"] {
  // A data: URL may have 90 MB, and is not parsed.
  if (!url?.trim() || /^data:/i.test(url) || URL.canParse(url) || !URL.canParse(url, base)) return url;
  return new URL(url, base).href;
}

/** Whether a reply has `success: false`, whatever its HTTP status. */
export function saysNo(json: unknown): boolean {
  return isRecord(json) && json.success === false;
}

/** Messages of a service are cut to this length. */
const maxErrorText = 2_000;

/** The first readable text of an error reply, in any of the shapes that services use; `undefined` if there is none. */
export function errorText(json: unknown): string | undefined {
  if (typeof json === "string") {
    const text = json.replace(/\s+/g, " ").trim();
    return (text.length > maxErrorText ? `${text.slice(0, maxErrorText)}…` : text) || undefined;
  }
  if (Array.isArray(json)) return errorText(json[0]);
  if (!isRecord(json)) return undefined;
  // FastAPI's 422: `loc` is the path of the field, such as ["body", "duration"].
  if (Array.isArray(json.loc) && typeof json.msg === "string") {
    const field = json.loc.filter((part) => part !== "body").join(".");
    return errorText(field === "" ? json.msg : `${field}: ${json.msg}`);
  }
  for (const field of ["error", "message", "detail", "msg", "title", "code", "errors", "reason"]) {
    const found = errorText(json[field]);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns the prompt unchanged. Throws `usage` if it is only white space. */
export function checkPrompt(text: string): string {
  if (text.trim() === "") throw usage("The prompt is empty.");
  return text;
}

/** A completed generation with the URL of its video. */
export type CompletedGeneration = { generation: WireGeneration; videoUrl: string };

/** The charge of an engine of `vidgen serve`, in USD; not part of the interface. */
export function readCost({ cost }: WireGeneration): number | undefined {
  return typeof cost === "number" && Number.isFinite(cost) && cost >= 0 ? cost : undefined;
}
