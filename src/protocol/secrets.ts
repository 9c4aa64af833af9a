import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { parseJson } from "./json.ts";

/** Whether a text may be secret whatever its field is: a URL with a query or a password, or the data of a `data:` URL. */
export function mayBeSecret(text: string): boolean {
  if (/^data:/i.test(text)) return true;
  if (!/^https?:/i.test(text) || /\s/.test(text) || !URL.canParse(text)) return false;
  const { username, password, search } = new URL(text);
  return username + password + search !== "";
}

/** What is kept in place of a secret: enough to recognize it. */
export function hashText(text: string): string {
  return `sha256:${createHash("sha256").update(text).digest("base64url")}`;
}

/** Whether a value was replaced by its hash. */
export function isHash(value: unknown): boolean {
  return typeof value === "string" && /^sha256:[\w-]{43}$/.test(value);
}

/** Whether a value is a hash, or contains one; a text of JSON counts as its value. */
export function holdsHash(value: unknown): boolean {
  const read = readText(value);
  return typeof read === "object" && read !== null ? Object.values(read).some(holdsHash) : isHash(value);
}

const secretNames =
  /(^|_)(token|secret|password|passwd|passphrase|credentials?|apikey|key|auth|authorization|cookie|signature)$/;

/**
 * Returns a field's value with hashes in place of what may be secret: texts and numbers under a name such as
 * "api_key", and the texts of `mayBeSecret`; also inside of objects, of lists and of texts of JSON. `mayHide`
 * is the rule for texts under other names.
 */
export function hideSecrets<Value>(name: string, value: Value, mayHide?: (text: string) => boolean): Value;
export function hideSecrets(name: string, value: unknown, mayHide = mayBeSecret): unknown {
  if (isHash(value) || value === "") return value;
  const isSecret = secretNames.test(toSnakeCase(name));
  const read = readText(value);
  if (typeof read === "object" && read !== null) {
    const hideInner = ([inner, part]: [string, unknown]) => [
      inner,
      hideSecrets(isSecret || Array.isArray(read) ? name : inner, part, mayHide),
    ];
    const hidden = Object.fromEntries(Object.entries(read).map(hideInner));
    const copy = Array.isArray(read) ? Object.values(hidden) : hidden;
    if (read === value) return copy;
    return isDeepStrictEqual(copy, read) ? value : JSON.stringify(copy);
  }
  const isHidden = isSecret ? /^(string|number)$/.test(typeof value) : typeof value === "string" && mayHide(value);
  return isHidden ? hashText(String(value)) : value;
}

/** The words of a name: numImages is num_images. */
export function toSnakeCase(name: string): string {
  return name
    .replace(/([a-z\d])([A-Z])/g, "$1_$2")
    .replace(/-/g, "_")
    .toLowerCase();
}

/** The value of a text of JSON; any other value is returned as it is. */
export function readText(value: unknown): unknown {
  return typeof value === "string" && /^\s*[{[]/.test(value) ? (parseJson(value) ?? value) : value;
}
