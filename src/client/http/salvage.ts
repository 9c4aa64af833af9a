import { splitVideoData } from "../../protocol/data-url.ts";
import { isUsableId } from "../../protocol/id.ts";
import { isRecord, parseJson, parseReplyJson } from "../../protocol/json.ts";
import { type AcceptedStart, asGeneration, readGeneration, type StartRequest } from "../../protocol/schema.ts";
import { shorten } from "../../protocol/text.ts";
import type { Reply } from "./reply.ts";

/** The readable part of a start reply, which may be cut off. `saysNo` is set for `"success": false`. */
export type StartReply = { started: AcceptedStart | undefined; saysNo: boolean };

/**
 * Reads a start reply that may be complete, cut off anywhere, or have values that are not JSON, such as NaN.
 * The id is taken only from `data`, since an echoed prompt may contain anything, and unchanged, even if it is
 * a number. A cut id is not used.
 */
export function readStartReply(text: string): StartReply {
  const { id, success, remaining_credits, credits_charged } = scanStartReply(text);
  const saysNo = success === "false";
  if (id === undefined || !isUsableId(id)) return { started: undefined, saysNo };
  const json = parseReplyJson(text);
  const data = isRecord(json) && isRecord(json.data) ? json.data : {};
  const status = typeof data.status === "string" ? data.status : "processing";
  // If the other fields cannot be read, only the id and the status are used.
  const { generation } = splitVideoData(asGeneration({ ...data, id, status }) ?? { id, status });
  const started: AcceptedStart = { generation, remaining_credits: toNumber(remaining_credits) };
  const charged = toNumber(credits_charged);
  if (charged !== undefined && charged >= 0) started.credits_charged = charged;
  const warnings = isRecord(json) ? readWarnings(json.warnings) : [];
  if (warnings.length > 0) started.warnings = warnings;
  return { started, saysNo };
}

/** At most ten short texts: a service may use the name for anything. */
function readWarnings(value: unknown): string[] {
  const texts = Array.isArray(value) ? value.filter((each) => typeof each === "string" && each.trim() !== "") : [];
  return texts.slice(0, 10).map((text) => shorten(text, 500));
}

function toNumber(word = ""): number | undefined {
  return word === "" ? undefined : Number(word);
}

/** The values of the needed fields, without quotes. */
type ScannedReply = { id?: string; success?: string; remaining_credits?: string; credits_charged?: string };

