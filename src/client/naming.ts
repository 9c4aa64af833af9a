import { usage } from "../errors.ts";

/** What a file name is made of: the person's own words, and the first part of the id. */
export type Naming = { id: string; prompt?: string | undefined; model?: string | undefined };

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

/** Windows treats some names as devices, with any extension. */
function harmless(word: string, otherwise: string): string {
  return /^(con|prn|aux|nul|com\d|lpt\d)$/i.test(word) ? `${word}_` : word || otherwise;
}

function slug(text: string, longest: number): string {
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
  if (byteLength(whole) <= longest) return whole;
  let cut = "";
  for (const letter of whole) {
    if (byteLength(cut + letter) > longest) break;
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

const hint = `In braces it takes ${names.map((name) => `{${name}}`).join(", ")}.`;

/** Throws `usage` for an unknown name in braces, for a missing brace, and for `{id}` in the name of a folder: that has to exist before anything is paid. */
export function checkTemplate(place: string): void {
  for (const [, name = ""] of place.matchAll(/\{([^{}]*)\}/g)) {
    if (names.some((known) => known === name)) continue;
    throw usage(`-o knows no {${name}}.`, hint);
  }
  const [, half] = new RegExp(`\\{(${anyName})\\b(?!\\})`).exec(place) ?? [];
  if (half !== undefined) throw usage(`-o has {${half} without its other brace.`, hint);
  if (/\{id\}.*[/\\]/s.test(place))
    throw usage("-o takes {id} in the file's name alone: its folder has to be there before anything is paid for.");
}

/** Whether two generations never get the same name. */
export function isDistinct(place: string): boolean {
  return /\{(id|n)\}/.test(place);
}

/** Replaces the names that have a value; the other names stay. No value may be a path. */
export function fillIn(place: string, values: Partial<Record<Name, string>>): string {
  return place.replace(new RegExp(`\\{(${anyName})\\}`, "g"), (whole, name: Name) => values[name] ?? whole);
}

/** Fills in the prompt, the model and the day, such as "2026-01-31"; the id may not be known yet. */
export function fillWords(place: string, { prompt = "", model = "" }: Omit<Naming, "id">, date: string): string {
  const words = { slug: harmless(slug(prompt, 48), "video"), model: harmless(slug(model, 24), "model") };
  return fillIn(place, { ...words, date });
}

/** Fills in the id, without anything that could be a path. */
export function fillId(place: string, id: string): string {
  const word = id
    .replace(/[^A-Za-z0-9-]+/g, "")
    .replace(/^-+|-+$/g, "")
    .slice(0, 64);
  return fillIn(place, { id: harmless(word, "video") });
}
