import { CommanderError, type CommandUnknownOpts, type Option } from "@commander-js/extra-typings";
import { settingNames } from "../connect/settings.ts";
import { asVidgenError, usage, type VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { findSimilar } from "../protocol/models.ts";
import { commandLine, quote, quoteText, type Shell, shellOf } from "../shell.ts";
import { flagWords, missingPrompt } from "./command.ts";
import type { Context } from "./context.ts";
import { dashHint } from "./dashes.ts";
import { commandOf } from "./program.ts";
import { describeSaved, lastWord } from "./saved-file.ts";
import { asTyped } from "./terminal/output.ts";
import { askWhether, canAsk, withoutCurlyQuotes } from "./terminal/prompts.ts";
import { flagHintFor, hintFor, keyAdvice } from "./words.ts";

type TypedCommand = {
  argv: readonly string[];
  program: CommandUnknownOpts | undefined;
  io: Io;
};

/** A usage error, or commander's own, with a hint that says what to type next. */
export async function explainUsage(error: unknown, { argv, program, io }: TypedCommand): Promise<VidgenError> {
  const name = commandOf(argv);
  const shell = shellOf(io);
  const help = name === undefined ? "See `vidgen --help` for the commands." : `See \`vidgen ${name} --help\`.`;
  if (error instanceof CommanderError && program !== undefined) {
    const line = withTwoDashes(argv, program, shell);
    if (line !== undefined) return usage(sentenceOf(error, program).sentence, `Long flags have two dashes: ${line}`);
    return explainParsing(error, {
      argv,
      program,
      io,
      dashAdvice: dashHint(argv, { code: error.code, name, shell }),
      help,
    });
  }
  const known = asVidgenError(error);
  if (known.hint !== undefined && known.message !== missingPrompt) return known;
  // The help of the command explains its flags and arguments, not a file or a service.
  const isAboutLine = /(^|[\s`"'])--?[a-z]/.test(known.message) || known.message === missingPrompt;
  const stockHint = known.hint === undefined && isAboutLine ? help : undefined;
  return known.with({ hint: dashHint(argv, { name, shell }) ?? stockHint });
}

/** The line with a second dash for long flags that have only one, as in `-local`; `undefined` if it has no such flag. */
function withTwoDashes(argv: readonly string[], program: CommandUnknownOpts, shell: Shell): string | undefined {
  const commands = [program, ...program.commands, ...program.commands.flatMap((each) => each.commands)];
  const flags = new Set(["--help", ...commands.flatMap(({ options }) => options.map(({ long }) => long))]);
  const isShort = (word: string) => /^-\w/.test(word) && flags.has(`-${word.split("=", 1)[0]}`);
  if (!argv.some(isShort)) return undefined;
  return commandLine(["vidgen", ...argv.map((word) => (isShort(word) ? `-${word}` : word))], shell);
}

/** `dashAdvice` says what to type for an argument that begins with a dash. */
type ParseContext = Omit<TypedCommand, "program"> & {
  program: CommandUnknownOpts;
  dashAdvice: string | undefined;
  help: string;
};

/** commander's error as a usage error: its sentence, a guess, and what to type next. */
async function explainParsing(error: CommanderError, parsing: ParseContext): Promise<VidgenError> {
  const { argv, program, io, dashAdvice, help } = parsing;
  const { code } = error;
  const shell = shellOf(io);
  const command = findParsed(program);
  const takesPrompt = command.registeredArguments.at(-1)?.name() === "prompt";
  if (code === "commander.excessArguments" && takesPrompt) return tooManyPrompts(command, argv, shell);
  if (code === "commander.excessArguments" && isGroup(command)) return unknownSubcommand(command);
  const { sentence, similar } = sentenceOf(error, command);
  const flagHint = code === "commander.unknownOption" ? flagHintFor(argv, command.name(), shell) : undefined;
  const argumentHint = flagHint ?? wrongArgumentHint(code, command, shell);
  if (argumentHint !== undefined) return usage(sentence, argumentHint);
  const words = code === "commander.unknownCommand" ? operandsOf(command.args) : [];
  const isFlagBeforeCommand = dashAdvice === undefined && code === "commander.unknownOption" && command === program;
  const hint = isFlagBeforeCommand ? await flagsAfterCommand(argv, program, io) : findHint(words, shell);
  if (hint !== undefined) return usage(sentence, hint);
  const [word] = words;
  const savedHint = word !== undefined && words.length === 1 ? await describeSaved(word, io) : undefined;
  if (savedHint !== undefined) return usage(sentence, savedHint);
  const longerNames = findLongerNames(code, command);
  const guess = longerNames.length === 0 ? similar : `Did you mean ${longerNames.join(" or ")}?`;
  if (guess !== undefined) return usage(`${sentence} ${guess}`, dashAdvice ?? help);
  if (!(await isPrompt(words, program, io))) return usage(sentence, dashAdvice ?? help);
  const line = lineOf("generate", { words, flags: command.args.slice(words.length) }, shell);
  return usage(sentence, `To generate a video from this prompt: ${line}`);
}

/**
 * What is wrong, without the value of an unknown flag, which may be a key; and commander's guess, which is on
 * a line of its own and in parentheses.
 */
function sentenceOf({ code, message }: CommanderError, command: CommandUnknownOpts) {
  const [what = "", guess] = message.replace(/^error: /, "").split(/\n\((.*)\)$/);
  const similar = guess?.replace(/one of (.*), /, "$1 or ");
  const find = (pattern: RegExp) => pattern.exec(what)?.slice(1) ?? [];
  const name = pathOf(command);
  switch (code) {
    case "commander.unknownOption":
      return { sentence: `Unknown option '${find(/^unknown option '([^=]*)/)[0]?.replace(/'$/, "")}'.`, similar };
    case "commander.missingArgument":
      return { sentence: `${name} needs <${find(/argument '(.*)'/)[0]}>.`, similar };
    case "commander.missingMandatoryOptionValue":
      return { sentence: `${name} needs ${find(/option '(.*)'/)[0]}.`, similar };
    case "commander.optionMissingArgument": {
      const [flag = ""] = find(/(--\S+ <[^>]*>)/);
      return { sentence: `${flag.split(" ")[0]} needs a value: ${flag}.`, similar };
    }
    case "commander.excessArguments": {
      const [limit] = find(/Expected (\d+)/);
      return { sentence: `${name} takes ${limit === "0" ? "no argument" : "one argument"}.`, similar };
    }
    case "commander.invalidArgument": {
      const [flag, typed = "", choices = ""] = find(
        /(--\S+).*argument '(.*)' is invalid\. Allowed choices are (.*)\.$/,
      );
      if (flag !== undefined) return { sentence: `${flag} must be ${joinChoices(choices)}, not "${typed}".`, similar };
      const [value = "", argument, names = ""] = find(/value '(.*)' is invalid for argument '(.*)'\. .* are (.*)\.$/);
      return { sentence: `The ${argument} must be ${joinChoices(names)}, not "${value}".`, similar };
    }
    default:
      return { sentence: `${what.charAt(0).toUpperCase()}${what.slice(1)}`.replace(/\.?$/, "."), similar };
  }
}

const joinChoices = (list: string) => list.replace(/, ([^,]*)$/, " or $1");

/** The names of a command and its group, such as "config set". */
function pathOf(command: CommandUnknownOpts): string {
  const { parent } = command;
  return parent === null || parent.parent === null ? command.name() : `${pathOf(parent)} ${command.name()}`;
}

/** What to type in place of an argument that `login` or `config set` does not take. */
function wrongArgumentHint(code: string, command: CommandUnknownOpts, shell: Shell): string | undefined {
  const name = pathOf(command);
  const [word = ""] = command.args;
  if (name === "login" && code === "commander.excessArguments") {
    if (/[.:]|^localhost/.test(word)) return `Type: ${commandLine(["vidgen", "login", "--base-url", word], shell)}`;
    if (/\d/.test(word) || word.length > 20) return keyAdvice;
    return "login is for a service of the vidgen API. For the key of a provider, see `vidgen help real-models`.";
  }
  if (!/^config (set|unset)$/.test(name) || code !== "commander.invalidArgument") return undefined;
  if (/key|token/i.test(word)) return command.args.length > 1 ? keyAdvice : "`vidgen logout` deletes a saved key.";
  const guess = findSimilar(word.replaceAll("-", "_"), settingNames);
  return guess === undefined ? undefined : `Did you mean ${guess}?`;
}

/** The hint for words that do not begin with a command; also for two words quoted as one, such as "rm df27". */
function findHint([word = "", ...rest]: readonly string[], shell: Shell): string | undefined {
  const [first = "", second = "", ...others] = word.split(/\s+/);
  const isPair = rest.length === 0 && second !== "" && others.length === 0;
  return hintFor(word, rest, shell) ?? (isPair ? hintFor(first, [second], shell) : undefined);
}

/** The words before the first flag. */
function operandsOf(words: readonly string[]): readonly string[] {
  const end = words.findIndex((word) => word.startsWith("-"));
  return end === -1 ? words : words.slice(0, end);
}

/** The minimum number of words that count as a prompt without quotes. */
const minWords = 3;

/**
 * Whether words must be a prompt, which costs money: a text with a space, or several words, none of them a
 * command, an id or a file.
 */
async function isPrompt(
  words: readonly string[],
  program: CommandUnknownOpts,
  { disk }: Pick<Io, "disk">,
): Promise<boolean> {
  const names = program.commands.map((each) => each.name());
  if (words.length < minWords) {
    const [first = "", ...others] = words.length === 1 ? (words[0] ?? "").split(/\s+/) : [];
    // A command and its argument quoted as one, such as "wait df27", are not a prompt.
    return others.length > 0 && !(others.length === 1 && names.includes(first));
  }
  if (words.some((word) => names.includes(word) || word === lastWord || isLikeId(word))) return false;
  const found = await Promise.all(words.map((word) => disk.stat(word).catch(() => undefined)));
  return found.every((stats) => stats === undefined);
}

/** Whether a word may be an id, a part of one, or the name of a file. */
function isLikeId(word: string): boolean {
  return /^(?=.*\d)([0-9a-f-]{4,}|.*_.*)$/i.test(word) || /[/\\]|\.\w{2,4}$/.test(word);
}

/** What to type if a command's flags come before it; `undefined` if no command has these flags. */
async function flagsAfterCommand(
  argv: readonly string[],
  program: CommandUnknownOpts,
  io: TypedCommand["io"],
): Promise<string | undefined> {
  const shell = shellOf(io);
  const all = [program, ...program.commands].flatMap(({ options }) => options);
  const flags: string[] = [];
  let at = 0;
  for (; argv[at]?.startsWith("-"); at++) {
    const [word = "", value] = argv.slice(at);
    const option = findOption(word, all);
    if (option === undefined) return undefined;
    flags.push(word);
    if (!takesNext(option, word) || value === undefined) continue;
    flags.push(value);
    at++;
  }
  const rest = argv.slice(at);
  const typedCommand = program.commands.find((each) => each.name() === rest[0]);
  if (typedCommand) {
    const [name = "", ...others] = rest;
    return `Flags come after \`${name}\`: ${commandLine(["vidgen", name, ...others, ...flags], shell)}`;
  }
  const operands = operandsOf(rest);
  if (!(await isPrompt(operands, program, io)))
    return `Flags come after the command: vidgen <command> ${commandLine(flags, shell)}`;
  const line = lineOf("generate", { words: operands, flags: [...rest.slice(operands.length), ...flags] }, shell);
  return `Flags come after \`generate\`: ${line}`;
}

/** The flag in a word, also with its value, as in `--model=ray-3` and `-mray-3`. */
function findOption(word: string, options: readonly Option[]): Option | undefined {
  const [long = ""] = word.split("=", 1);
  const isShort = /^-[^-]/.test(word);
  return options.find((option) => (isShort ? option.short === word.slice(0, 2) : option.long === long));
}

/** Whether the value of a flag is the next word. */
function takesNext({ required, short, long }: Option, word: string): boolean {
  return required && (word === short || word === long);
}

/** Whether a command only groups others, such as `config`: commander runs the default one for any other word. */
function isGroup({ commands, registeredArguments }: CommandUnknownOpts): boolean {
  return commands.length > 0 && registeredArguments.length === 0;
}

function unknownSubcommand(group: CommandUnknownOpts): VidgenError {
  const [typed = ""] = group.args;
  const names = group.commands.map((each) => each.name());
  const hint = hintFor(`${group.name()} ${typed}`);
  const similar = hint === undefined ? findSimilar(typed, names) : undefined;
  const guess = similar === undefined ? "" : ` Did you mean ${similar}?`;
  const list = `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  return usage(
    `Unknown command '${typed}' of ${group.name()}.${guess}`,
    hint ?? `The commands of ${group.name()} are ${list}.`,
  );
}

/** The command that was parsed last. */
function findParsed(command: CommandUnknownOpts): CommandUnknownOpts {
  const next = command.commands.find((each) => each.name() === command.args[0]);
  return next === undefined ? command : findParsed(next);
}

/** The error for more than one argument, which is a prompt without quotes, a value with a space in it, or several prompts. */
function tooManyPrompts(command: CommandUnknownOpts, argv: readonly string[], shell: Shell): VidgenError {
  const { name: words, prompts, flags, cut } = readPrompts(command, argv);
  const name = words.join(" ");
  if (prompts.length > 1 && prompts.some((prompt) => /\s/.test(prompt)))
    return usage(
      `Too many arguments: ${command.name()} takes one prompt, not ${prompts.length}.`,
      "For several videos of one prompt, add -n. For several prompts, write them to a file, one per line: vidgen help batch",
    );
  if (cut !== undefined)
    return usage(
      `Too many arguments: ${quote(cut.rest.join(" "), shell)} follows ${cut.flag} ${cut.value}.`,
      `Quote a value that has a space in it: ${lineOf(name, { words: prompts, flags }, shell)}`,
    );
  return usage("Too many arguments.", `Quote the prompt: ${lineOf(name, { words: prompts, flags }, shell)}`);
}

/**
 * The line with one prompt, if commander refused several, and a person at a terminal says that one was meant.
 * `undefined` otherwise: then the error says what to type.
 */
export async function askOnePrompt(
  error: unknown,
  argv: readonly string[],
  program: CommandUnknownOpts | undefined,
  context: Pick<Context, "io" | "input">,
): Promise<string[] | undefined> {
  if (!(error instanceof CommanderError && error.code === "commander.excessArguments" && program)) return undefined;
  const command = findParsed(program);
  const { name, prompts, flags, cut } = readPrompts(command, argv);
  if (command.registeredArguments.at(-1)?.name() !== "prompt" || cut || !canAsk(context, context.io)) return undefined;
  const line = lineOf(name.join(" "), { words: prompts, flags }, shellOf(context.io));
  const question = `${command.name()} takes one prompt, not ${prompts.length}. Did you mean this? ${asTyped(`: ${line}`, context.io.env).slice(2)}`;
  // Whoever quoted each of them probably wants several videos, and Enter would pay for one.
  const isLikely = !prompts.some((prompt) => /\s/.test(prompt));
  if (!(await askWhether(question, isLikely, context.io))) return undefined;
  return [...name, prompts.join(" "), ...flags, ...flagWords(program, program.opts())];
}

/** The prompts that were typed, the words before them, and the flags. */
function readPrompts(command: CommandUnknownOpts, argv: readonly string[]) {
  const before = command.registeredArguments.length - 1;
  const { text, flags, cut } = joinCutValues(argv.slice(argv.indexOf(command.name()) + 1 + before), command);
  const name = [command.name(), ...command.args.slice(0, before)];
  if (cut !== undefined) return { name, prompts: text, flags, cut };
  return { name, prompts: command.args.slice(before), flags: flagWords(command, command.opts()), cut };
}

type CutValue = { flag: string; value: string; rest: string[] };

/**
 * The words of a command, with words between a flag's value and the next flag joined to that value, as in
 * `--timeout 5 minutes`. `text` are the words before the first flag; without any, nothing is joined, since
 * the prompt may follow a value.
 */
function joinCutValues(words: readonly string[], command: CommandUnknownOpts) {
  const text = operandsOf(words);
  const flags: string[] = [];
  let cut: CutValue | undefined;
  for (let at = text.length; text.length > 0 && at < words.length; at++) {
    const [word = "", value = ""] = words.slice(at);
    const option = word.startsWith("-") ? findOption(word, command.options) : undefined;
    flags.push(word);
    if (option === undefined || !takesNext(option, word)) continue;
    const rest = operandsOf(words.slice(at + 2));
    flags.push([value, ...rest].join(" "));
    if (rest.length > 0) cut ??= { flag: word, value, rest: [...rest] };
    at += 1 + rest.length;
  }
  return { text, flags, cut };
}

type LineParts = { words: readonly string[]; flags: readonly string[] };

/** The command line that generates a video from these words. */
function lineOf(name: string, { words, flags }: LineParts, shell: Shell): string {
  const prompt = quoteText(withoutCurlyQuotes(words.join(" ")), shell);
  return [`vidgen ${name}`, prompt, ...flags.map((flag) => quote(flag, shell))].join(" ");
}

/** The flags that a shortened name may mean, such as --aspect for --aspect-ratio; commander finds only similar names. */
function findLongerNames(code: string, command: CommandUnknownOpts): string[] {
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
