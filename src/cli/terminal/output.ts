import { Chalk } from "chalk";
import {
  type BatchCounts,
  type ErrorFields,
  errorFieldsOf,
  type FilmEvent,
  type GenerationEvent,
} from "../../client/generation/events.ts";
import { createRedaction, redactValue } from "../../client/http/redaction.ts";
import { asVidgenError, isSignal, type NextCommand, systemCode, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { plainText } from "../../protocol/text.ts";
import { nextOf, programWords, sameLine, type TypedArgv } from "../next.ts";
import type { createEventLines } from "./event-lines.ts";
import { createSpinner } from "./spinner.ts";
import { ellipsisFor, isAscii, wrapFor } from "./text.ts";

/** The global flags that control what is printed. */
export type OutputFlags = {
  json: boolean;
  /** stdout gets only events. */
  events: boolean;
  quiet: boolean;
  verbose: boolean;
  color: boolean | undefined;
};

/** Results go to stdout, everything for a person to stderr. */
export type Output = OutputFlags & {
  /** Whether progress is one redrawn line, as at a terminal; otherwise each state is printed as a line. */
  isLive: boolean;
  /** Whether the output of `line` appears between the notes, as at a terminal, so that notes need not repeat it. */
  hasLines: boolean;
  /**
   * Prints the result of a command: `text`, with the look that a terminal can show; with `--json` the document.
   * With `--events` it prints nothing. Throws `output` if stdout cannot be written.
   */
  result(text: string, document: unknown, look?: ResultLook): Promise<void>;
  /** With `--events` prints an event as one line on stdout. A failure to write it is reported by `printed`. */
  event(event: GenerationEvent | FilmEvent): void;
  /** Sets the counts of the summary, which otherwise come from the events. */
  summarize(counts: BatchCounts): void;
  /** With `--events` prints the summary. Returns the exit code; that of `output` if some events could not be written. */
  end(code: number): Promise<number>;
  /**
   * Prints one of several results of a command as a line, unless `--json` or `--events`. A failure to write
   * it is reported by `printed`.
   */
  line(text: string): void;
  /** With `--json` prints one of several documents of a command, as a line. A failure to write it is reported by `printed`. */
  document(document: object): void;
  /**
   * Prints text on stdout unchanged, such as help; with `--events` on stderr. With a pager, shows it there if
   * that program exists.
   */
  print(text: string, pager?: string): void;
  /** Resolves once everything is written to stdout. Throws `output` if it cannot be written. */
  printed(): Promise<void>;
  /** Prints a line on stderr, unless `--quiet`. */
  note(text: string): void;
  /** Shows what the command is doing now. */
  progress(state: string): void;
  /** Clears the line that shows progress. */
  clearProgress(): void;
  /** Prints a line with `--verbose`. */
  trace(text: string): void;
  /** Replaces a secret in everything that is printed later. */
  hide(secret: string): void;
  /** Undoes `hide` for a secret. */
  reveal(secret: string): void;
  /** The text with the hidden secrets replaced. */
  redact(text: string): string;
  /** The error as `--json` prints it. */
  errorDocument(error: VidgenError): { error: ErrorFields };
  /** The command line that was typed, as the next command to run. */
  sameLine(interrupted?: { hasIntent: boolean }): NextCommand[];
  /** Prints an error, with `--events` as an event too, and returns the exit code. */
  fail(error: unknown): number;
  /** Resolves once everything written has left the process. */
  flush(): Promise<void>;
};

/** How a result looks: the address that its text links to, and the states in it, which have colours. */
type ResultLook = { href?: string | undefined; states?: RegExp };

/** The colours of the states of generations, and of the checks of `doctor`. A state with "!" needs the user: yellow. */
const stateColors: Readonly<Record<string, "green" | "yellow" | "red">> = {
  ...{ pass: "green", completed: "green" },
  ...{ warn: "yellow", lost: "yellow" },
  ...{ fail: "red", failed: "red", refused: "red", "not submitted": "red" },
};

type OutputIo = Pick<Io, "stdout" | "stderr" | "isOneStream" | "env" | "program" | "date" | "page">;

type OutputOptions = Pick<TypedArgv, "argv" | "command"> & {
  /** Prints the events of `--events`; loaded only with that flag. */
  openEvents?: typeof createEventLines | undefined;
};

export function createOutput(
  flags: OutputFlags,
  { stdout, stderr, isOneStream, env, program, date, page }: OutputIo,
  { argv, command, openEvents }: OutputOptions = { argv: [], command: undefined },
): Output {
  const typed = { program: programWords({ program, env }), argv, command };
  const { hide, reveal, redact } = createRedaction();
  // With --json a program reads stderr, so only the error's document goes there, unless stderr is a terminal.
  const isQuiet = flags.quiet || (flags.json && !stderr.isTTY);
  // ora would clear lines in an endless loop at a terminal that reports 0 columns.
  const isPlain = stderr.columns === 0 || env.TERM === "dumb" || Boolean(env.CI) || isQuiet || flags.events;
  const isLive = stderr.isTTY === true && !isPlain;
  const color = new Chalk({ level: colorLevel(flags, stderr, env) });
  const resultColor = new Chalk({ level: colorLevel(flags, stdout, env) });
  const paintState = (state: string) => {
    const name = state.endsWith("!") ? "yellow" : stateColors[state];
    return name === undefined ? state : resultColor[name](state);
  };
  const spinner = createSpinner(stderr, { hasColor: color.level > 0, isAscii: isAscii(env) });
  const withLink = (text: string, href: string | undefined) => {
    const isLink = href !== undefined && isPlainUrl(href) && redact(href) === href && stdout.isTTY && showsLinks(env);
    return isLink ? `\u001b]8;;${href}\u001b\\${text}\u001b]8;;\u001b\\` : text;
  };
  const show = (text: string) => redact(asTyped(text, env));
  /** A text for a person: wrapped at a terminal, and in ASCII if the locale is ASCII. */
  const wrapForPerson = (text: string) => {
    return wrapFor(stderr, show(text).replaceAll("\u2026", ellipsisFor(env)));
  };
  const writeLine = (text: string) => void stderr.write(`${show(plainText(text))}\n`);
  let printed: Promise<unknown> = Promise.resolve();
  let lastState = "";
  /** `printed` reports the failure; until it is called, the rejection counts as handled. */
  const trackWrite = (writing: Promise<void>) => {
    // Resolves to nothing: a batch may print ten thousand lines, and the values of all promises would stay in memory.
    printed = Promise.all([printed, writing]).then(() => {});
    printed.catch(() => {});
  };
  const printText = async (text: string, pager: string | undefined) => {
    const isShown = pager !== undefined && (await page?.(text, pager));
    if (!isShown) await write(flags.events ? stderr : stdout, text);
  };
  const events = openEvents?.((event) => trackWrite(writeLineTo(stdout, jsonText(event, redact))), { date });
  const withTypedCommands = (fields: ErrorFields): ErrorFields => {
    const { message, hint } = fields;
    return { ...fields, message: asTyped(message, env), hint: hint && asTyped(hint, env) };
  };
  // A command with a word that contains a key cannot be shown: without that word, it would be a different command.
  const isShown = ({ argv }: NextCommand) => argv.every((word) => redact(word) === word);
  const withNext = (fields: ErrorFields) => ({
    ...withTypedCommands(fields),
    next: nextOf(fields, typed).filter(isShown),
  });
  const errorDocument = (error: VidgenError) => ({ error: withNext(errorFieldsOf(error)) });
  const completeEvent = <Event extends GenerationEvent | FilmEvent>(event: Event): Event => {
    if (!("error" in event) || !event.error) return event;
    // There is no command that continues a single row of a batch.
    return { ...event, error: "row" in event ? withTypedCommands(event.error) : withNext(event.error) };
  };
  const report = (error: VidgenError) => {
    if (flags.json) stderr.write(`${jsonText(errorDocument(error), redact, 2)}\n`);
    else stderr.write(wrapForPerson(errorText(error)).replace(/^error: /, (label) => color.red(label)));
    if (flags.verbose && error.code === "bug" && error.cause instanceof Error) writeLine(error.cause.stack ?? "");
    return error.exit;
  };

  return {
    ...flags,
    isLive,
    hasLines: isOneStream && !flags.json && !flags.events,
    async result(text, document, { href, states } = {}) {
      spinner.stop();
      if (flags.events) return;
      const shownText = redact(plainText(text));
      const painted = states === undefined ? shownText : shownText.replace(states, paintState);
      const body = flags.json ? jsonText(document, redact, 2) : withLink(painted, href);
      if (body !== "") await write(stdout, `${body}\n`);
    },
    event: (event) => events?.print(completeEvent(event)),
    summarize: (counts) => events?.setCounts(counts),
    async end(code) {
      if (!events) return code;
      events.end(code);
      return printed.then(
        () => code,
        (error) => (code === 0 ? report(error) : code),
      );
    },
    line(text) {
      if (flags.json || flags.events) return;
      spinner.stop();
      trackWrite(writeLineTo(stdout, redact(plainText(text))));
    },
    document(document) {
      if (flags.json) trackWrite(writeLineTo(stdout, jsonText(document, redact)));
    },
    print: (text, pager) => trackWrite(printText(redact(text), pager)),
    printed: async () => void (await printed),
    note(text) {
      if (!isQuiet) stderr.write(`${wrapForPerson(plainText(text))}\n`);
    },
    progress(state) {
      if (isQuiet) return;
      if (isLive) spinner.show(redact(plainText(state)));
      else if (state !== lastState) writeLine(state);
      lastState = state;
    },
    clearProgress: spinner.stop,
    redact,
    trace(text) {
      if (flags.verbose) writeLine(text);
    },
    hide,
    reveal,
    errorDocument,
    sameLine: (interrupted) => sameLine(typed, interrupted),
    fail(thrown) {
      spinner.stop();
      const error = asVidgenError(thrown);
      events?.print({ event: "error", ...errorDocument(error) });
      return report(error);
    },
    async flush() {
      spinner.stop();
      // With `stty tostop` a terminal stops a background job that writes, even an empty string.
      const pending = [stdout, stderr].filter((stream) => stream.writableLength > 0);
      await Promise.all(pending.map((stream) => new Promise((resolve) => stream.write("", resolve))));
    },
  };
}

/** "npx vidgen" when vidgen was called that way, else "vidgen". */
export function programName(env: Io["env"]): string {
  return programWords({ env }).join(" ");
}

/** Replaces vidgen with the words that the user must type, in commands after a backtick or a colon. */
export function asTyped(text: string, env: Io["env"]): string {
  return text.replace(/(?<=`|: )vidgen (?=[a-z-])/g, `${programName(env)} `);
}

function errorText(error: VidgenError): string {
  const label = isSignal(error) ? "" : "error: ";
  const hint = error.hint === undefined ? "" : `${plainText(error.hint).replace(/^/gm, "  ")}\n`;
  return `${label}${plainText(error.message)}\n${hint}`;
}

/** The text without control characters, on one line. */
export function plainLine(text: string): string {
  return plainText(text).replace(/\s+/g, " ").trim();
}

/** Whether the URL is free of characters that could end the terminal's escape sequence. */
function isPlainUrl(url: string): boolean {
  return /^[\x21-\x7e]+$/.test(url);
}

/**
 * Whether the terminal is known to show links (OSC 8). tmux and screen inherit the variables of their
 * terminal, but show no links.
 */
function showsLinks(env: Io["env"]): boolean {
  if (env.TMUX || env.STY || /^(tmux|screen|dumb)/.test(env.TERM ?? "") || env.CI) return false;
  if (env.WT_SESSION || env.KITTY_WINDOW_ID || env.KONSOLE_VERSION || env.TERM === "alacritty") return true;
  // VTE 0.50.0 crashed at links.
  if (Number(env.VTE_VERSION) > 5000) return true;
  return ["iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "Tabby"].includes(env.TERM_PROGRAM ?? "");
}

/**
 * JSON on one line, unless it is indented, that also escapes control characters which JSON allows. Strings
 * are redacted before they are encoded, because encoding changes a secret with a quote in it.
 */
export function jsonText(document: unknown, redact: (text: string) => string, indent = 0): string {
  const escaped = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(redactValue(document, redact), undefined, indent).replace(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    escaped,
  );
}

/** Rejects with `output` if the write fails. A closed pipe is not an error, because in `| head` the reader wants no more. */
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

/** Writes a line in one call, so that no other output can end up inside it. Rejects as `write` does. */
function writeLineTo(stdout: Io["stdout"], line: string): Promise<void> {
  return write(stdout, `${line}\n`).catch((error) => {
    const hint = "Some output is missing. No video was lost: `vidgen list` shows what was started and saved.";
    throw asVidgenError(error).with({ hint });
  });
}

/**
 * 1 for colours, 0 for none. Flags have precedence over NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE in this
 * order; without them, only a terminal gets colours.
 */
export function colorLevel(flags: Pick<OutputFlags, "color">, stream: { isTTY?: boolean }, env: Io["env"]): 0 | 1 {
  if (flags.color !== undefined) return flags.color ? 1 : 0;
  if (env.NO_COLOR) return 0;
  if (env.FORCE_COLOR && env.FORCE_COLOR !== "0" && env.FORCE_COLOR !== "false") return 1;
  if (env.FORCE_COLOR === "0" || env.FORCE_COLOR === "false") return 0;
  if (env.CLICOLOR_FORCE && env.CLICOLOR_FORCE !== "0") return 1;
  return stream.isTTY === true && env.TERM !== "dumb" ? 1 : 0;
}
