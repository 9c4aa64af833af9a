/** What a file name is made of: the person's own words, and the first part of the id. */
export type Naming = { id: string; prompt?: string | undefined; model?: string | undefined };

/** Such as "a-red-fox-runs-wan-2.5-1b4e28ba.mp4". Nothing in it can be a path, whatever the service sends as an id. */
export function fileName({ id, prompt, model }: Naming): string {
  const first = firstPart(id);
  const parts = [slug(prompt ?? "", 48), slug(model ?? "", 24), first].filter((part) => part !== "");
  return `${parts.length > 1 ? parts.join("-") : `vidgen-${first}`}.mp4`;
}

/** The first eight digits of a UUID; of any other id as much as is needed to tell it from others. */
function firstPart(id: string): string {
  if (/^[0-9a-f]{8}-[0-9a-f]{4}-/i.test(id)) return id.slice(0, 8);
  return id.replace(/[^A-Za-z0-9]+/g, "").slice(0, 40) || "video";
}

/** An id as a part of a name: the whole of a UUID, of any other as much as can be no path. */
export function idWord(id: string): string {
  const word = id
    .replace(/[^A-Za-z0-9-]+/g, "")
    .replace(/^-+|-+$/g, "")
    .slice(0, 64);
  return harmless(word, "video");
}

/** A prompt as a part of a name. */
export function promptWord(prompt: string | undefined): string {
  return harmless(slug(prompt ?? "", 48), "video");
}

/** A model's id as a part of a name. */
export function modelWord(model: string | undefined): string {
  return harmless(slug(model ?? "", 24), "model");
}

/** Windows takes some names for devices, whatever comes behind the dot. */
function harmless(word: string, otherwise: string): string {
  return /^(con|prn|aux|nul|com\d|lpt\d)$/i.test(word) ? `${word}_` : word || otherwise;
}

function slug(text: string, longest: number): string {
  const words = text
    .normalize("NFC")
    .toLowerCase()
    // What is left of an emoji without it: invisible.
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
