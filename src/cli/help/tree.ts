import type { Argument, Command, Option } from "commander";

/** A flag, as programs read it. */
export type Flag = {
  /** As it is typed: "-m, --model <id>". */
  usage: string;
  short: string | null;
  long: string | null;
  description: string;
  type: "boolean" | "string";
  repeatable: boolean;
  default: unknown;
  /** The only values it takes. */
  choices: string[] | null;
};

export type Parameter = {
  name: string;
  description: string;
  required: boolean;
  variadic: boolean;
  choices: string[] | null;
};

export type CommandTree = {
  name: string;
  summary: string;
  description: string;
  usage: string;
  arguments: Parameter[];
  flags: Flag[];
  examples: string[];
  commands: CommandTree[];
};

/** The examples of each command's help, which commander itself does not keep. */
export type ExamplesOf = ReadonlyMap<Command, readonly string[]>;

/** A command and those below it, hidden ones left out, as plain data: for `help --json`, the man page and completion. */
export function describeCommand(command: Command, examplesOf: ExamplesOf): CommandTree {
  const helper = command.createHelp();
  return {
    name: command.name(),
    summary: command.summary(),
    description: command.description(),
    usage: helper.commandUsage(command),
    arguments: command.registeredArguments.map(describeArgument),
    flags: helper.visibleOptions(command).map(describeFlag),
    examples: [...(examplesOf.get(command) ?? [])],
    commands: helper.visibleCommands(command).map((inner) => describeCommand(inner, examplesOf)),
  };
}

function describeArgument(argument: Argument): Parameter {
  const { required, variadic, description, argChoices: choices = null } = argument;
  return { name: argument.name(), description, required, variadic, choices };
}

function describeFlag(option: Option): Flag {
  const { flags: usage, short = null, long = null, description, argChoices: choices = null } = option;
  const takesValue = option.required || option.optional;
  return {
    ...{ usage, short, long, description },
    type: takesValue ? "string" : "boolean",
    // `choices` brings a parser of its own; the only other one there is collects.
    repeatable: option.parseArg !== undefined && choices === null,
    default: takesValue ? (option.defaultValue ?? null) : false,
    choices,
  };
}
