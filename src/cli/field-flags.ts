import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { type Field, type FieldTexts, fields, type Images, isImageField } from "../protocol/fields.ts";
import { collectValues, withSuggestions } from "./command.ts";

/** The values of the flags for the request's fields. */
export type FieldFlags = { texts: FieldTexts; images: Images };

const flags = fields.flatMap((field) =>
  field.flag === undefined ? [] : [{ field, attribute: new Option(field.flag).attributeName() }],
);

/** Adds the flags of the request's fields to a command; their values are read by `readFieldFlags`. */
export function withFieldFlags<Command extends CommandUnknownOpts>(command: Command): Command {
  for (const { field } of flags) command.addOption(optionOf(field));
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

/** The same values by commander's attribute names. */
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
