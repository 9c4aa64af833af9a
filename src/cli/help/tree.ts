import type { Argument, CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { collectValues, detailsOf, suggestionsFor } from "../command.ts";
import { eventSchema, jsonSchemaOf, results } from "./results.ts";

export type Flag = ReturnType<typeof describeFlag>;

export type CommandTree = Omit<ReturnType<typeof describe>, "examples"> & {
  examples: readonly string[];
  /** Left out if empty. */
  commands?: CommandTree[];
};

/**
 * What `help` and `--help` print with `--json`: a command, or the whole program with its version and the
 * topics that are data.
 */
export function helpDocument(command: CommandUnknownOpts, topics: Record<string, unknown>): object {
  if (command.parent) return describeCommand(command);
  return { version: command.version(), ...describeCommand(command), ...topics };
}

/** A command and its subcommands as plain data, without hidden ones: for `help --json` and the man page. */
export function describeCommand(command: CommandUnknownOpts): CommandTree {
  const commands = command.createHelp().visibleCommands(command);
  return { ...describe(command), ...(commands.length === 0 ? {} : { commands: commands.map(describeCommand) }) };
}

function describe(command: CommandUnknownOpts) {
  const helper = command.createHelp();
  const result = results[pathOf(command)];
  const hasEvents = command.options.some(({ long }) => long === "--events");
  return {
    name: command.name(),
    summary: command.summary(),
    description: command.description(),
    usage: helper.commandUsage(command),
    arguments: command.registeredArguments.map(describeArgument),
    flags: helper.visibleOptions(command).map(describeFlag),
    examples: detailsOf(command).examples,
    result: result === undefined ? null : jsonSchemaOf(result),
    events: hasEvents ? jsonSchemaOf(eventSchema) : null,
  };
}

/** The name of a command with those of its groups, such as "batch status". */
function pathOf(command: CommandUnknownOpts): string {
  const { parent } = command;
  return parent?.parent ? `${pathOf(parent)} ${command.name()}` : command.name();
}

function describeArgument(argument: Argument) {
  const { required, variadic, description, argChoices: choices = null } = argument;
  return { name: argument.name(), description, required, variadic, choices, known: knownValues(argument) };
}

/** Values that completion offers but that are not the only ones; `null` without any. */
function knownValues(parameter: Option | Argument) {
  return suggestionsFor(parameter)?.map(([word]) => word) ?? null;
}

/** `usage` is such as "-m, --model <id>"; `choices` are the only values it accepts. */
function describeFlag(option: Option) {
  const { flags: usage, short = null, long = null, description, argChoices: choices = null } = option;
  const takesValue = option.required || option.optional;
  return {
    usage,
    short,
    long,
    description,
    type: takesValue ? "string" : "boolean",
    repeatable: option.parseArg === collectValues,
    default: takesValue ? (option.defaultValue ?? null) : false,
    choices,
    known: knownValues(option),
  };
}
