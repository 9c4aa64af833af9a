import { Argument, type CommandUnknownOpts } from "@commander-js/extra-typings";
import { findSimilar } from "../../client/models.ts";
import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { detailsOf, type Suggestion, withDetails, withSuggestions } from "../command.ts";
import type { Context } from "../context.ts";
import { formatSkill } from "../help/agents.ts";
import { createTopics, type Topic, topicNames } from "../help/topics.ts";

export function addHelp(program: CommandUnknownOpts, context: Context): void {
  const after = `Help topics, for vidgen help <topic>: ${topicNames.join(", ")}`;
  withDetails(program, { ...detailsOf(program), after });
  const name = new Argument("[name]", `a command, or ${topicNames.join(", ")}`);
  const command = program
    .command("help")
    .summary("show the help of a command or a topic")
    .description(
      "Shows the help of a command or a topic. With --json, prints all commands, flags and exit codes as data.",
    )
    .addArgument(withSuggestions(name, () => namesOf(program)))
    .option("--man", "print the manual page, for `man -l -`")
    .option("--skill", "print the page for AI agents as a skill, for a SKILL.md")
    .action((name, { man, skill }) => {
      if (man) return printManual(program, context);
      return skill ? printSkill(program, context) : printHelp(name, program, context);
    });
  withDetails(command, {
    prints: "the help",
    examples: ["vidgen help generate", "vidgen help exit-codes", "vidgen help agents", "vidgen help --json"],
  });
}

async function printManual(program: CommandUnknownOpts, { output }: Context): Promise<void> {
  const { formatManual } = await import("../help/man.ts");
  const { describeCommand } = await import("../help/tree.ts");
  const manual = formatManual(describeCommand(program), createTopics(program), program.version() ?? "");
  await output.result(manual, { manual });
}

async function printSkill(program: CommandUnknownOpts, { output }: Context): Promise<void> {
  const { page = "" } = createTopics(program).find(({ name }) => name === "agents") ?? {};
  const skill = formatSkill(page);
  await output.result(skill, { skill });
}

/** Prints the help of the program, a command or a topic; with `--json` the same as data. */
async function printHelp(name: string | undefined, program: CommandUnknownOpts, context: Context): Promise<void> {
  const topic = createTopics(program).find((topic) => topic.name === name);
  if (topic) return await context.output.result(topic.page ?? formatTopic(topic, program, context.io), topic.document);
  const command = name === undefined ? program : findCommand(name, program);
  command.outputHelp();
}

/** All commands and topics, each with its summary. */
function namesOf(program: CommandUnknownOpts): Suggestion[] {
  const commands = program.createHelp().visibleCommands(program);
  return [
    ...commands.map((command) => [command.name(), command.summary()] as const),
    ...createTopics(program).map(({ name, summary }) => [name, summary] as const),
  ];
}

function findCommand(name: string, program: CommandUnknownOpts): CommandUnknownOpts {
  const command = program.commands.find((command) => command.name() === name);
  if (command) return command;
  const known = namesOf(program).map(([name]) => name);
  const similar = findSimilar(name, known);
  const guess = similar === undefined ? "" : ` Did you mean ${similar}?`;
  throw usage(`No help for "${name}".${guess}`, `Commands and topics: ${known.join(", ")}.`);
}

/** Laid out as commander lays out the rest of the help, as wide as the terminal. */
function formatTopic({ sections }: Topic, program: CommandUnknownOpts, io: Io): string {
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
