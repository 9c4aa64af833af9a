import { usage } from "../../errors.ts";

/** The trimmed key. Throws `usage` for characters that a header cannot contain. */
export function checkApiKey(text: string, name = "The API key"): string {
  const key = text.trim();
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw usage(key === "" ? `${name} is empty.` : `${name} contains a space or another invalid character.`);
}

/** Shorter texts are not hidden, because they are not real keys, and may be part of ordinary words. */
const minSecret = 8;

/**
 * Keeps secrets out of output and files: `redact` removes each secret that was passed to `hide` and not to `reveal`, also in its
 * encoded forms, in any letter case, and if `shorten` has cut it.
 */
export function createRedaction() {
  const formsBySecret = new Map<string, Form[]>();
  return {
    hide(secret: string): void {
      if (secret.length >= minSecret) formsBySecret.set(secret, formsOf(secret));
    },
    reveal(secret: string): void {
      formsBySecret.delete(secret);
    },
    redact: (text: string): string => [...formsBySecret.values()].flat().reduce(hideForm, text),
  };
}

/** A form of a secret, and the same in lower case, since URLs lower-case host names. */
type Form = { pattern: RegExp; lower: string };

function hideForm(text: string, { pattern, lower }: Form): string {
  const parts = text.replace(pattern, "[key]").split("…");
  return parts.map((part, i) => (i < parts.length - 1 ? hideBeginning(part, lower) : part)).join("…");
}

/** Hides the beginning of a secret at the end of a text, where `shorten` has cut it. */
function hideBeginning(text: string, lower: string): string {
  const end = text.slice(1 - lower.length).toLowerCase();
  for (let length = lower.length - 1; length >= minSecret; length--)
    if (end.endsWith(lower.slice(0, length))) return `${text.slice(0, -length)}[key]`;
  return text;
}

/** A copy of a JSON value with all texts redacted. */
export function redactValue<Value>(value: Value, redact: (text: string) => string): Value {
  const redactInner = (_: string, inner: unknown): unknown => {
    if (typeof inner === "string") return redact(inner);
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).map(([name, each]) => [redact(name), each]));
  };
  return JSON.parse(JSON.stringify(value, redactInner));
}

/** A secret without encoding, percent-encoded, in base64, and in JSON. */
function formsOf(secret: string): Form[] {
  const bytes = Buffer.from(secret);
  const encoded = [encodeURIComponent(secret), bytes.toString("base64"), bytes.toString("base64url")];
  const forms = new Set([secret, ...encoded, JSON.stringify(secret).slice(1, -1)]);
  const patternOf = (form: string) => new RegExp(form.replace(/[^\w]/g, "\\$&"), "gi");
  return [...forms].map((form) => ({ pattern: patternOf(form), lower: form.toLowerCase() }));
}
