import type { Command, CommanderError } from "commander";
import { usage, type VidgenError } from "../errors.ts";

/** What commander says of a command line it cannot use, as the one error: what is wrong, that nothing was sent, and what to type next. */
export function explainMisuse(
  { code, message }: CommanderError,
  program: Command,
  argv: readonly string[],
): VidgenError {
  if (code === "commander.help") return usage("There is no command.", "`vidgen --help` lists them.");
  const [what = "", guess] = message.replace(/^error: /, "").split(/\n\((Did you mean .*\?)\)$/);
  const sentence = inOurWords(what) ?? `${what.charAt(0).toUpperCase()}${what.slice(1)}`.replace(/\.?$/, ".");
  const all = [sentence, ...(guess === undefined ? [] : [guess]), "Nothing was sent."].join(" ");
  return usage(all, nextCommand(code, what, { program, argv }));
}

/** What is wrong with the value of a flag or an argument, as vidgen says it of those that it checks itself. */
function inOurWords(message: string): string | undefined {
  const [, lacking, form] = /^option '(?:-\w, )?(--\S+) (\S+)' argument missing$/.exec(message) ?? [];
  if (lacking !== undefined) return `${lacking} needs a value: ${lacking} ${form}.`;
  const [what = "", choices] = message.replace(/\.$/, "").split(". Allowed choices are ");
  if (choices === undefined) return undefined;
  const [, flag, value] = /^option '(?:-\w, )?(--\S+) \S+' argument '(.*)' is invalid$/s.exec(what) ?? [];
  if (flag !== undefined) return `${flag} takes ${choices}, not "${value}".`;
  const [, word, argument] = /^command-argument value '(.*)' is invalid for argument '(\w+)'$/s.exec(what) ?? [];
  return argument && `<${argument}> is one of ${choices}, not "${word}".`;
}

/** Where a usage error leaves open what to type next: the help of the command it is about. */
export function withNextCommand(error: VidgenError, program: Command, argv: readonly string[]): VidgenError {
  const isOpen = error.code === "usage" && error.hint === undefined;
  return isOpen ? error.with({ hint: helpOf(findCommand(program, argv)) }) : error;
}

type Context = { program: Command; argv: readonly string[] };

function nextCommand(code: string, message: string, { program, argv }: Context): string {
  const command = findCommand(program, argv);
  const flag = code === "commander.unknownOption" ? /'([^'=]+)/.exec(message)?.[1] : undefined;
  const owners = program.commands.filter(({ options }) =>
    options.some(({ short, long }) => flag !== undefined && [short, long].includes(flag)),
  );
  const names = owners.map((owner) => owner.name()).join(", ");
  return names === "" ? helpOf(command) : `${flag} is a flag of: ${names}. ${helpOf(command)}`;
}

function helpOf(command: Command | undefined): string {
  return command ? `\`vidgen ${command.name()} --help\` shows how it is used.` : "`vidgen --help` lists the commands.";
}

function findCommand(program: Command, argv: readonly string[]): Command | undefined {
  const name = argv.find((word) => !word.startsWith("-"));
  return program.commands.find((command) => command.name() === name);
}
