import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import {
  commandLine,
  exportLine,
  makeFolderLine,
  pipeLine,
  quote,
  quoteText,
  type Shell,
  shellOf,
} from "../src/shell.ts";
import { lacks } from "./needs.ts";

const user = "C:\\Users\\Ann";
const ofMachine =
  "C:\\Program Files\\WindowsPowerShell\\Modules;C:\\Windows\\system32\\WindowsPowerShell\\v1.0\\Modules";

test.each<[string, Shell]>([
  [`${user}\\Documents\\PowerShell\\Modules;${ofMachine}`, "powershell"],
  [`${user}\\OneDrive\\Documents\\PowerShell\\Modules;${ofMachine}`, "powershell"],
  [`c:\\users\\ann\\Documents\\WindowsPowerShell\\Modules;${ofMachine}`, "powershell 5"],
  [ofMachine, "cmd"],
  [`${ofMachine};${user}\\Documents\\PowerShell\\Modules`, "cmd"],
  [`${user}a\\Documents\\PowerShell\\Modules`, "cmd"],
  ["", "cmd"],
])("with PSModulePath=%s on Windows, lines are for %s; elsewhere for a POSIX shell", (PSModulePath, shell) => {
  expect(shellOf({ platform: "win32", env: { PSModulePath }, home: user })).toBe(shell);
  expect(shellOf({ platform: "linux", env: { PSModulePath }, home: user })).toBe("posix");
});

/** A word as it is written for POSIX shells, cmd (and where possible PowerShell), PowerShell 7 and Windows PowerShell. */
const words: [word: string, posix: string, cmd: string, powershell: string, five?: string][] = [
  ["fox.mp4", "fox.mp4", "fox.mp4", "fox.mp4"],
  ["--model", "--model", "--model", "--model"],
  ["C:\\clips\\fox.mp4", "'C:\\clips\\fox.mp4'", "C:\\clips\\fox.mp4", "C:\\clips\\fox.mp4"],
  ["a red fox", "'a red fox'", '"a red fox"', '"a red fox"'],
  ["it's a fox", "'it'\\''s a fox'", `"it's a fox"`, `"it's a fox"`],
  ["a & b | c > d ^ e", "'a & b | c > d ^ e'", '"a & b | c > d ^ e"', '"a & b | c > d ^ e"'],
  ["@prompt.txt", "@prompt.txt", '"@prompt.txt"', '"@prompt.txt"'],
  ["model=ray-3,wan-2.5", "model=ray-3,wan-2.5", '"model=ray-3,wan-2.5"', '"model=ray-3,wan-2.5"'],
  ["--out=a.mp4", "--out=a.mp4", '"--out=a.mp4"', '"--out=a.mp4"'],
  ["=fox", "'=fox'", "=fox", "=fox"],
  ["{slug}-{n}.mp4", "'{slug}-{n}.mp4'", '"{slug}-{n}.mp4"', '"{slug}-{n}.mp4"'],
  ["50% off", "'50% off'", '"50% off"', '"50% off"'],
  ["50% to %PATH%", "'50% to %PATH%'", '"50"^%" to "^%"PATH"^%""', '"50% to %PATH%"'],
  ['say "hi"', `'say "hi"'`, '"say ""hi"""', `'say "hi"'`, `'say \\"hi\\"'`],
  ["costs $5", "'costs $5'", '"costs $5"', "'costs $5'"],
  ["a `fox`", "'a `fox`'", '"a `fox`"', "'a `fox`'"],
  ["it's $5", "'it'\\''s $5'", `"it's $5"`, "'it''s $5'"],
  [
    "\u201chi\u201d, it\u2019s",
    "'\u201chi\u201d, it\u2019s'",
    '"\u201chi\u201d, it\u2019s"',
    "'\u201chi\u201d, it\u2019\u2019s'",
  ],
  ["my clips\\", "'my clips\\'", '"my clips\\\\"', '"my clips\\"', '"my clips\\\\"'],
  ["", "''", '""', '""'],
];

