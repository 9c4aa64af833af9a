import { Chalk, type ChalkInstance } from "chalk";
import { createRedaction, plain } from "../../client/credentials.ts";
import { asVidgenError, systemCode, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { createSpinner } from "./spinner.ts";

/** The flags of every command that say what is printed, and how. */
export type Manner = { json: boolean; quiet: boolean; verbose: boolean; color: boolean | undefined };

/** Results go to stdout, everything for a person to stderr. */
export type Output = Manner & {
  /** Whether progress is one line that is redrawn, at a terminal; elsewhere each state is a line of its own. */
  isLive: boolean;
  /**
   * Prints the result of a command: `text`, with a link to `href` at a terminal that is known to show links; with `--json` the document.
   * Throws `output` when stdout cannot be written.
   */
  result(text: string, document: unknown, href?: string): Promise<void>;
  /** Prints text on stdout as it is, such as help. */
  print(text: string): void;
  /** Resolves once that is written. Throws `output` when stdout cannot be written. */
  printed(): Promise<void>;
  /** Prints a line for a person. */
  note(text: string): void;
  /** Shows what the command is doing now. */
  progress(state: string): void;
  /** Clears the line that shows progress. */
  rest(): void;
  /** Prints a line with `--verbose`. */
  trace(text: string): void;
  /** Replaces a secret in everything that is printed from now on. */
  hide(secret: string): void;
  /** The text without the secrets, for what is saved to disk. */
  redact(text: string): string;
  /** Prints an error and returns the exit code. */
  fail(error: unknown): number;
  /** Resolves once everything written has left the process. */
  flush(): Promise<void>;
};

type World = Pick<Io, "stdout" | "stderr" | "env">;

export function createOutput(manner: Manner, { stdout, stderr, env }: World): Output {
  const { hide, redact } = createRedaction();
  // With --json a program reads stderr: nothing but the error's document may be on it, unless a person watches.
  const isQuiet = manner.quiet || (manner.json && !stderr.isTTY);
  // ora would clear a line without end at a terminal that reports no columns.
  const isLive = stderr.isTTY === true && stderr.columns !== 0 && env.TERM !== "dumb" && !env.CI && !isQuiet;
  const color = new Chalk({ level: colorLevel(manner, stderr, env) });
  const spinner = createSpinner(stderr, color.level > 0);
  const withLink = (text: string, href: string | undefined) => {
    const isLink = href !== undefined && isPlainUrl(href) && redact(href) === href && stdout.isTTY && showsLinks(env);
    return isLink ? `\u001b]8;;${href}\u001b\\${text}\u001b]8;;\u001b\\` : text;
  };
  const writeLine = (text: string) => void stderr.write(`${redact(plain(text))}\n`);
  let printed: Promise<unknown> = Promise.resolve();
  let lastState = "";

  return {
    ...manner,
    isLive,
    async result(text, document, href) {
      spinner.stop();
      const body = manner.json ? jsonText(document, redact) : withLink(redact(plain(text)), href);
      if (body !== "") await write(stdout, `${body}\n`);
    },
    print(text) {
      printed = Promise.all([printed, write(stdout, text)]);
      // `printed` reports the failure; until it is called, the rejection counts as handled.
      printed.catch(() => {});
    },
    printed: async () => void (await printed),
    note(text) {
      if (!isQuiet) writeLine(text);
    },
    progress(state) {
      if (isQuiet) return;
      if (isLive) spinner.show(redact(plain(state)));
      else if (state !== lastState) writeLine(state);
      lastState = state;
    },
    rest: spinner.stop,
    redact,
    trace(text) {
      if (manner.verbose) writeLine(text);
    },
    hide,
    fail(thrown) {
      spinner.stop();
      const error = asVidgenError(thrown);
      if (manner.json) stderr.write(`${jsonText(errorDocument(error), redact)}\n`);
      else stderr.write(redact(errorText(error, color)));
      if (manner.verbose && error.code === "bug" && error.cause instanceof Error) writeLine(error.cause.stack ?? "");
      return error.exit;
    },
    async flush() {
      spinner.stop();
      // A background job would be stopped by a terminal with `stty tostop`, even for an empty write.
      const pending = [stdout, stderr].filter((stream) => stream.writableLength > 0);
      await Promise.all(pending.map((stream) => new Promise((resolve) => stream.write("", resolve))));
    },
  };
}

/** The error as `--json` shows it: one document, in the service's own way of naming fields. */
export function errorDocument({ code, message, hint, id, httpStatus }: VidgenError) {
  return { error: { code, message, hint: hint ?? null, id: id ?? null, http_status: httpStatus ?? null } };
}

function errorText(error: VidgenError, color: ChalkInstance): string {
  const label = ["interrupted", "terminated", "hung_up"].includes(error.code) ? "" : "error: ";
  const hint = error.hint === undefined ? "" : `${plain(error.hint).replace(/^/gm, "  ")}\n`;
  return `${color.red(label)}${plain(error.message)}\n${hint}`;
}

/** The text without control characters, on one line. */
export function plainLine(text: string): string {
  return plain(text).replace(/\s+/g, " ").trim();
}

/** Whether nothing in a URL could end the link that it is printed in. */
function isPlainUrl(url: string): boolean {
  return /^[\x21-\x7e]+$/.test(url);
}

/** Whether the terminal is known to show links (OSC 8). tmux and screen repeat their terminal's variables, and show no links. */
function showsLinks(env: Io["env"]): boolean {
  if (env.TMUX || env.STY || /^(tmux|screen|dumb)/.test(env.TERM ?? "") || env.CI) return false;
  if (env.WT_SESSION || env.KITTY_WINDOW_ID || env.KONSOLE_VERSION || env.TERM === "alacritty") return true;
  // VTE 0.50.0 crashed at links.
  if (Number(env.VTE_VERSION) > 5000) return true;
  return ["iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "Tabby"].includes(env.TERM_PROGRAM ?? "");
}

/**
 * JSON in which control characters that JSON allows are escaped too. Each string is redacted before it becomes JSON: a secret with a quote in
 * it would look different afterwards.
 */
function jsonText(document: unknown, redact: (text: string) => string): string {
  const redacted = (_: string, value: unknown) => {
    if (typeof value === "string") return redact(value);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [redact(name), inner]));
  };
  const escaped = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(document, redacted, 2).replace(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    escaped,
  );
}

/** Writes to stdout. A closed pipe is no error: in `| head` the reader has what it wanted. */
function write(stream: Io["stdout"], text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      if (!error || systemCode(error) === "EPIPE" || systemCode(error) === "ERR_STREAM_DESTROYED") return resolve();
      reject(
        new VidgenError("output", `Cannot write to stdout: ${systemCode(error) ?? error.message}.`, { cause: error }),
      );
    });
  });
}

/** Decided once per stream: flags, then NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, then whether it is a terminal. */
export function colorLevel(manner: Pick<Manner, "color">, stream: { isTTY?: boolean }, env: Io["env"]): 0 | 1 {
  if (manner.color !== undefined) return manner.color ? 1 : 0;
  if (env.NO_COLOR) return 0;
  if (env.FORCE_COLOR && env.FORCE_COLOR !== "0" && env.FORCE_COLOR !== "false") return 1;
  if (env.FORCE_COLOR === "0" || env.FORCE_COLOR === "false") return 0;
  if (env.CLICOLOR_FORCE && env.CLICOLOR_FORCE !== "0") return 1;
  return stream.isTTY === true && env.TERM !== "dumb" ? 1 : 0;
}
