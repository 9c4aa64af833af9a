import { CommanderError, type CommandUnknownOpts } from "@commander-js/extra-typings";
import { asVidgenError, usage, type VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { checkValues, quote, readCommandLine } from "./command-line.ts";
import type { Close, Context } from "./context.ts";
import { commandOf, createProgram, readGlobalFlags } from "./program.ts";
import { findKeys } from "./settings.ts";
import { createOutput } from "./terminal/output.ts";

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
  try {
    if (output.events && output.json) throw usage("--events and --json cannot be combined: both write to stdout.");
    const program = await createProgram(argv, context);
    checkValues(program, argv);
    await program.parseAsync(argv, { from: "user" }).catch(ignoreHelpShown);
    await output.printed();
  } catch (error) {
    code = output.fail(await explain(error, argv, context));
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
async function explain(error: unknown, argv: readonly string[], context: Context): Promise<VidgenError> {
  const name = commandOf(argv);
  const help = name === undefined ? "See `vidgen --help` for the commands." : `See \`vidgen ${name} --help\`.`;
  if (error instanceof CommanderError)
    return explainUsageError(error, { program: await createProgram([], context), argv, name, help });
  const known = asVidgenError(error);
  return known.code === "usage" && known.hint === undefined ? known.with({ hint: help }) : known;
}

type Typed = { program: CommandUnknownOpts; argv: readonly string[]; name: string | undefined; help: string };

/** commander's error as a usage error: what is wrong, and what to type next. */
function explainUsageError({ code, message }: CommanderError, { program, argv, name, help }: Typed): VidgenError {
  const { operands, rest } = readCommandLine(program, argv);
  const asPrompt = (words: string[]) => {
    const text = words.join(" ");
    // Windows knows double quotes alone.
    const prompt = /["$`\\!%]/.test(text) ? quote(text) : `"${text}"`;
    return ["vidgen generate", prompt, ...rest.map(quote)].join(" ");
  };
  if (code === "commander.excessArguments" && message.includes("'generate'"))
    return usage("Too many words.", `Quote the prompt: ${asPrompt(operands.slice(1))}`);
  const [what = "", similar] = message.replace(/^error: /, "").split(/\n\((Did you mean .*\?)\)$/);
  const flag = code === "commander.unknownOption" ? /'([^'=]+)/.exec(what)?.[1] : undefined;
  const longer = flag === undefined ? [] : findLongerFlags(flag, program, name);
  const guess = longer.length === 0 ? similar : `Did you mean ${longer.join(" or ")}?`;
  // Several words, or one with a space, read as a prompt.
  if (code === "commander.unknownCommand" && guess === undefined && /\s/.test(operands.join(" ")))
    return usage(`Unknown command '${operands[0]}'.`, `To make a video of it: ${asPrompt(operands)}`);
  const sentence = rephrase(what) ?? `${what.charAt(0).toUpperCase()}${what.slice(1)}`.replace(/\.?$/, ".");
  const owners = program.commands.filter(({ options }) =>
    options.some(({ short, long }) => flag !== undefined && [short, long].includes(flag)),
  );
  const names = owners.map((owner) => owner.name()).join(", ");
  return usage(
    guess === undefined ? sentence : `${sentence} ${guess}`,
    names === "" ? help : `${flag} is a flag of ${names}. ${help}`,
  );
}

/** The flags of a command with all words of a shorter one, such as "--aspect-ratio" for "--aspect"; commander finds those with similar letters. */
function findLongerFlags(typed: string, program: CommandUnknownOpts, name: string | undefined): string[] {
  const words = typed.replace(/^-+/, "").split("-");
  const options = program.commands.find((command) => command.name() === name)?.options ?? [];
  const flags = options.flatMap(({ long, hidden }) => (long && !hidden ? long : []));
  return flags.filter((long) => words.every((word) => long.slice(2).split("-").includes(word)));
}

/** commander's message about a wrong value, in the words of vidgen's own checks; `undefined` for other messages. */
function rephrase(message: string): string | undefined {
  const [, missing, form] = /^option '(?:-\w, )?(--\S+) (\S+)' argument missing$/.exec(message) ?? [];
  if (missing !== undefined) return `${missing} needs a value: ${missing} ${form}.`;
  const [what = "", choices] = message.replace(/\.$/, "").split(". Allowed choices are ");
  if (choices === undefined) return undefined;
  const [, flag, value] = /^option '(?:-\w, )?(--\S+) \S+' argument '(.*)' is invalid$/s.exec(what) ?? [];
  if (flag !== undefined) return `${flag} must be one of ${choices}, not "${value}".`;
  const [, word, argument] = /^command-argument value '(.*)' is invalid for argument '(\w+)'$/s.exec(what) ?? [];
  return argument && `<${argument}> must be one of ${choices}, not "${word}".`;
}
