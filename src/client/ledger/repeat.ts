import { usage } from "../../errors.ts";
import type { StartRequest } from "../http/schema.ts";
import { type FieldTexts, fields, flagOf, wireValue } from "../request/fields.ts";
import type { RequestInput } from "../request/request.ts";
import { isHash } from "./history.ts";

/** What is typed in place of what an earlier request had. */
export type Changes = { texts: FieldTexts; images: readonly string[]; set: readonly string[] };

/**
 * A request of the journal as it is typed again, with changes. Throws `usage` for a field of which the journal has only a hash, and which is not
 * among the changes; `id` names its generation.
 */
export function repeatRequest(record: StartRequest, changes: Changes, id: string): RequestInput {
  const earlier = readRecord(record);
  const texts = { ...earlier.texts, ...given(changes.texts) };
  const images = changes.images.length > 0 ? [...changes.images] : earlier.images;
  const typed = new Set(changes.set.map((each) => each.split("=", 1)[0]));
  const extra = Object.entries(earlier.extra).filter(([name]) => !typed.has(name));
  if (images.some(isHash))
    throw lostError(
      id,
      "an image",
      "it was a file, or a URL with a query",
      "Give the images again with --image or --from.",
    );
  for (const field of fields)
    if (isHash(texts[field.name]))
      throw lostError(id, `the ${field.name}`, "it has a query", `Give it again with ${flagOf(field, "long")}.`);
  for (const [name, value] of extra)
    if (holdsHash(value)) throw lostError(id, name, "it may be a secret", `Give it again with --set ${name}=...`);
  const set = extra.map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return {
    texts: { ...texts, prompt: texts.prompt ?? "", model: texts.model ?? "" },
    images,
    set: [...set, ...changes.set],
  };
}

function lostError(id: string, what: string, why: string, hint: string) {
  return usage(`The journal has only a hash of ${what} of ${id}: ${why}. Nothing was sent.`, hint);
}

function readRecord({ imageUrl, imageUrls, ...record }: StartRequest & { imageUrl?: unknown; imageUrls?: unknown }) {
  const images = [imageUrl, imageUrls].flat().filter((image) => typeof image === "string");
  const texts: FieldTexts = {};
  const extra: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(record)) {
    const field = fields.find((each) => each.name === name);
    const isTyped = field !== undefined && wireValue(field, String(value)) === value;
    if (isTyped) texts[field.name] = String(value);
    else extra[name] = value;
  }
  return { texts, images, extra };
}

function given(texts: FieldTexts): FieldTexts {
  return Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== undefined));
}

function holdsHash(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.values(value).some(holdsHash);
  return isHash(value);
}
