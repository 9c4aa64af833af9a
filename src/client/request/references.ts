import type { Images } from "../../protocol/fields.ts";
import { findSimilar } from "../../protocol/models.ts";

/** The images of each reference by its name. A reference is something that several videos show, such as a person. */
export type References = ReadonlyMap<string, readonly string[]>;

/** A prompt and images in which mentions such as `@hero` are replaced. */
export type NamedReferences = {
  prompt: string;
  images: Images;
  /** The references that are used. */
  names: readonly string[];
};

/** `@name` at the start or after white space; not in an address such as `me@hero.com` or `@hero.com`. */
const mention = /(?<=^|\s)@([\p{L}\p{N}_][\p{L}\p{N}_-]*)(?![\p{L}\p{N}_-]|[.@:/\\][\p{L}\p{N}])/gu;

/** The name of a reference in place of an image, such as `@hero`. */
export function referenceName(image: string): string | undefined {
  return /^@([\p{L}\p{N}_][\p{L}\p{N}_-]*)$/u.exec(image)?.[1];
}

/** The known references that a text names. */
export function findMentions(text: string, references: References): string[] {
  return [...text.matchAll(mention)].flatMap(([, name = ""]) => (references.has(name) ? name : []));
}

/** The first name in a text that is probably a mistyped reference, such as `@herro` for `@hero`, and that reference. */
export function findMisspelt(text: string, references: References): { typed: string; guess: string } | undefined {
  for (const [typed, name = ""] of text.matchAll(mention)) {
    const guess = references.has(name) ? undefined : findSimilar(name, [...references.keys()]);
    if (guess !== undefined) return { typed, guess: `@${guess}` };
  }
  return undefined;
}

/** Whether a text begins with the name of a known reference. */
export function beginsWithReference(text: string, references: References): boolean {
  const [first] = text.matchAll(mention);
  return first?.index === 0 && references.has(first[1] ?? "");
}

/**
 * Replaces `@hero` in a prompt by "hero", and adds the images of each reference that the prompt or
 * `--reference` names, each once. An unknown name stays as it was typed.
 */
export function nameReferences(prompt: string, images: Images, references: References): NamedReferences {
  const typedImages = (images.referenceUrls ?? []).flatMap(splitNames);
  const mentioned = findMentions(prompt, references);
  const used = [...new Set([...typedImages.flatMap((image) => knownName(image, references) ?? []), ...mentioned])];
  if (used.length === 0) return { prompt, images, names: [] };
  const otherImages = typedImages.filter((image) => knownName(image, references) === undefined);
  const referenceImages = used.flatMap((name) => references.get(name) ?? []);
  return {
    prompt: prompt.replace(mention, (whole, name) => (references.has(name) ? name : whole)),
    images: { ...images, referenceUrls: [...otherImages, ...referenceImages] },
    names: used,
  };
}

/** A cell of a table may have several names, such as "@hero @dog". */
function splitNames(image: string): string[] {
  const words = image.split(/[\s,]+/);
  return words.every((word) => referenceName(word) !== undefined) ? words : [image];
}

function knownName(image: string, references: References): string | undefined {
  const name = referenceName(image);
  return name !== undefined && references.has(name) ? name : undefined;
}