test.each(words)("%j is written as %s, %s and %s", (word, posix, cmd, powershell, five = powershell) => {
  const shells: Shell[] = ["posix", "cmd", "powershell", "powershell 5"];
  expect(shells.map((shell) => quote(word, shell))).toEqual([posix, cmd, powershell, five]);
});

test.skipIf(lacks("sh"))("sh reads what was meant, controls and marks of direction included", () => {
  const odd = [...words.map(([word]) => word), "a\u001b[31m\u202efox", "\u0007$x\\n", "two\nlines"];
  const line = commandLine(["printf", "%s\\0", ...odd], "posix");
  expect(execFileSync("sh", ["-c", line], { encoding: "utf8" }).split("\0").slice(0, -1)).toEqual(odd);
});

/** The arguments that a program on Windows gets of a line, once cmd has read it: the rules of Microsoft's C runtime. */
function readCmd(line: string): string[] {
  let isQuoted = false;
  let passed = "";
  for (let at = 0; at < line.length; at++) {
    const letter = line[at] ?? "";
    if (letter === '"') isQuoted = !isQuoted;
    if (letter === "^" && !isQuoted) passed += line[++at] ?? "";
    else passed += letter;
  }
  const parse = /(?:[^\s"\\]|\\+(?!\\*")|(?:\\\\)*(?:\\"|"(?:[^"\\]|\\+(?!\\*")|(?:\\\\)*(?:\\"|""))*(?:\\\\)*"))+/g;
  const unquote = (word: string) => {
    let text = "";
    let isInside = false;
    for (let at = 0; at < word.length; ) {
      const [, backslashes = "", quote = ""] = /^(\\*)("?)/.exec(word.slice(at)) ?? [];
      at += backslashes.length + quote.length;
      if (quote === "") {
        text += backslashes + (word[at] ?? "");
        at++;
      } else if (backslashes.length % 2 === 1) text += `${"\\".repeat(backslashes.length >> 1)}"`;
      else {
        text += "\\".repeat(backslashes.length >> 1);
        if (isInside && word[at] === '"') {
          text += '"';
          at++;
        } else isInside = !isInside;
      }
    }
    return text;
  };
  return (passed.match(parse) ?? []).map(unquote);
}

test("cmd and the C runtime read what was meant", () => {
  const texts = words.map(([word]) => word).filter((word) => word !== "");
  expect(readCmd(commandLine([...texts, 'back\\slash\\" & \\'], "cmd"))).toEqual([...texts, 'back\\slash\\" & \\']);
});

test("PowerShell gets hidden characters by their numbers", () => {
  expect(quote("a\u202efox$", "powershell")).toBe('"a$([char]0x202e)fox`$"');
});

test("a prompt is in double quotes wherever they do not change it", () => {
  const shells: Shell[] = ["posix", "cmd", "powershell"];
  expect(shells.map((shell) => quoteText("fox", shell))).toEqual(['"fox"', '"fox"', '"fox"']);
  expect(shells.map((shell) => quoteText("$5", shell))).toEqual(["'$5'", '"$5"', "'$5'"]);
});

test.each<[Shell, string, string, string | undefined]>([
  ["posix", "printf %s @fox | vidgen generate -", "export A='b c'", "mkdir -p clips/new"],
  ["cmd", "echo @fox| vidgen generate -", 'set "A=b c"', "mkdir clips/new"],
  ["powershell", '"@fox" | vidgen generate -', '$env:A = "b c"', "mkdir clips/new"],
])("%s: pipes, variables and folders", (shell, piped, exported, made) => {
  expect(pipeLine("@fox", "vidgen generate -", shell)).toBe(piped);
  expect(exportLine("A", "b c", shell)).toBe(exported);
  expect(makeFolderLine("clips/new", shell)).toBe(made);
  expect(makeFolderLine("my clips", shell)).toBeUndefined();
  expect(makeFolderLine("-clips", shell)).toBeUndefined();
});

test("for cmd, echo takes each character as it is", () => {
  expect(pipeLine('@a & "b" <c>%', "x", "cmd")).toBe('echo @a ^& ^"b^" ^<c^>^%| x');
});
