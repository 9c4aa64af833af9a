import { Argument, type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import packageJson from "../../../package.json" with { type: "json" };
import { listPages, type Page, readPage } from "../../docs.ts";
import { usage } from "../../errors.ts";
import { findSimilar } from "../../protocol/models.ts";
import { type Suggestion, withDetails, withSuggestions } from "../command.ts";
import type { Context } from "../context.ts";
import { formatTopics, readTopics, topicDocument } from "../help/topics.ts";
import { colorLevel, programName } from "../terminal/output.ts";
import { isAscii } from "../terminal/text.ts";

export function addHelp(program: CommandUnknownOpts, context: Context): void {
  const name = new Argument("[name...]", "a command or a topic, also as several words, such as exit codes");
  const command = program
    .command("help")
    .helpGroup("Set up:")
    .summary("show the help of a command or a topic")
    .description(
      "Shows the help of a command or a topic. With --json, prints all commands, flags and exit codes as data.",
    )
    .addArgument(withSuggestions(name, () => namesOf(program)))
    .option("--all", "show every flag of the command")
    .option("--man", "print the manual page, for `man -l -`")
    .option("--skill", "print the page for AI agents as a skill, for a SKILL.md")
    .addOption(new Option("--outlines", "print what dist/commands.json has").hideHelp())
    .action((words, { man, skill, outlines }) => {
      if (outlines) return printOutlines(program, context);
      if (man) return printManual(program, context);
      return skill ? printSkill(context) : printHelp(words, program, context);
    });
  withDetails(command, {
    examples: ["vidgen help generate", "vidgen help exit-codes", "vidgen help agents", "vidgen help --json"],
  });
}

async function printOutlines(program: CommandUnknownOpts, { output }: Context): Promise<void> {
  const { outlineOf } = await import("../help/outline.ts");
  output.print(JSON.stringify(outlineOf(program).commands));
}

async function printManual(program: CommandUnknownOpts, { output }: Context): Promise<void> {
  const { formatManual } = await import("../help/man.ts");
  const { describeCommand } = await import("../help/tree.ts");
  const pages = formatManual(describeCommand(program), readTopics(), program.version() ?? "");
  const manual = pages.replaceAll("npx vidgen", "vidgen");
  await output.result(manual, { manual });
}

/** Prints the page for agents as a skill, after a header that says when to read it. */
async function printSkill({ output }: Context): Promise<void> {
  const skill = `---
name: vidgen
description: Makes AI videos (.mp4) from a prompt or an image with the vidgen command line, one or many, through a paid service or as a free local preview. Read it before any vidgen command, so that no video is paid for twice and none is lost.
license: MIT
compatibility: Needs Node 20.19 or newer and the network of a video service; ffmpeg for --from and --join.
metadata:
  version: "${packageJson.version}"
---

${readPage("agents").text}`;
  await output.result(skill, { skill });
}

/**
 * Prints the help of the program, a command or a topic; with `--json` the same as data. For a topic with the
 * name of a command, such as `batch`, it prints the page; `--json` prints the command together with the page.
 * `vidgen batch --help` shows the flags.
 */
async function printHelp(words: readonly string[], program: CommandUnknownOpts, context: Context): Promise<void> {
  const { output } = context;
  if (words.length === 0) return program.outputHelp();
  const typed = words.join("-");
  const name = synonyms.find(({ words }) => words.includes(typed))?.name ?? typed;
  const command = findCommand(name === typed ? words : [name], program);
  if (name === "topics") return output.result(formatTopics(), readTopics());
  if (!listPages().includes(name)) return (command ?? (await throwUnknown(words, program))).outputHelp();
  const text = readPage(name).text.replaceAll("npx vidgen", programName(context.io.env));
  const page = { ...readPage(name), text };
  if (context.io.stdout.isTTY && !output.json) return showPage(page, context);
  const { describeCommand } = await import("../help/tree.ts");
  const document = command ? { ...describeCommand(command), page: page.text } : await topicDocument(page);
  await output.result(page.text, document);
}

/** The pages and commands for words that people look for. */
const synonyms = [
  { name: "cost", words: ["price", "prices", "pricing", "costs"] },
  { name: "real-models", words: ["engine", "engines", "provider", "providers"] },
  { name: "project", words: ["preset", "presets", "references", "vidgen.json"] },
  { name: "login", words: ["key", "keys", "login-key", "api-key"] },
  { name: "generate", words: ["prompt", "prompts", "image", "images", "portrait", "vertical", "aspect-ratio"] },
  { name: "glossary", words: ["words", "terms"] },
  { name: "windows", words: ["powershell"] },
  { name: "never-twice", words: ["retry"] },
];

/** The command that words name, such as `config set`. */
function findCommand(words: readonly string[], program: CommandUnknownOpts): CommandUnknownOpts | undefined {
  return words.reduce<CommandUnknownOpts | undefined>(
    (group, word) => group?.commands.find((command) => command.name() === word),
    program,
  );
}

/**
 * Draws a page for the terminal and shows it in a pager. The page for agents gets no pager, which would wait
 * for somebody to press a key.
 */
async function showPage({ name, text }: Page, context: Context): Promise<void> {
  const { io, output } = context;
  const { Chalk } = await import("chalk");
  const { drawPage } = await import("../help/drawing.ts");
  const { findPager } = await import("../terminal/pager.ts");
  const color = new Chalk({ level: colorLevel(output, io.stdout, io.env) });
  const drawn = drawPage(text, { columns: Math.max(io.stdout.columns || 80, 20), color, isAscii: isAscii(io.env) });
  output.print(drawn, name === "agents" ? undefined : findPager(context));
}

/** All commands and topics, each once and with its summary. */
function namesOf(program: CommandUnknownOpts): Suggestion[] {
  const commands = program.createHelp().visibleCommands(program);
  const names = new Map(commands.map((command) => [command.name(), command.summary()]));
  for (const { name, title } of readTopics()) if (!names.has(name)) names.set(name, title);
  return [...names];
}

async function throwUnknown(words: readonly string[], program: CommandUnknownOpts): Promise<never> {
  const name = words.join(" ");
  const { hintFor } = await import("../words.ts");
  const hint = hintFor(words[0] ?? "");
  if (hint !== undefined) throw usage(`No help for "${name}".`, hint);
  const known = namesOf(program).map(([name]) => name);
  const similar = findSimilar(words.join("-"), known);
  const guess = similar === undefined ? "" : ` Did you mean ${similar}?`;
  const pages = readTopics().filter(({ text }) => text.toLowerCase().includes(name.toLowerCase()));
  const isFound = similar === undefined && pages.length > 0;
  const list = isFound ? pages.map((page) => page.name) : known;
  const intro = isFound ? "These topics mention it" : "Commands and topics";
  throw usage(`No help for "${name}".${guess}`, `${intro}: ${list.join(", ")}.`);
}
