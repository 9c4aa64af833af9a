import { existsSync, readFileSync } from "node:fs";
import { Argument, type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { collectValues, detailsOf, suggestionsFor, withDetails, withSuggestions } from "../command.ts";

/** A command as data: what help, guesses and completion need of it, without the code that runs it. */
export type Outline = ReturnType<typeof describe> & { commands: Outline[] };

/** The outline of a command and its subcommands, without hidden ones. */
export function outlineOf(command: CommandUnknownOpts): Outline {
  return { ...describe(command), commands: command.createHelp().visibleCommands(command).map(outlineOf) };
}

function describe(command: CommandUnknownOpts) {
  return {
    name: command.name(),
    group: command.helpGroup(),
    summary: command.summary(),
    description: command.description(),
    details: detailsOf(command),
    arguments: command.registeredArguments.map(describeArgument),
    options: command.options.filter(({ hidden }) => !hidden).map(describeOption),
  };
}

function describeArgument(argument: Argument) {
  const { required, variadic, description, argChoices: choices } = argument;
  const name = `${argument.name()}${variadic ? "..." : ""}`;
  return { term: required ? `<${name}>` : `[${name}]`, description, choices, suggestions: suggestionsFor(argument) };
}

function describeOption(option: Option) {
  const { flags, description, defaultValue, parseArg, argChoices: choices, helpGroupHeading: group } = option;
  const isRepeatable = parseArg === collectValues;
  return { flags, description, defaultValue, isRepeatable, choices, group, suggestions: suggestionsFor(option) };
}

/**
 * The outlines of all commands, which `src/build.mjs` writes beside the built program; `undefined` in a
 * program that is not built.
 */
export function readOutlines(): Outline[] | undefined {
  const file = new URL("./commands.json", import.meta.url);
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined;
}

/** Adds a command that has the flags and the help of its outline, and cannot be run. */
export function addOutlined(parent: CommandUnknownOpts, outline: Outline): void {
  const command = parent.command(outline.name).helpCommand(false).helpGroup(outline.group);
  command.summary(outline.summary).description(outline.description).action(throwNoCode);
  for (const { term, description, choices, suggestions } of outline.arguments) {
    const argument = new Argument(term, description);
    if (choices) argument.choices(choices);
    command.addArgument(suggestions ? withSuggestions(argument, () => suggestions) : argument);
  }
  for (const { flags, description, defaultValue, isRepeatable, choices, group, suggestions } of outline.options) {
    const option = new Option(flags, description).default(defaultValue);
    if (group !== undefined) option.helpGroup(group);
    if (isRepeatable) option.argParser(collectValues);
    if (choices) option.choices(choices);
    command.addOption(suggestions ? withSuggestions(option, () => suggestions) : option);
  }
  withDetails(command, outline.details);
  for (const each of outline.commands) addOutlined(command, each);
}

function throwNoCode(): never {
  throw new Error("The outline of a command cannot be run.");
}
