import type { Io } from "../../io.ts";

type Env = Io["env"];

const [esc, bell] = ["\u001b", "\u0007"];

/** tmux and screen pass on what their terminal says of itself, and keep these sequences from it or show them as text. */
function isMultiplexed(env: Env): boolean {
  return Boolean(env.TMUX || env.STY) || /^(tmux|screen)/.test(env.TERM ?? "");
}

/** iTerm lists what it knows as capital letters, each with further letters or digits behind it; P is the progress. */
function listsProgress(features: string | undefined): boolean {
  return /P(?![a-z])/.test(features ?? "");
}

/** Whether this terminal is known to show a progress by OSC 9;4; others take it for a notification. */
export function hasProgress(env: Env): boolean {
  if (isMultiplexed(env)) return false;
  if (env.WT_SESSION || env.ConEmuANSI === "ON") return true;
  if (env.TERM_PROGRAM === "iTerm.app") return listsProgress(env.TERM_FEATURES);
  return env.TERM_PROGRAM === "ghostty" || env.TERM_PROGRAM === "WezTerm";
}

/** Whether this terminal is known to give back the title that it had before. */
export function hasTitle(env: Env): boolean {
  if (isMultiplexed(env)) return false;
  return ["iTerm.app", "ghostty"].includes(env.TERM_PROGRAM ?? "") || Boolean(env.XTERM_VERSION || env.KITTY_WINDOW_ID);
}

/** Whether this terminal is known to show links by OSC 8. */
export function hasLinks(env: Env): boolean {
  if (isMultiplexed(env) || env.TERM === "dumb" || env.CI) return false;
  if (env.WT_SESSION || env.KITTY_WINDOW_ID || env.KONSOLE_VERSION || env.TERM === "alacritty") return true;
  // 0.50.0 crashed at them.
  if (Number(env.VTE_VERSION) > 5000) return true;
  return ["iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "Tabby"].includes(env.TERM_PROGRAM ?? "");
}

/** A progress from 0 to 1, or one of unknown length. */
export function progressMark(fraction: number | undefined): string {
  const percent = Math.round(Math.min(1, Math.max(0, fraction ?? 0)) * 100);
  return `${esc}]9;4;${fraction === undefined ? "3;0" : `1;${percent}`}${bell}`;
}

export const noProgressMark = `${esc}]9;4;0;0${bell}`;

/** Keeps the title for `oldTitleMark`. */
export const keepTitleMark = `${esc}[22;2t`;
export const oldTitleMark = `${esc}[23;2t`;

/** `text` must hold nothing that a terminal obeys. */
export function titleMark(text: string): string {
  return `${esc}]2;${text}${bell}`;
}

/** The text as a link. Neither of the two may hold anything that a terminal obeys. */
export function linked(text: string, href: string): string {
  return `${esc}]8;;${href}${esc}\\${text}${esc}]8;;${esc}\\`;
}
