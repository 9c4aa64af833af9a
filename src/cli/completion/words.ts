import type { CommandTree, Flag, Parameter } from "../help/tree.ts";

export type Word = readonly [word: string, description: string];

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

/** Words that are offered where others are taken too: by flag ("--model"), or by command and argument ("help name"). */
export type Suggestions = Readonly<Record<string, readonly Word[]>>;

/** The words of the whole command line, for a shell's script. */
export function collectWords(program: CommandTree, suggestions: Suggestions): Vocabulary {
  const describe = (flags: Flag[]) => flags.flatMap((flag) => describeFlag(flag, suggestions));
  const commands = program.commands.map(({ name, summary, flags, arguments: [first] }) => ({
    ...{ name, summary, flags: describe(flags) },
    argument: {
      value: argumentValue(first, suggestions[`${name} ${first?.name}`]),
      isVariadic: first?.variadic ?? false,
    },
  }));
  return { commands, flags: describe(program.flags.filter(({ long }) => long !== "--help")) };
}

function describeFlag(flag: Flag, suggestions: Suggestions): FlagWords[] {
  const { short, long, description, type, choices, usage } = flag;
  if (long === null) return [];
  const place = usage.includes("<place>") ? "files" : undefined;
  const known = suggestions[long] ?? choices?.map((choice) => [choice, ""] as const) ?? place ?? "anything";
  return [{ short: short ?? undefined, long, description, value: type === "boolean" ? undefined : known }];
}

function argumentValue(parameter: Parameter | undefined, suggested: readonly Word[] | undefined): Value {
  if (suggested) return suggested;
  if (parameter?.choices) return parameter.choices.map((choice) => [choice, ""] as const);
  return parameter?.name === "id" ? "ids" : "anything";
}

/** Every flag that takes a value, once. */
export function valueFlags({ commands, flags }: Vocabulary): { names: string[]; value: Value }[] {
  const all = [...flags, ...commands.flatMap(({ flags }) => flags)];
  const byLong = new Map(all.map((flag) => [flag.long, flag]));
  return [...byLong.values()].flatMap(({ short, long, value }) =>
    value === undefined ? [] : [{ names: short === undefined ? [long] : [short, long], value }],
  );
}
