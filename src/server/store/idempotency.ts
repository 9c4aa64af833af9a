import { hash } from "node:crypto";
import { sortMembers } from "../../protocol/json.ts";

/**
 * Returns the key in an Idempotency-Key header: the value of a String of RFC 9651 (section 3.3.3), as the draft of the header requires, without its
 * parameters. Most clients send a key without quotes, which is returned as it was sent.
 */
export function parseKey(sent: string): string {
  const [, value] = /^"((?:[ !#-[\]-~]|\\["\\])*)" *(?:;.*)?$/.exec(sent) ?? [];
  return value?.replaceAll(/\\(.)/g, "$1") ?? sent;
}

/**
 * Only the hashes of keys are stored, because an index entry has little room. `stored` is that of the parsed key. A use is found by those that are
 * `known`, in this order: of the key as it was sent, as processes before version 6 stored it, of the parsed key, and of that in quotes.
 */
export function hashesOfKey(sent: string): { stored: string; known: readonly string[] } {
  const key = parseKey(sent);
  const stored = hash("sha256", key);
  return { stored, known: [hash("sha256", sent), stored, hash("sha256", `"${key.replaceAll(/["\\]/g, "\\$&")}"`)] };
}

/** Only the hash of a body is stored, because a body may have 28 MB. Processes before version 6 did not sort its members. */
export function hashOfBody(body: string, isSorted: boolean): string {
  return hash("sha256", isSorted ? sortMembers(body).text : body);
}
