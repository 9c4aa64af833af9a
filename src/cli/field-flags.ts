import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { usage } from "../errors.ts";
import { type Field, type FieldName, type FieldTexts, fields, type Images, isImageField } from "../protocol/fields.ts";
import { collectValues, withSuggestions } from "./command.ts";

/** The values of the flags for the request's fields. */
export type FieldFlags = { texts: FieldTexts; images: Images };

const flags = fields.flatMap((field) =>
  field.flag === undefined ? [] : [{ field, attribute: new Option(field.flag).attributeName() }],
);

/**
 * Adds the flags of the request's fields to a command; `readFieldFlags` reads their values. `descriptions`
 * replaces those of some fields.
 */
export function withFieldFlags<Command extends CommandUnknownOpts>(
  command: Command,
  descriptions: { [name in FieldName]?: string } = {},
): Command {
  for (const { field } of flags)
    command.addOption(optionOf({ ...field, about: descriptions[field.name] ?? field.about }));
  return command;
}

function optionOf({ flag = "", about, takes, suggestions }: Field): Option {
  const option = new Option(flag, about);
  if (takes === "images") option.argParser(collectValues);
  return suggestions === undefined ? option : withSuggestions(option, () => suggestions);
}

export function readFieldFlags(command: CommandUnknownOpts): FieldFlags {
  const texts: FieldTexts = {};
  const images: { -readonly [name in keyof Images]: Images[name] } = {};
  for (const { field, attribute } of flags) {
    const value: unknown = command.getOptionValue(attribute);
    if (value === undefined) continue;
    if (isImageField(field)) images[field.name] = [value].flat().map(String);
    else texts[field.name] = String(value);
  }
  return { texts, images };
}

/**
 * The models of `-m`, which may name several with commas between them; empty without `-m`. Throws `usage` for
 * an empty or repeated model.
 */
export function readModels({ texts: { model } }: Pick<FieldFlags, "texts">): string[] {
  if (model === undefined) return [];
  if (!model.includes(",")) return [model];
  const models = model.split(",").map((each) => each.trim());
  if (models.includes("")) throw usage(`--model has an empty name in "${model}".`);
  checkDistinct(models);
  return models;
}

/** Throws `usage` for a model that is named twice, because it would be paid for twice. */
export function checkDistinct(models: readonly string[]): void {
  const repeatedModel = models.find((model, index) => models.indexOf(model) !== index);
  if (repeatedModel !== undefined)
    throw usage(`--model names ${repeatedModel} twice.`, "-n 2 starts two generations of each model.");
}

/** The values of `readFieldFlags` by commander's attribute names. */
export function fieldAttributes({ texts, images }: FieldFlags): Record<string, unknown> {
  return Object.fromEntries(
    flags.map(({ field, attribute }) => [
      attribute,
      isImageField(field) ? typedImages(field, images) : texts[field.name],
    ]),
  );
}

function typedImages({ name, takes }: Field & { name: keyof Images }, images: Images) {
  return takes === "image" ? images[name]?.at(-1) : images[name];
}
