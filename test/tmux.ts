import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { slowness } from "./slowness.ts";

const bin = fileURLToPath(new URL("../bin/vidgen.js", import.meta.url));

/** A terminal with a shell in it, and vidgen as it is built. */
export type Desk = {
  folder: string;
  /** Keys by their tmux names, such as "C-c"; or `text` as it is typed. */
  press(...keys: string[]): void;
  type(text: string): void;
  /** As somebody pastes it: marked as pasted, if the program asks for that. */
  paste(text: string): void;
  resize(columns: number): void;
  /**
   * The screen's lines, without those that are empty; with `colors` as the terminal was told to show them; with `isJoined` each line that the terminal
   * itself has broken is one.
   */
  screen(options?: { colors?: boolean; isJoined?: boolean }): string;
  /** Waits until the screen shows this; throws with the screen when it never does. */
  shows(what: string | RegExp, options?: Patience): Promise<string>;
  /** Runs a line and returns what it printed, once the shell is back. */
  run(line: string, options?: Patience): Promise<string>;
  isCursorShown(): boolean;
  close(): void;
};

type Patience = { timeoutMs?: number };

export type DeskOptions = { columns?: number; rows?: number };

export async function openDesk({ columns = 80, rows = 24 }: DeskOptions = {}): Promise<Desk> {
  const root = mkdtempSync(join(tmpdir(), "vidgen-tmux-"));
  const [folder, path] = [join(root, "work"), join(root, "bin")];
  for (const each of [folder, path]) mkdirSync(each);
  writeFileSync(join(path, "vidgen"), `#!/bin/sh\nexec "${process.execPath}" "${bin}" "$@"\n`, { mode: 0o755 });
  const socket = join(root, "tmux");
  // A server of its own, without anybody's settings; a pane that is sent nothing waits for nothing.
  const tmux = (...args: string[]) => {
    const { stdout, stderr, status } = spawnSync("tmux", ["-S", socket, "-f", "/dev/null", ...args], {
      encoding: "utf8",
      env: envOf(root),
    });
    if (status !== 0) throw new Error(`tmux ${args[0]}: ${stderr}`);
    return stdout;
  };
  tmux("new-session", "-d", "-x", String(columns), "-y", String(rows), "-c", folder, "bash", "--norc", "--noprofile");
  const screen = ({ colors = false, isJoined = false } = {}) =>
    tmux("capture-pane", "-p", ...(colors ? ["-e"] : []), ...(isJoined ? ["-J"] : [])).replace(/\n+$/, "\n");
  const shows = async (what: string | RegExp, { timeoutMs = 15_000 * slowness }: Patience = {}) => {
    const end = Date.now() + timeoutMs;
    for (;;) {
      const text = screen();
      if (typeof what === "string" ? text.includes(what) : what.test(text)) return text;
      if (Date.now() > end) throw new Error(`Nothing like ${what} on the screen:\n${text}`);
      await pause(50);
    }
  };
  const type = (text: string) => void tmux("send-keys", "-l", text);
  const press = (...keys: string[]) => void tmux("send-keys", ...keys);
  let runs = 0;
  const desk: Desk = {
    folder,
    press,
    type,
    paste(text) {
      tmux("set-buffer", text);
      tmux("paste-buffer", "-p");
    },
    screen,
    shows,
    resize: (to) => void tmux("resize-window", "-x", String(to)),
    async run(line, patience) {
      const mark = `end-${++runs}`;
      type(`clear; ${line}; echo "${mark.replace("-", '"-"')}"`);
      press("Enter");
      const text = await shows(new RegExp(`^${mark}$`, "m"), patience);
      return text.slice(0, text.indexOf(mark)).trim();
    },
    isCursorShown: () => tmux("display-message", "-p", "#{cursor_flag}").trim() === "1",
    close() {
      tmux("kill-server");
      // The shell may still be about to leave.
      rmSync(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
  onTestFinished(desk.close);
  await shows(/^\$$/m);
  return desk;
}

function envOf(root: string): NodeJS.ProcessEnv {
  const { PATH = "" } = process.env;
  return {
    PATH: `${join(root, "bin")}${delimiter}${PATH}`,
    LANG: "C.UTF-8",
    HOME: root,
    VIDGEN_HOME: join(root, "home"),
    PS1: "$ ",
    HISTFILE: "",
    TERM: "xterm-256color",
  };
}