/** A string (without its closing quote if the text is cut), a bracket, a colon, a comma, or another word such as a number. */
const tokens = /"[^"\\]*(?:\\.[^"\\]*)*("?)|[{}[\]:,]|[^\s{}[\]:,"]+/gs;

/**
 * An open bracket. `name` is the last string where a key may be, and becomes `key`, the key of the current
 * member, at its colon.
 */
type Level = { isObject: boolean; name?: string | undefined; key?: string | undefined };

function scanStartReply(text: string): ScannedReply {
  const found: ScannedReply = {};
  const levels: Level[] = [];
  for (const { 0: token, 1: quote, index } of text.matchAll(tokens)) {
    const level = levels.at(-1);
    if (token === "{" || token === "[") levels.push({ isObject: token === "{" });
    else if (level === undefined) return {};
    else if (token === "}" || token === "]") {
      levels.pop();
      // Text after the first JSON document is not part of the reply.
      if (levels.length === 0) return found;
    } else if (token === ",") {
      level.name = level.key = undefined;
    } else if (token === ":") level.key = level.name;
    else {
      // A word at the end of the text may be cut.
      const isWhole = token.startsWith('"') ? quote === '"' : index + token.length < text.length;
      if (!isWhole) return found;
      if (level.isObject && level.key === undefined) level.name = readWord(token);
      else recordToken(token, levels, found);
    }
  }
  return found;
}

function recordToken(token: string, levels: readonly Level[], found: ScannedReply): void {
  // The reply itself, its `data`, and anything inside of that.
  const [top, second, third] = levels;
  if (!top?.isObject || third !== undefined) return;
  const isId = second?.isObject && top.key === "data" && second.key === "id";
  if (isId && (token.startsWith('"') || isNumber(token))) found.id = readWord(token);
  if (second !== undefined) return;
  if (top.key === "success") found.success = token;
  if (top.key === "remaining_credits" && isNumber(token)) found.remaining_credits = token;
  if (top.key === "credits_charged" && isNumber(token)) found.credits_charged = token;
}

function isNumber(token: string): boolean {
  return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(token);
}

/** The value of a JSON string; "" if it is not valid JSON. Other words are unchanged. */
function readWord(token: string): string {
  return token.startsWith('"') ? String(parseJson(token) ?? "") : token;
}

/**
 * The reply to a start, also where its JSON follows other text, such as a notice of PHP. An id that occurs in
 * the request is not used, because the text may be an echo of it.
 */
export function unwrapStart(reply: Reply, request: StartRequest): Reply {
  if (readStartReply(reply.text).started) return reply;
  const body = JSON.stringify(request);
  const isEcho = (id: string) => body.includes(id) || textsIn(request).some((text) => text.includes(id));
  const unwrapped = unwrap(reply, (text) => readStartReply(text).started !== undefined);
  const id = unwrapped && readStartReply(unwrapped.text).started?.generation.id;
  return unwrapped === undefined || id === undefined || isEcho(id) ? reply : unwrapped;
}

/** The reply to a poll, if it follows other text and names the asked id and a status. */
export function unwrapPoll(reply: Reply, askedId: string): Reply | undefined {
  const isAbout = (json: unknown) =>
    isRecord(json) && json.id !== undefined && readGeneration(json, askedId) !== undefined;
  return unwrap(reply, (_, json) => isAbout(json) || (isRecord(json) && isAbout(json.data)));
}

function textsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [String(value)];
  return Object.entries(value).flatMap(([name, inner]) => [name, ...textsIn(inner)]);
}

type HasShape = (text: string, json: unknown) => boolean;

/** The longest text, and the largest number of places where a document may begin, that is searched before a reply. */
const maxLeadingText = 64_000;
const maxDocuments = 1_000;

function unwrap(reply: Reply, hasShape: HasShape): Reply | undefined {
  if (reply.cut !== undefined || reply.json !== undefined) return undefined;
  const text = findTail(reply.text, hasShape);
  return text === undefined ? undefined : { ...reply, text, json: parseReplyJson(text) };
}

/** The one document of this shape in a text that is not a page: it must reach to the end of the text. */
function findTail(text: string, hasShape: HasShape): string | undefined {
  if (!text.trimEnd().endsWith("}")) return undefined;
  const brackets = text.slice(0, maxLeadingText).matchAll(/\{/g);
  const begins = Array.from(brackets, ({ index }) => index).slice(0, maxDocuments);
  const isShape = (document: string) => {
    const json = parseReplyJson(document);
    return json !== undefined && hasShape(document, json);
  };
  const begin = begins.find((index) => isShape(text.slice(index)));
  if (begin === undefined) return undefined;
  const before = text.slice(0, begin);
  const [firstTag = ""] = /<[!a-z][^>]*/i.exec(before.replace(/<!--.*?-->|<\?.*?\?>/gs, "")) ?? [];
  const isPage = /^<(?:!doctype|html)\b/i.test(firstTag);
  const hasOther = begins.some((index) => index < begin && isShape(documentAt(before, index)));
  return isPage || hasOther ? undefined : text.slice(begin);
}

/** The document that begins here: as far as the bracket that closes it. */
function documentAt(text: string, begin: number): string {
  let depth = 0;
  for (const { 0: token, index } of text.slice(begin).matchAll(tokens)) {
    if (token === "{" || token === "[") depth++;
    if ((token === "}" || token === "]") && --depth === 0) return text.slice(begin, begin + index + 1);
  }
  return "";
}
