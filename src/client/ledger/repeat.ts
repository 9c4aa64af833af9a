import { usage } from "../../errors.ts";
import {
  type FieldTexts,
  fields,
  findValueFault,
  flagOf,
  type Images,
  imageFields,
  isImageField,
  wireValue,
} from "../../protocol/fields.ts";
import { isSourceImage, type RequestInput } from "../../protocol/request.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { holdsHash, isHash } from "../../protocol/secrets.ts";
import type { StartedEntry } from "./policy.ts";
import { isLocal } from "./same-service.ts";

/** The typed values that replace those of an earlier request. */
export type Changes = { texts: FieldTexts; images: Images; set: readonly string[] };

/**
 * A recorded request in the form of command-line input, with changes. Throws `usage` for a field that is not
 * changed and whose value the journal has only as a hash.
 */
export function repeatRequest(
  { id, request, base_url }: Pick<StartedEntry, "id" | "request" | "base_url">,
  changes: Changes,
): RequestInput {
  const earlier = readRecord(request, isLocal({ base_url }));
  const texts = { ...earlier.texts, ...withoutUndefined(changes.texts) };
  const setNames = changes.set.map((each) => each.split("=", 1)[0]?.trim() ?? "");
  const changedNames = new Set([...setNames, ...Object.keys(withoutUndefined(changes.images))]);
  // A typed source image replaces the earlier one, under whatever field name each is sent.
  const replacesSource = [...changedNames].some(isSourceImage);
  const images = {
    ...earlier.images,
    ...(replacesSource && { imageUrl: undefined }),
    ...withoutUndefined(changes.images),
  };
  const extra = Object.entries(earlier.extra).filter(
    ([name]) => !changedNames.has(name) && !(replacesSource && isSourceImage(name)),
  );
  for (const field of imageFields) {
    if (!images[field.name]?.some(isHash)) continue;
    const isSource = field.name === "imageUrl";
    const pronoun = field.takes === "image" ? "it" : "the images";
    const hint = `Pass ${pronoun} again with ${flagOf(field, "long")}${isSource ? " or --from" : ""}.`;
    throw hashOnlyError(id, isSource ? "an image" : field.name, "it was a file, or a URL with a query", hint);
  }
  for (const field of fields)
    if (isHash(texts[field.name]))
      throw hashOnlyError(id, `the ${field.name}`, "it has a query", `Pass it again with ${flagOf(field, "long")}.`);
  for (const [name, value] of extra)
    if (holdsHash(value)) throw hashOnlyError(id, name, "it may be a secret", `Pass it again with --set ${name}=...`);
  const set = extra.map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return {
    texts: { ...texts, prompt: texts.prompt ?? "", model: texts.model ?? "" },
    images,
    set: [...set, ...changes.set],
  };
}

function hashOnlyError(id: string, what: string, why: string, hint: string) {
  return usage(`The journal has only a hash of ${what} of ${id}: ${why}. Nothing was sent.`, hint);
}

function readRecord(
  { imageUrl, imageUrls, ...record }: StartRequest & { imageUrl?: unknown; imageUrls?: unknown },
  isOfLocal: boolean,
) {
  const images: Record<string, string[]> = { imageUrl: readTexts([imageUrl, imageUrls].flat()) };
  const texts: FieldTexts = {};
  const extra: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(record)) {
    const field = fields.find((each) => each.name === name);
    if (field !== undefined && isImageField(field)) {
      // For other services, the field came from `--set`.
      if (isOfLocal) images[name] = readTexts([value].flat());
      else extra[name] = value;
      continue;
    }
    // A value that only `--set` can send, such as a duration in words, is not a value of a flag.
    const text = String(value);
    const isFlagValue =
      field && wireValue(field, text) === value && (isHash(value) || findValueFault(field, text) === undefined);
    if (isFlagValue) texts[field.name] = text;
    else extra[name] = value;
  }
  return { texts, images, extra };
}

function readTexts(values: readonly unknown[]): string[] {
  return values.filter((value) => typeof value === "string");
}

function withoutUndefined<Values extends object>(values: Values): Values {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Values;
}
