import type { Io } from "../../io.ts";

/** Whether the locale is ASCII only. */
export function isAscii({ LC_ALL, LC_CTYPE, LANG }: Io["env"]): boolean {
  return /^(C|POSIX)$/.test(LC_ALL || LC_CTYPE || LANG || "");
}

/** The ellipsis for a text that is cut off, in ASCII if the locale is ASCII. */
export function ellipsisFor(env: Io["env"]): "..." | "\u2026" {
  return isAscii(env) ? "..." : "\u2026";
}

/** Wraps lines that are wider than the terminal, between words and with the same indentation. */
export function wrapWords(text: string, columns: number): string {
  return text.replace(/.+/g, (line) => wrapLine(line, columns));
}

/** The parts of a line between which it may be wrapped. A command is one part: pasted with a line break, it would run as two commands. */
const words = /(?:(?<=: )|^ *)(?:npx |(?:printf|echo|["']).*\| )?vidgen .*|[^\s`]*`[^`]*`\S*|\S+/g;

function wrapLine(line: string, columns: number): string {
  if (line.length <= columns) return line;
  const indent = /^ */.exec(line)?.[0] ?? "";
  const lines = [""];
  for (const [word] of line.slice(indent.length).matchAll(words)) {
    const last = lines.at(-1) ?? "";
    const whole = last === "" ? `${indent}${word}` : `${last} ${word}`;
    if (last === "" || whole.length <= columns) lines[lines.length - 1] = whole;
    else lines.push(`${indent}${word}`);
  }
  return lines.join("\n");
}
