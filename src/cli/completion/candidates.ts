import type { Argument, CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { type Suggestion, suggestionsFor } from "../command.ts";

/** The words to offer: known words, none if any value is possible, names from the journal, or files for `@path`. */
export type Candidates = readonly Suggestion[] | JournalNames | "@files";

/** Ids of all generations, of unfinished ones, or of saved ones; or attempts that can be dismissed. */
export type JournalNames = "ids" | "unfinished ids" | "saved ids" | "unclear attempts";

/** The commands that take only some ids. An id after `list` is for `list --open`, which needs a saved file. */
const idsFor: Readonly<Record<string, JournalNames>> = {
  wait: "unfinished ids",
  cancel: "unfinished ids",
  list: "saved ids",
};

/** Makes the script complete file names itself; none of vidgen's own words begins with a colon. */
const files: readonly Suggestion[] = [[":files", ""]];

/** The words to offer after the words `typed`, without hidden commands. The caller keeps those that begin with `current`. */
export function findCandidates(program: CommandUnknownOpts, typed: readonly string[], current: string): Candidates {
  const isAfterDashes = typed.includes("--");
  const isOperand = (word: string, i: number) => !word.startsWith("-") && !findValueFlag(program, typed[i - 1]);
  const [command, first, second] = typed.filter(isOperand);
  const lastFlag = isAfterDashes ? undefined : findValueFlag(program, typed.at(-1));
  if (lastFlag) return valuesOf(lastFlag);
  const [flagPrefix] = /^--[^=]*=/.exec(current) ?? [];
  if (flagPrefix !== undefined && !isAfterDashes)
    return withPrefix(flagPrefix, valuesOf(findValueFlag(program, flagPrefix.slice(0, -1))));
  const topCommand = program.commands.find((each) => each.name() === command);
  const subcommand = topCommand?.commands.find((each) => each.name() === first);
  if (current.startsWith("-") && !isAfterDashes) return flagsOf(program, subcommand ?? topCommand);
  if (command === undefined) return commandsOf(program);
  if (first === undefined && topCommand?.registeredArguments.length === 0) return commandsOf(topCommand);
  const parameter = (subcommand ?? topCommand)?.registeredArguments[0];
  const typedOperand = subcommand ? second : first;
  if (!parameter || (typedOperand !== undefined && !parameter.variadic)) return [];
  if (parameter.name() === "prompt" && current.startsWith("@")) return "@files";
  return idsFor[command] ?? valuesOf(parameter);
}

/** The flag whose value is the next word: `--output`, `-o` or the last of several in one word, `-yo`. */
function findValueFlag(program: CommandUnknownOpts, word = ""): Option | undefined {
  const commands = [program, ...program.commands.flatMap((each) => [each, ...each.commands])];
  const options = commands.flatMap((each) => each.options).filter(({ required }) => required);
  return options.find(({ short, long }) => word === long || (short && /^-\w*$/.test(word) && word.at(-1) === short[1]));
}

function valuesOf(parameter: Option | Argument | undefined): Candidates {
  if (parameter === undefined) return [];
  const known = suggestionsFor(parameter) ?? parameter.argChoices?.map((choice): Suggestion => [choice, ""]);
  if (known) return known;
  if ("flags" in parameter) {
    if (parameter.flags.includes("<attempt>")) return "unclear attempts";
    if (parameter.flags.includes("<id>")) return "ids";
    return /<(path|location|folder|file|.*\|file)>/.test(parameter.flags) ? files : [];
  }
  if (["file", "results"].includes(parameter.name())) return files;
  return parameter.name() === "id" ? "ids" : [];
}

function withPrefix(prefix: string, values: Candidates): Candidates {
  return typeof values === "string" || values === files
    ? values
    : values.map(([word, about]): Suggestion => [`${prefix}${word}`, about]);
}

/** The flags of a command, then those of every command. */
function flagsOf(program: CommandUnknownOpts, command: CommandUnknownOpts | undefined): Suggestion[] {
  const helper = program.createHelp();
  const ownFlags = command ? helper.visibleOptions(command) : [];
  const sharedFlags = helper.visibleOptions(program).filter(({ long }) => !command || long !== "--help");
  return [...ownFlags, ...sharedFlags].flatMap(({ long, description }): Suggestion[] =>
    long ? [[long, description]] : [],
  );
}

function commandsOf(program: CommandUnknownOpts): Suggestion[] {
  const commands = program.createHelp().visibleCommands(program);
  return commands.map((command): Suggestion => [command.name(), command.summary()]);
}
