import { CommanderError, type CommandUnknownOpts } from "@commander-js/extra-typings";
import { findKeys } from "../connect/settings.ts";
import { asVidgenError, usage, type VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { findSimilar } from "../protocol/models.ts";
import { flagWords, missingPrompt } from "./command.ts";
import type { Close } from "./context.ts";
import { commandOf, createProgram, readGlobalFlags } from "./program.ts";
import { createOutput } from "./terminal/output.ts";
import { quote } from "./terminal/text.ts";

// bin/vidgen.js imports all three from this entry.
export { endProcess, systemIo } from "./system.ts";

/** Runs one command line and returns its exit code. The only catch-all, and the only place that prints errors. */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  const { input, ...flags } = readGlobalFlags(argv);
  const output = createOutput(flags, io);
  for (const key of findKeys(io)) output.hide(key);
  const deferred: Close[] = [];
  const context = { io, output, input, defer: (close: Close) => void deferred.unshift(close) };
  let code = 0;
  let program: CommandUnknownOpts | undefined;
  let words = argv;
  try {
    if (output.events && output.json) throw usage("--events and --json cannot be combined: both write to stdout.");
    program = await createProgram(argv, context);
    // Loaded where a word may be a text that begins with a dash.
    if (argv.some((word) => /^-.*\s/s.test(word))) words = (await import("./dashes.ts")).joinValues(argv, program);
    await program.parseAsync(words, { from: "user" }).catch(ignoreHelpShown);
    await output.printed();
  } catch (error) {
    code = output.fail(await explain(error, words, program));
  }
  code = await output.end(code);
  // Clean-up runs after everything is printed, and cannot change the exit code.
  for (const close of deferred) await close(code === 0).catch(() => {});
  await output.flush();
  return code;
}

/** commander throws once it has printed help or the version; also the help of vidgen without a command, which it takes for an error. */
function ignoreHelpShown(error: unknown): void {
  if (!(error instanceof CommanderError && (error.exitCode === 0 || error.code === "commander.help"))) throw error;
}

/** The error as it is printed; a usage error always says what to type next. */
async function explain(
  error: unknown,
  argv: readonly string[],
  program: CommandUnknownOpts | undefined,
): Promise<VidgenError> {
  const isParsing = error instanceof CommanderError && program !== undefined;
  const known = asVidgenError(error);
  const isUsage = known.code === "usage" && (known.hint === undefined || known.message === missingPrompt);
  if (!isParsing && !isUsage) return known;
  const { dashHint } = await import("./dashes.ts");
  const name = commandOf(argv);
  const help = name === undefined ? "See `vidgen --help` for the commands." : `See \`vidgen ${name} --help\`.`;
  if (isParsing) return explainUsageError(error, program, dashHint(argv, { code: error.code, name, quote }) ?? help);
  return known.with({ hint: dashHint(argv, { name, quote }) ?? (known.hint === undefined ? help : undefined) });
}

/** commander's error as a usage error: its sentence, a guess, and what to type next. */
function explainUsageError({ code, message }: CommanderError, program: CommandUnknownOpts, help: string): VidgenError {
  const command = findParsed(program);
  // commander leaves there what it could not parse, after the arguments.
  const words = command.args;
  if (code === "commander.excessArguments" && command.name() === "generate")
    return usage("Too many arguments.", `Quote the prompt: ${generateLine(words, flagWords(command, command.opts()))}`);
  if (code === "commander.excessArguments" && isGroup(command)) return unknownSubcommand(command);
  // commander's own guess is on a line of its own, in parentheses.
  const [what = "", similar] = message.replace(/^error: /, "").split(/\n\((.*)\)$/);
  const longer = findLonger(code, command);
  const guess = longer.length === 0 ? similar : `Did you mean ${longer.join(" or ")}?`;
  const sentence = `${what.charAt(0).toUpperCase()}${what.slice(1)}`.replace(/\.?$/, ".");
  const end = words.findIndex((word) => word.startsWith("-"));
  const operands = end === -1 ? words : words.slice(0, end);
  // Several words, or one with a space, read as a prompt.
  const isPrompt = code === "commander.unknownCommand" && guess === undefined && /\s/.test(operands.join(" "));
  const hint = isPrompt
    ? `To generate a video from this prompt: ${generateLine(operands, words.slice(operands.length))}`
    : help;
  return usage(guess === undefined ? sentence : `${sentence} ${guess}`, hint);
}

/** Whether a command only holds others, such as `config`: commander runs its default one for any other word. */
function isGroup({ commands, registeredArguments }: CommandUnknownOpts): boolean {
  return commands.length > 0 && registeredArguments.length === 0;
}

function unknownSubcommand(group: CommandUnknownOpts): VidgenError {
  const [typed = ""] = group.args;
  const names = group.commands.map((each) => each.name());
  const similar = findSimilar(typed, names);
  const guess = similar === undefined ? "" : ` Did you mean ${similar}?`;
  const list = `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  return usage(
    `Unknown command '${typed}' of ${group.name()}.${guess}`,
    `The commands of ${group.name()} are ${list}.`,
  );
}

/** The command that was parsed last. */
function findParsed(command: CommandUnknownOpts): CommandUnknownOpts {
  const next = command.commands.find((each) => each.name() === command.args[0]);
  return next === undefined ? command : findParsed(next);
}

/** The line that makes a video of these words. */
function generateLine(words: readonly string[], flags: readonly string[]): string {
  const text = words.join(" ");
  // Windows knows double quotes alone.
  const prompt = /["$`\\!%]/.test(text) ? quote(text) : `"${text}"`;
  return ["vidgen generate", prompt, ...flags.map(quote)].join(" ");
}

/** The names that a shortened one may stand for, such as --aspect-ratio for --aspect; commander finds those with similar letters. */
function findLonger(code: string, command: CommandUnknownOpts): string[] {
  const isFlag = code === "commander.unknownOption";
  if (!isFlag && code !== "commander.unknownCommand") return [];
  const [typed = ""] = command.args.filter((word) => word.startsWith("-") === isFlag);
  const words = wordsOf(typed);
  const helper = command.createHelp();
  const names = isFlag
    ? helper.visibleOptions(command).flatMap(({ long }) => long ?? [])
    : helper.visibleCommands(command).map((each) => each.name());
  if (words.join("").length < 3) return [];
  return names.filter((name) => words.every((word) => wordsOf(name).some((each) => each.startsWith(word))));
}

function wordsOf(name: string): string[] {
  return name.replace(/^-+|=.*$/g, "").split("-");
}
