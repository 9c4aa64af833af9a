import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { usage } from "../errors.ts";
import { commandLine, type Shell, type ShellIo, shellOf } from "../shell.ts";

/**
 * Joins each value that begins with a dash to its flag, as in --style="-quiet forest". As a separate word,
 * commander would read the value as global flags, such as -q.
 */
export function joinValues(argv: readonly string[], program: CommandUnknownOpts): readonly string[] {
  const name = argv.find((word) => !word.startsWith("-"));
  const command = program.commands.find((each) => each.name() === name);
  if (command === undefined || command.name() === "__complete") return argv;
  // commander's `required`: the flag takes a value.
  const options = [command, ...command.commands].flatMap((each) => each.options).filter(({ required }) => required);
  const joinedWords: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const [word = "", value] = argv.slice(at);
    if (word === "--") return [...joinedWords, ...argv.slice(at)];
    const option = options.find(({ short, long }) => word === short || word === long);
    if (option === undefined || value === undefined) joinedWords.push(word);
    else if (isDashedText(value)) joinedWords.push(`${option.long}=${value}`);
    else joinedWords.push(word, value);
    if (option !== undefined && value !== undefined) at++;
  }
  return joinedWords;
}

/**
 * The dashes that word processors put in place of "-" or "--", before the name of a flag; and spaces that are
 * no spaces to a shell.
 */
const dashedFlag = /^[-\u2010-\u2015\u2212]*[\u2010-\u2015\u2212][-\u2010-\u2015\u2212]*(?=\p{L}[\w-]*(=|$))/u;
const spacedFlag = /^[\u00a0\u2000-\u200d\u202f\u2060\u3000\ufeff]+(?=-)/;

const characterNames = new Map([
  ["\u2013", "an en dash"],
  ["\u2014", "an em dash"],
  ["\u2212", "a minus sign"],
  ["\u00a0", "a no-break space"],
  ["\u202f", "a narrow no-break space"],
  ["\ufeff", "a byte order mark"],
]);

/**
 * Throws `usage` for a flag with a dash or a space before it that only looks like one: it would become the
 * prompt, or a part of it.
 */
export function checkDashes(argv: readonly string[], io: ShellIo): void {
  const end = argv.indexOf("--");
  const words = end === -1 ? argv : argv.slice(0, end);
  const correct = (word: string) =>
    word.replace(spacedFlag, "").replace(dashedFlag, () => (/^.[^=]/.test(word.replace(dashedFlag, "")) ? "--" : "-"));
  const typed = words.find((word) => correct(word) !== word);
  if (typed === undefined) return;
  const [character = ""] = /[^\x21-\x7e]/u.exec(typed) ?? [];
  const code = `U+${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`;
  const name = characterNames.has(character) ? `${characterNames.get(character)} (${code})` : code;
  const line = commandLine(["vidgen", ...words.map(correct), ...argv.slice(words.length)], shellOf(io));
  throw usage(`"${typed}" begins with ${name} in place of "-". Nothing was sent.`, `Type: ${line}`);
}

/** Whether a word begins with a dash and cannot be a flag. */
function isDashedText(word: string): boolean {
  return /^-.*\s/s.test(word);
}

/** commander's code for an error, and the command that was typed. */
type ParseFailure = { code?: string | undefined; name?: string | undefined; shell: Shell };

/** What to type if an argument that begins with a dash, such as a prompt, was read as flags. `undefined` without one. */
export function dashHint(argv: readonly string[], { code, name, shell }: ParseFailure): string | undefined {
  const end = argv.indexOf("--");
  const words = end === -1 ? argv : argv.slice(0, end);
  const dashedWord =
    words.find((word) => isDashedText(word) && !/^--[\w-]+=/.test(word)) ??
    // A single word counts as a prompt if it has three letters: -quiet, but not the flags -qv. If no command
    // was typed, it does not count, because the hint would be a paid `generate`.
    words.find((word) => name !== undefined && code === "commander.unknownOption" && /^-\p{L}{3}/u.test(word));
  if (dashedWord === undefined) return undefined;
  const otherWords = words.filter((word) => word !== dashedWord && word !== name);
  const line = commandLine(["vidgen", name ?? "generate", ...otherWords, "--", dashedWord], shell);
  return `An argument that begins with a dash goes after --: ${line}`;
}
