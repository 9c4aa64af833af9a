import type { Argument, CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { suggestionsFor, type Word } from "../command.ts";

/** What may stand in a place: known words, a file's name, an id from the journal, or what nobody can guess. */
export type Value = readonly Word[] | "files" | "ids" | "anything";

export type FlagWords = { short: string | undefined; long: string; description: string; value: Value | undefined };

export type CommandWords = {
  name: string;
  summary: string;
  flags: FlagWords[];
  /** What stands behind the command's name, and whether more than one of it may. */
  argument: { value: Value; isVariadic: boolean };
};

/** All that a shell has to know of the command line. */
export type Vocabulary = {
  commands: CommandWords[];
  /** The flags of every command. */
  flags: FlagWords[];
};

/** The words of the whole command line, for a shell's script; hidden commands are left out. */
export function collectWords(program: CommandUnknownOpts): Vocabulary {
  const helper = program.createHelp();
  const flagsOf = (command: CommandUnknownOpts) => helper.visibleOptions(command).flatMap(describeFlag);
  const commands = helper.visibleCommands(program).map((command) => ({
    name: command.name(),
    summary: command.summary(),
    flags: flagsOf(command),
    argument: describeArgument(command.registeredArguments[0]),
  }));
  return { commands, flags: flagsOf(program).filter(({ long }) => long !== "--help") };
}

function describeFlag(option: Option): FlagWords[] {
  const { short, long, description, flags } = option;
  if (long === undefined) return [];
  const usual = flags.includes("<place>") ? "files" : "anything";
  const value = option.required ? (knownWords(option) ?? usual) : undefined;
  return [{ short, long, description, value }];
}

function describeArgument(argument: Argument | undefined): CommandWords["argument"] {
  const usual = argument?.name() === "id" ? "ids" : "anything";
  const value = (argument && knownWords(argument)) ?? usual;
  return { value, isVariadic: argument?.variadic ?? false };
}

function knownWords(parameter: Option | Argument): readonly Word[] | undefined {
  return suggestionsFor(parameter) ?? parameter.argChoices?.map((choice) => [choice, ""] as const);
}

/** Every flag that takes a value, once. */
export function valueFlags({ commands, flags }: Vocabulary): { names: string[]; value: Value }[] {
  const all = [...flags, ...commands.flatMap(({ flags }) => flags)];
  const byLong = new Map(all.map((flag) => [flag.long, flag]));
  return [...byLong.values()].flatMap(({ short, long, value }) =>
    value === undefined ? [] : [{ names: short === undefined ? [long] : [short, long], value }],
  );
}
