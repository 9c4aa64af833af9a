import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const bin = fileURLToPath(new URL("../../../bin/vidgen.js", import.meta.url));

/** A folder to type in, with files, a journal, and a `vidgen` on the PATH that prints how it was called instead of doing it. */
export type Desk = {
  folder: string;
  env: NodeJS.ProcessEnv;
  /** Whether anything that was typed, or that is in the journal, was run: each such word makes this file. */
  isHacked(): boolean;
  clear(): void;
};

export function createDesk(): Desk {
  const root = mkdtempSync(join(tmpdir(), "vidgen-shell-"));
  const [folder, home, path] = [join(root, "work"), join(root, "home"), join(root, "bin")];
  for (const each of [folder, home, path]) mkdirSync(each);
  mkdirSync(join(folder, "prompts"));
  for (const file of ["fox.mp4", "owl.txt", "prompts/hare.txt", "hare $(touch hacked) `touch hacked`.mp4"])
    writeFileSync(join(folder, file), "");
  writeFileSync(join(home, "journal.jsonl"), journal());
  // Even a word that vidgen itself would never offer must not be run.
  const script = `#!/bin/sh
if [ "$1" = __complete ]; then
  "${process.execPath}" "${bin}" "$@"
  printf '%s\\n' '$(touch hacked)' '\`touch hacked\`'
  exit
fi
case "$1 $2" in "completion bash" | "completion zsh" | "completion fish") exec "${process.execPath}" "${bin}" "$@" ;; esac
printf 'called:'
printf '<%s>' "$@"
echo
`;
  writeFileSync(join(path, "vidgen"), script, { mode: 0o755 });
  const { PATH = "", LANG = "C.UTF-8" } = process.env;
  const env = { PATH: `${path}${delimiter}${PATH}`, LANG, HOME: home, VIDGEN_HOME: home, TERM: "xterm", PS1: "$ " };
  return {
    folder,
    env,
    isHacked: () => existsSync(join(folder, "hacked")),
    // A completion may still be at work.
    clear: () => rmSync(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }),
  };
}

/** The service's ids, and what people asked for, may be as evil as what they type. */
function journal(): string {
  const at = "2026-01-01T00:00:00.000Z";
  const base_url = "https://api.video.example";
  const start = (attempt: string, id: string, prompt: string) => [
    { at, kind: "intent", attempt, base_url, account: "0123456789ab", request: { prompt, model: "wan-2.5" } },
    { at, kind: "accepted", attempt, id },
  ];
  const lines = [
    ...start("1", "first-one", "a fox $(touch hacked) `touch hacked` 'x"),
    ...start("2", "$(touch hacked)", "an owl"),
    ...start("3", "`touch hacked`", "an owl"),
    ...start("4", "second-one", "a hare"),
  ];
  return `${lines.map((line) => JSON.stringify(line)).join("\n")}\n{"kind":"acc`;
}

/** A shell at a terminal of its own, by script(1). */
export type Terminal = {
  /** Types; "\t" is TAB, "\r" is Enter. */
  type(keys: string): void;
  /** Resolves to what vidgen was called with, once it is called again. */
  called(): Promise<string>;
  close(): Promise<void>;
};

export function openTerminal(command: string, { folder, env }: Desk): Terminal {
  const child: ChildProcess = spawn("script", ["-qfec", command, "/dev/null"], { cwd: folder, env });
  let shown = "";
  let onShown = () => {};
  child.stdout?.on("data", (chunk) => {
    shown += chunk;
    onShown();
  });
  const ended = new Promise<void>((resolve) => child.on("close", () => resolve()));
  return {
    type: (keys) => void child.stdin?.write(keys),
    called: () =>
      new Promise((resolve) => {
        onShown = () => {
          const [all = "", words = ""] = /[\s\S]*?called:(.*?)\r*\n/.exec(shown) ?? [];
          if (all === "") return;
          shown = shown.slice(all.length);
          onShown = () => {};
          resolve(words);
        };
        onShown();
      }),
    close() {
      child.kill("SIGKILL");
      return ended;
    },
  };
}

/** What is typed before TAB, and how vidgen is called once Enter follows. */
export const completions: readonly (readonly [typed: string, called: string])[] = [
  ["vidgen gen", "<generate>"],
  ["vidgen --json mod", "<--json><models>"],
  ["vidgen generate x --ov", "<generate><x><--overwrite>"],
  ["vidgen generate x --no-w", "<generate><x><--no-wait>"],
  ["vidgen generate 'a fox' -m ve", "<generate><a fox><-m><veo-3.1>"],
  ["vidgen generate x --model=ve", "<generate><x><--model=veo-3.1>"],
  ["vidgen generate x -a 21:", "<generate><x><-a><21:9>"],
  ["vidgen generate x -o fo", "<generate><x><-o><fox.mp4>"],
  ["vidgen generate @ow", "<generate><@owl.txt>"],
  ["vidgen generate @prompts/ha", "<generate><@prompts/hare.txt>"],
  ["vidgen wait x -o ha", "<wait><x><-o><hare $(touch hacked) `touch hacked`.mp4>"],
  ["vidgen wait fi", "<wait><first-one>"],
  ["vidgen wait first-one se", "<wait><first-one><second-one>"],
  ["vidgen status --local sec", "<status><--local><second-one>"],
  ["vidgen list --status unk", "<list><--status><unknown>"],
  ["vidgen serve --pace re", "<serve><--pace><realistic>"],
  ["vidgen help exi", "<help><exit-codes>"],
  ["vidgen completion po", "<completion><powershell>"],
  ["vidgen generate -m wan-2.5 --reu", "<generate><-m><wan-2.5><--reuse>"],
  ["vidgen generate -m status --reu", "<generate><-m><status><--reuse>"],
  // Nothing is offered: a prompt, a second id for `status`, a flag's value that nobody can guess, and what stands behind --.
  ["vidgen generate fo", "<generate><fo>"],
  ["vidgen status x fi", "<status><x><fi>"],
  ["vidgen generate x -d fo", "<generate><x><-d><fo>"],
  ["vidgen generate x -- --ov", "<generate><x><--><--ov>"],
  ["vidgen models fi", "<models><fi>"],
];

/** Lines that make the file `hacked` if anything of them is run. */
export const traps: readonly string[] = [
  'vidgen generate "$(touch hacked)" --mo',
  "vidgen generate `touch hacked` --mo",
  "vidgen generate $(touch hacked) -m w",
  "vidgen generate '$(touch hacked)' -o fo",
  "vidgen generate x -o $(touch hacked)/",
  "vidgen generate x -o `touch hacked`",
  "vidgen generate x --output=$(touch hacked)/f",
  'vidgen generate x -o "$(touch hacked)/',
  "vidgen generate @$(touch hacked)/",
  "vidgen generate x -m $(touch hacked)",
  "vidgen generate x --model=$(touch hacked)",
  "vidgen generate x --model='$(touch hacked)'",
  "vidgen $(touch hacked)",
  "vidgen `touch hacked` --",
  "vidgen wait $(touch hacked)",
  'vidgen wait "`touch hacked`',
  "vidgen wait ",
  "vidgen status x;touch\\ hacked",
  "vidgen generate 'x;touch hacked;' --mo",
  "vidgen generate <(touch hacked) --mo",
  "vidgen generate a[$(touch hacked)] --mo",
  `vidgen generate $\{x:=$(touch hacked)} --mo`,
  "vidgen generate * ? [a-z]* ~ --mo",
  "vidgen generate x -m *",
];
