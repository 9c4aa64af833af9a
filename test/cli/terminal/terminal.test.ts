import { expect, test } from "vitest";
import { hasLinks, hasProgress, hasTitle, progressMark } from "../../../src/cli/terminal/terminal.ts";

type Row = [name: string, env: Record<string, string>, progress: boolean, title: boolean, links: boolean];

const rows: Row[] = [
  ["nothing known", {}, false, false, false],
  ["some xterm", { TERM: "xterm-256color" }, false, false, false],
  ["Windows Terminal", { WT_SESSION: "1b4e" }, true, false, true],
  ["ConEmu", { ConEmuANSI: "ON" }, true, false, false],
  ["ConEmu without sequences", { ConEmuANSI: "OFF" }, false, false, false],
  ["ghostty", { TERM_PROGRAM: "ghostty" }, true, true, true],
  ["WezTerm", { TERM_PROGRAM: "WezTerm" }, true, false, true],
  ["an old iTerm, which takes OSC 9 for a notification", { TERM_PROGRAM: "iTerm.app" }, false, true, true],
  ["iTerm", { TERM_PROGRAM: "iTerm.app", TERM_FEATURES: "T3LrMSc7UUw9Ts3BFGsSyHNoSxFP" }, true, true, true],
  ["an iTerm with Po alone", { TERM_PROGRAM: "iTerm.app", TERM_FEATURES: "T3Po" }, false, true, true],
  ["Terminal.app", { TERM_PROGRAM: "Apple_Terminal" }, false, false, false],
  ["kitty", { KITTY_WINDOW_ID: "1" }, false, true, true],
  ["xterm itself", { XTERM_VERSION: "XTerm(390)" }, false, true, false],
  ["a GNOME terminal", { VTE_VERSION: "7600" }, false, false, true],
  ["one that crashed at links", { VTE_VERSION: "5000" }, false, false, false],
  ["tmux inside ghostty", { TERM_PROGRAM: "ghostty", TMUX: "/tmp/x,1,0" }, false, false, false],
  ["screen inside Windows Terminal", { WT_SESSION: "1b4e", TERM: "screen-256color" }, false, false, false],
];

test.each(rows)("%s", (_, env, progress, title, links) => {
  expect([hasProgress(env), hasTitle(env), hasLinks(env)]).toEqual([progress, title, links]);
});

test.each([
  [{ CI: "true", TERM_PROGRAM: "vscode" }, false],
  [{ TERM: "dumb", TERM_PROGRAM: "vscode" }, false],
  [{ TERM_PROGRAM: "vscode" }, true],
])("%j shows links: %s", (env, links) => {
  expect(hasLinks(env)).toBe(links);
});

test.each([
  [undefined, "\u001b]9;4;3;0\u0007"],
  [0, "\u001b]9;4;1;0\u0007"],
  [0.424, "\u001b]9;4;1;42\u0007"],
  [7, "\u001b]9;4;1;100\u0007"],
  [-1, "\u001b]9;4;1;0\u0007"],
])("a progress of %s is %j", (fraction, mark) => {
  expect(progressMark(fraction)).toBe(mark);
});
