import type { Command } from "commander";
import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { formatManual } from "../help/man.ts";
import { createTopics, type Topic } from "../help/topics.ts";
import { type CommandTree, describeCommand, type ExamplesOf } from "../help/tree.ts";
import type { Given } from "../program.ts";
import { findSimilar } from "../similar.ts";

export type HelpOptions = Given & {
  name: string | undefined;
  man?: boolean;
  program: Command;
  examplesOf: ExamplesOf;
};

/** Prints the help of the program, a command or a topic; with `--json` what it says as data, with `--man` the manual page. */
export async function help({ name, man, program, examplesOf, output }: HelpOptions, io: Io): Promise<void> {
  const topics = createTopics();
  const tree = describeCommand(program, examplesOf);
  const version = program.version() ?? "";
  const manual = man ? formatManual(tree, topics, version) : "";
  if (man) return await output.result(manual, { manual });
  const topic = topics.find((topic) => topic.name === name);
  if (topic) return await output.result(formatTopic(topic, program, io), topic.document);
  const command = findCommand(name, program, topics);
  if (!output.json) return command.outputHelp();
  const documents = Object.fromEntries(topics.map(({ name, document }) => [name.replace("-", "_"), document]));
  const all = name === undefined ? { version, ...tree, ...documents } : describeCommand(command, examplesOf);
  await output.result("", withoutEmpty(all));
}

function findCommand(name: string | undefined, program: Command, topics: Topic[]): Command {
  if (name === undefined) return program;
  const command = program.commands.find((command) => command.name() === name);
  if (command) return command;
  const known = [...describeCommand(program, new Map()).commands, ...topics].map(({ name }) => name);
  const similar = findSimilar(name, known);
  const guess = similar === undefined ? "" : ` Did you mean ${similar}?`;
  throw usage(`There is no help on "${name}".${guess}`, `There is help on ${known.join(", ")}.`);
}

/** No command has commands below it but the program itself. */
function withoutEmpty<Tree extends CommandTree>({ commands, ...tree }: Tree): object {
  return commands.length === 0 ? tree : { ...tree, commands: commands.map(withoutEmpty) };
}

/** Laid out as commander lays out the rest of the help, as wide as the terminal. */
function formatTopic({ sections }: Topic, program: Command, io: Io): string {
  const helper = program.createHelp();
  const width = io.stdout.columns ?? 80;
  helper.prepareContext({ helpWidth: width });
  const parts = sections.map(({ text, rows }) => {
    const termWidth = Math.max(...rows.map(([term]) => term.length));
    const items = rows.map(([term, meaning]) => helper.formatItem(term, termWidth, meaning, helper));
    return [helper.boxWrap(text, width), "", ...items].join("\n");
  });
  return parts.join("\n\n");
}
