import { basename } from "node:path";
import { usage } from "../errors.ts";

/** The prompt and the model that a file is named after. */
export type Words = { prompt?: string | undefined; model?: string | undefined };

/** All that a file is named after. */
export type Naming = Words & { id: string };

/** Such as "a-red-fox-runs-wan-2.5-1b4e28ba.mp4". Nothing in it can be a path, whatever the service sends as an id. */
export function fileName({ id, prompt, model }: Naming): string {
  const first = firstPart(id);
  const parts = [slug(prompt ?? "", 48), slug(model ?? "", 24), first].filter((part) => part !== "");
  return `${parts.length > 1 ? parts.join("-") : `vidgen-${first}`}.mp4`;
}

/** The first eight digits of a UUID; up to 40 letters and digits of any other id. */
function firstPart(id: string): string {
  if (/^[0-9a-f]{8}-[0-9a-f]{4}-/i.test(id)) return id.slice(0, 8);
  return id.replace(/[^A-Za-z0-9]+/g, "").slice(0, 40) || "video";
}

/** A word that can be a file's whole name: Windows treats some as devices, with any extension. An empty one becomes `fallback`. */
function safeWord(word: string, fallback: string): string {
  return /^(con|prn|aux|nul|com\d|lpt\d)$/i.test(word) ? `${word}_` : word || fallback;
}

/** Lower-case words joined by hyphens, cut between two of them where they are longer than `maxBytes`. */
function slug(text: string, maxBytes: number): string {
  const words = text
    .normalize("NFC")
    .toLowerCase()
    // Combining marks without a letter, which are invisible.
    .replace(/(?<![\p{L}\p{N}\p{M}])\p{M}+/gu, "")
    .replace(/[^\p{L}\p{N}\p{M}.]+/gu, "-");
  const whole = words
    .replace(/\.+(?=-|$)|(?<=-|^)\.+/g, "")
    .replace(/-+/g, "-")
    .replace(/^-|-$/g, "");
  if (byteLength(whole) <= maxBytes) return whole;
  let cut = "";
  for (const letter of whole) {
    if (byteLength(cut + letter) > maxBytes) break;
    cut += letter;
  }
  return cut.replace(/-[^-]*$/, "");
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}

const names = ["slug", "model", "id", "date", "n"] as const;

/** What a template for `-o` may hold in braces. */
export type Name = (typeof names)[number];

const anyName = names.join("|");

const hint = `The placeholders are ${names.map((name) => `{${name}}`).join(", ")}.`;

/** Throws `usage` for an unknown name in braces, for a missing brace, and for `{id}` in a folder's name: the folder must exist before the start. */
export function checkTemplate(place: string): void {
  for (const [, name = ""] of place.matchAll(/\{([^{}]*)\}/g)) {
    if (names.some((known) => known === name)) continue;
    throw usage(`-o has an unknown placeholder {${name}}.`, hint);
  }
  const [, half] = new RegExp(`\\{(${anyName})\\b(?!\\})`).exec(place) ?? [];
  if (half !== undefined) throw usage(`-o has {${half} without a closing brace.`, hint);
  if (/\{id\}.*[/\\]/s.test(place))
    throw usage("-o accepts {id} only in the file name: the folder must exist before the generation is paid for.");
}

/** Whether two generations never get the same name. */
export function isDistinct(place: string): boolean {
  return /\{(id|n)\}/.test(place);
}

/** Replaces the names in braces that have a value, and leaves the others. The values must hold no path. */
export function fillIn(place: string, values: Partial<Record<Name, string>>): string {
  return place.replace(new RegExp(`\\{(${anyName})\\}`, "g"), (whole, name: Name) => values[name] ?? whole);
}

/** The longest name of a file, in bytes, on all usual file systems. */
const maxNameBytes = 255;
const maxIdLength = 64;

/**
 * Fills in `{slug}`, `{model}` and `{date}`, a day such as "2026-01-31". Throws `usage` where the name has no room for `{id}`, which is known
 * only once the generation is paid for.
 */
export function fillWords(place: string, { prompt = "", model = "" }: Words, date: string): string {
  const words = { slug: safeWord(slug(prompt, 48), "video"), model: safeWord(slug(model, 24), "model") };
  const filled = fillIn(place, { ...words, date });
  const longest = basename(fillIn(filled, { id: "x".repeat(maxIdLength) }));
  if (filled.includes("{id}") && byteLength(`${longest}.part`) > maxNameBytes)
    throw usage("The file name in -o is too long: more than 255 bytes with {id} and .part.");
  return filled;
}

/** Fills in `{id}`, without the characters that could make it a path. */
export function fillId(place: string, id: string): string {
  const word = id
    .replace(/[^A-Za-z0-9-]+/g, "")
    .replace(/^-+|-+$/g, "")
    .slice(0, maxIdLength);
  return fillIn(place, { id: safeWord(word, "video") });
}
