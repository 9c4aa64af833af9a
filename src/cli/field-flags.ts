import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { type Field, type FieldTexts, fields } from "../client/request/fields.ts";
import { collectValues, withSuggestions } from "./command.ts";

/** What the flags of the request's fields say. */
export type FieldFlags = { texts: FieldTexts; images: string[] };

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
  let images: string[] = [];
  for (const { field, attribute } of flags) {
    const value: unknown = command.getOptionValue(attribute);
    if (typeof value === "string") texts[field.name] = value;
    if (Array.isArray(value)) images = value;
  }
  return { texts, images };
}

/** The same values by the attributes of the flags, as commander has them. */
export function fieldAttributes({ texts, images }: FieldFlags): Record<string, unknown> {
  return Object.fromEntries(
    flags.map(({ field, attribute }) => [attribute, field.takes === "images" ? images : texts[field.name]]),
  );
}
