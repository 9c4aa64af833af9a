import type { Io } from "./io.ts";

/**
 * The shells that command lines are written for. "cmd" is any shell on Windows that is not known to be
 * PowerShell: its lines use double quotes, which PowerShell reads too, unless the text has `$`, a backtick or
 * several `%`. "powershell 5" is Windows PowerShell.
 */
export type Shell = "posix" | "cmd" | "powershell" | "powershell 5";

export type ShellIo = Pick<Io, "platform" | "env" | "home">;

/**
 * The shell of the user. PowerShell puts the user's own folder of modules before those of the machine in
 * PSModulePath; cmd has the variable too, without that folder.
 */
export function shellOf({ platform, env, home }: ShellIo): Shell {
  if (platform !== "win32") return "posix";
  const [first = ""] = (env.PSModulePath ?? "").toLowerCase().split(";");
  if (home === "" || !first.startsWith(`${home.toLowerCase()}\\`)) return "cmd";
  return first.includes("\\windowspowershell\\") ? "powershell 5" : "powershell";
}

/** Writes words as one command line, which a person can paste into the shell. */
export function commandLine(words: readonly string[], shell: Shell): string {
  return words.map((word) => quote(word, shell)).join(" ");
}

/** Quotes a word for a shell if it needs quotes. With wrong quotes, the prompt would be another one, and paid for again. */
export function quote(word: string, shell: Shell): string {
  if (isPlain(word, shell)) return word;
  return shell === "posix" ? quotePosix(word) : quoteText(word, shell);
}

/** Quotes a text for a shell in any case, with double quotes where they do not change it. */
export function quoteText(text: string, shell: Shell): string {
  if (shell === "cmd") return quoteCmd(text);
  if (shell !== "posix") return quotePowerShell(text, shell);
  return /["$`\\!%]/.test(text) || text.search(unsafe) !== -1 ? quotePosix(text) : `"${text}"`;
}

/**
 * PowerShell makes a list of words with a comma, and splits a flag at a dot or a colon; zsh expands a word
 * that begins with `=`.
 */
function isPlain(word: string, shell: Shell): boolean {
  if (shell === "posix") return /^(?!=)[\w@%+=:,./-]+$/.test(word);
  return /^(?!-.*[.:])[\w+=:./\\-]+$/.test(word);
}

/**
 * Characters that a terminal could interpret or hide when a line is pasted or shown. The pattern is global,
 * for `replace`; so texts are tested with `search`, because `test` would continue after the previous match.
 */
export const unsafe = /(?![\n\t])[\p{Cc}\p{Bidi_Control}]/gu;

function quotePosix(text: string): string {
  if (text.search(unsafe) === -1) return `'${text.replaceAll("'", "'\\''")}'`;
  const escaped = text.replaceAll("\\", "\\\\").replace(unsafe, octalText);
  return `"$(printf %b ${quotePosix(escaped)})"`;
}

/** Escapes each byte for `printf %b`. */
function octalText(character: string): string {
  return [...Buffer.from(character)].map((byte) => `\\0${byte.toString(8).padStart(3, "0")}`).join("");
}

/** Doubles each quote, which cmd and PowerShell read as one, and the backslashes before a quote, which the program halves. */
function quoteCmd(text: string): string {
  const inner = text.replace(
    /(\\*)("|$)/g,
    (_, backslashes: string, quote: string) => backslashes.repeat(2) + quote.repeat(2),
  );
  // cmd replaces %NAME% even inside quotes. Outside quotes, a caret makes each % an ordinary character.
  const hasVariable = (text.match(/%/g) ?? []).length > 1;
  return `"${hasVariable ? inner.replaceAll("%", '"^%"') : inner}"`;
}

/** PowerShell treats typographic quotes as quotes. */
function quotePowerShell(text: string, shell: Shell): string {
  // Windows PowerShell does not escape the quotes in an argument for the program.
  const argument =
    shell === "powershell 5"
      ? text.replace(/(\\*)("|$)/g, (_, backslashes: string, quote: string) => backslashes.repeat(2) + (quote && '\\"'))
      : text;
  if (argument.search(unsafe) !== -1) {
    const escaped = argument
      .replace(/[`$"\u201c-\u201e]/g, "`$&")
      .replace(unsafe, (character) => `$([char]0x${character.charCodeAt(0).toString(16)})`);
    return `"${escaped}"`;
  }
  if (/[`$"\u201c-\u201e]/.test(argument)) return `'${argument.replace(/['\u2018-\u201b]/g, "$&$&")}'`;
  return `"${argument}"`;
}

/** The line that passes a text to the stdin of a command. */
export function pipeLine(text: string, command: string, shell: Shell): string {
  if (shell === "posix") return `printf %s ${quote(text, shell)} | ${command}`;
  if (shell === "cmd") return `echo ${text.replace(/[\^&|<>%"()]/g, "^$&")}| ${command}`;
  // Without the escapes of "powershell 5", which are for arguments of programs.
  return `${quoteText(text, shell === "powershell 5" ? "powershell" : shell)} | ${command}`;
}

/** The line that sets an environment variable for the commands after it. */
export function exportLine(name: string, value: string, shell: Shell): string {
  if (shell === "posix") return `export ${name}=${quote(value, shell)}`;
  return shell === "cmd" ? `set "${name}=${value}"` : `$env:${name} = ${quoteText(value, "powershell")}`;
}

/** The command that creates a folder with its parents; `undefined` for a name that needs quotes. */
export function makeFolderLine(folder: string, shell: Shell): string | undefined {
  if (folder.startsWith("-") || !isPlain(folder, shell)) return undefined;
  return shell === "posix" ? `mkdir -p ${folder}` : `mkdir ${folder}`;
}
