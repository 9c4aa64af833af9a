import { isIP } from "node:net";
import { stripVTControlCharacters } from "node:util";
import { usage } from "../../errors.ts";

/** Returns the base URL without a slash at its end. Throws `usage` unless it is https or loopback: each request carries the key. */
export function checkBaseUrl(text: string, source: string): string {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined;
  if (url?.username || url?.password)
    throw usage(`${source} contains a user name or password; save the key with \`vidgen login\` instead.`);
  if (!url || !/^https?:$/.test(url.protocol)) {
    const guess = withScheme(text);
    const isGuess = guess !== text.trim();
    throw usage(`${source} is not an http(s) URL: ${text}`, isGuess ? `Did you mean ${guess}?` : undefined);
  }
  if (/[?#]/.test(url.href)) throw usage(`${source} must not contain ? or #: ${text}`);
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    throw usage(`${source} must be https, because the key is sent with each request: ${text}`);
  }
  const [endpoint] = /\/api\/(generate|generation-status)\/*$/.exec(url.pathname) ?? [];
  if (endpoint !== undefined)
    throw usage(
      `${source} ends with the path of an endpoint, which vidgen adds itself: ${text}`,
      `Use ${url.href.slice(0, -endpoint.length)}.`,
    );
  return url.href.replace(/\/+$/, "");
}

/** The address with the scheme that was left out: http for this machine itself, else https; others as they are. */
export function withScheme(text: string): string {
  const address = text.trim();
  if (address.includes("://") || !URL.canParse(`https://${address}`)) return address;
  const { hostname } = new URL(`https://${address}`);
  const isName = hostname.includes(".") || isLoopback(hostname);
  return isName ? `${isLoopback(hostname) ? "http" : "https"}://${address}` : address;
}

/** Whether a URL's host is this machine itself. */
export function isLoopback(hostname: string): boolean {
  if (hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]") return true;
  return isIP(hostname) === 4 && hostname.startsWith("127.");
}

/** The key without the white space around it. Throws `usage` for one with characters that a header cannot hold. */
export function checkApiKey(text: string, name = "The API key"): string {
  const key = text.trim();
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw usage(key === "" ? `${name} is empty.` : `${name} contains a space or another invalid character.`);
}

/** A shorter text is no real key, and may be part of many words. */
const minSecret = 8;

/**
 * Keeps secrets out of what is shown or written down: `redact` removes each one that `hide` was given and `reveal` was not, also in its
 * encoded forms, in any letter case, and where `shorten` has cut it.
 */
export function createRedaction() {
  const hidden = new Map<string, Form[]>();
  return {
    hide(secret: string): void {
      if (secret.length >= minSecret) hidden.set(secret, formsOf(secret));
    },
    reveal(secret: string): void {
      hidden.delete(secret);
    },
    redact: (text: string): string => [...hidden.values()].flat().reduce(hideForm, text),
  };
}

/** A form of a secret, and it in lower case. A host name is in lower case, whatever was typed. */
type Form = { pattern: RegExp; lower: string };

function hideForm(text: string, { pattern, lower }: Form): string {
  const parts = text.replace(pattern, "[key]").split("…");
  return parts.map((part, i) => (i < parts.length - 1 ? hideBeginning(part, lower) : part)).join("…");
}

/** The text without the beginning of a secret at its end. */
function hideBeginning(text: string, lower: string): string {
  const end = text.slice(1 - lower.length).toLowerCase();
  for (let length = lower.length - 1; length >= minSecret; length--)
    if (end.endsWith(lower.slice(0, length))) return `${text.slice(0, -length)}[key]`;
  return text;
}

/** A copy of a value of JSON with every text in it redacted. */
export function redactValue<Value>(value: Value, redact: (text: string) => string): Value {
  const redacted = (_: string, inner: unknown): unknown => {
    if (typeof inner === "string") return redact(inner);
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).map(([name, each]) => [redact(name), each]));
  };
  return JSON.parse(JSON.stringify(value, redacted));
}

/** A secret as it is, percent-encoded, in base64, and in JSON. */
function formsOf(secret: string): Form[] {
  const bytes = Buffer.from(secret);
  const encoded = [encodeURIComponent(secret), bytes.toString("base64"), bytes.toString("base64url")];
  const forms = new Set([secret, ...encoded, JSON.stringify(secret).slice(1, -1)]);
  const patternOf = (form: string) => new RegExp(form.replace(/[^\w]/g, "\\$&"), "gi");
  return [...forms].map((form) => ({ pattern: patternOf(form), lower: form.toLowerCase() }));
}

/** The text with what may be secret left out of the addresses in it: password, query, and the bytes of a `data:` address. */
export function shortenAddresses(text: string): string {
  return text
    .replace(/(https?:\/\/)[^\s/?#@]*@/gi, "$1")
    .replace(/(https?:\/\/[^\s?]*\?)\S*/gi, "$1...")
    .replace(/\b(data:[\w/+.;=-]*,)\S*/gi, "$1...");
}

/** A long text with its end cut off. A key that is cut is recognised by the "…" after it, and by nothing else. */
export function shorten(text: string, length = 60): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** Text without characters that move the cursor, colour a terminal or change the reading direction; newlines and tabs stay. */
export function plain(text: string): string {
  return stripVTControlCharacters(text).replace(/[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "");
}
