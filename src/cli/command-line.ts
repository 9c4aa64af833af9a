import type { CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { usage } from "../errors.ts";

/** A flag that takes a value, as it was typed. */
type ValueFlag = {
  word: string;
  option: Option;
  /** The part of the word that is its value: of `--model=ray-3` or `-mray-3`. */
  attached: string | undefined;
  /** `undefined` where the command line ends before it. */
  value: string | undefined;
};

type CommandLine = {
  /** The words that are neither flags nor their values; the first one is the command. */
  operands: string[];
  /** The others: flags and their values. */
  rest: string[];
  flags: ValueFlag[];
  /** Whether `--` was given: what follows are operands. */
  isLiteral: boolean;
};

/** Reads a command line as commander does. Flags without a value are left out. */
export function readCommandLine(program: CommandUnknownOpts, words: readonly string[]): CommandLine {
  const line: CommandLine = { operands: [], rest: [], flags: [], isLiteral: false };
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? "";
    if (line.isLiteral || !word.startsWith("-") || word === "-") line.operands.push(word);
    else if (word === "--") line.isLiteral = true;
    else {
      const flag = readFlag(program, word);
      const next = flag && flag.attached === undefined ? words[++i] : undefined;
      line.rest.push(word, ...(next === undefined ? [] : [next]));
      if (flag) line.flags.push({ word, value: flag.attached ?? next, ...flag });
    }
  }
  return line;
}

/** The flag with a value that a word names, of any command: a flag may come before its command. */
export function readFlag(
  program: CommandUnknownOpts,
  word: string,
): Pick<ValueFlag, "option" | "attached"> | undefined {
  const options = [program, ...program.commands].flatMap(({ options }) => options);
  const find = (name: string) => options.find(({ short, long, required }) => required && [short, long].includes(name));
  if (word.startsWith("--")) {
    const [, name = word, attached] = /^(--[^=]*)=(.*)$/s.exec(word) ?? [];
    const option = find(name);
    return option && { option, attached };
  }
  // Short flags may share a word, the last one with its value: -yo clips/ or -yoclips/.
  for (let i = 1; i < word.length; i++) {
    const option = find(`-${word[i]}`);
    if (option) return { option, attached: word.slice(i + 1) || undefined };
  }
  return undefined;
}

/**
 * Throws `usage` for a flag whose value is missing, so that commander would take the next flag for it: `-o --local` would go to the paid
 * service, and save to a file of that name. Also for `-m=ray-3`, where it would take the "=" for a part of the value.
 */
export function checkValues(program: CommandUnknownOpts, words: readonly string[]): void {
  for (const { word, option, attached, value = "" } of readCommandLine(program, words).flags) {
    const { short, long = "", flags } = option;
    if (!word.startsWith("--") && attached?.startsWith("="))
      throw usage(
        `${word} would set ${long} to "${value}". Nothing was sent.`,
        `Type ${short} ${value.slice(1)} or ${long}${value}.`,
      );
    if (attached === undefined && looksLikeFlag(value))
      throw usage(
        `${long} needs a value: ${long} ${/<.*>/.exec(flags)?.[0]}; the next word is ${value}. Nothing was sent.`,
        `If ${value} is the value, type ${long}=${value}.`,
      );
  }
}

/** The words that set a flag to a value, such as `-o fox.mp4`; `long` is its long name. */
export function valueWords(name: string, long: string, value: string): string[] {
  return looksLikeFlag(value) ? [`${long}=${value}`] : [name, value];
}

/** Whether a value may be a flag, also a misspelt one: where it costs money this is the safe guess. `-` is stdin, and `-5` a number. */
function looksLikeFlag(value: string): boolean {
  return /^-(-|[a-z])\S*$/i.test(value);
}

/** Quotes a word for a shell where it needs quotes; zsh expands a word that begins with "=". */
export function quote(word: string): string {
  return /^(?!=)[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
