import type { Argument, CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { type Suggestion, suggestionsFor } from "../command.ts";
import { readCommandLine, readFlag } from "../command-line.ts";

/** What can be offered: known words, none where any value is possible, the ids in the journal, or the files that `@path` can name. */
export type Candidates = readonly Suggestion[] | "ids" | "@files";

/** Makes the script complete file names itself; none of vidgen's own words begins with a colon. */
const files: readonly Suggestion[] = [[":files", ""]];

/** What can be offered at the cursor, after the words `typed`; the caller keeps those that begin with `current`. Hidden commands are left out. */
export function findCandidates(program: CommandUnknownOpts, typed: readonly string[], current: string): Candidates {
  const { operands, flags, isLiteral } = readCommandLine(program, typed);
  const [command, first] = operands;
  const lastFlag = flags.at(-1);
  if (lastFlag && lastFlag.value === undefined) return valuesOf(lastFlag.option);
  const [assigned] = /^--[^=]*=/.exec(current) ?? [];
  if (assigned !== undefined && !isLiteral) return withPrefix(assigned, valuesOf(readFlag(program, current)?.option));
  if (current.startsWith("-") && !isLiteral) return flagsOf(program, command);
  if (command === undefined) return commandsOf(program);
  const top = program.commands.find((each) => each.name() === command);
  const below = top?.commands.find((each) => each.name() === first);
  const parameter = (below ?? top)?.registeredArguments[0];
  if (!parameter || (first !== undefined && !parameter.variadic)) return [];
  return parameter.name() === "prompt" && current.startsWith("@") ? "@files" : valuesOf(parameter);
}

function valuesOf(parameter: Option | Argument | undefined): Candidates {
  if (parameter === undefined) return [];
  const known = suggestionsFor(parameter) ?? parameter.argChoices?.map((choice): Suggestion => [choice, ""]);
  if (known) return known;
  if ("flags" in parameter) return /<(place|file|.*\|file)>/.test(parameter.flags) ? files : [];
  if (["file", "results"].includes(parameter.name())) return files;
  return parameter.name() === "id" ? "ids" : [];
}

function withPrefix(prefix: string, values: Candidates): Candidates {
  return typeof values === "string" || values === files
    ? values
    : values.map(([word, about]): Suggestion => [`${prefix}${word}`, about]);
}

/** The flags of a command, then those of every command. */
function flagsOf(program: CommandUnknownOpts, name: string | undefined): Suggestion[] {
  const helper = program.createHelp();
  const command = helper.visibleCommands(program).find((each) => each.name() === name);
  const own = command ? helper.visibleOptions(command) : [];
  const shared = helper.visibleOptions(program).filter(({ long }) => !command || long !== "--help");
  return [...own, ...shared].flatMap(({ long, description }): Suggestion[] => (long ? [[long, description]] : []));
}

function commandsOf(program: CommandUnknownOpts): Suggestion[] {
  const commands = program.createHelp().visibleCommands(program);
  return commands.map((command): Suggestion => [command.name(), command.summary()]);
}
