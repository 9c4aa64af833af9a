import { stripVTControlCharacters } from "node:util";
import type { ChalkInstance } from "chalk";
import { asVidgenError, systemCode, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { createSpinner } from "./spinner.ts";
import { hasLinks, linked } from "./terminal.ts";

/** How to speak: the flags that every command has. */
export type Manner = { json: boolean; quiet: boolean; verbose: boolean; color: boolean | undefined };

/** Results go to stdout, everything for a person to stderr. */
export type Output = Manner & {
  /** Whether a moving line can be shown: then it may be renewed as often as it changes. */
  isLive: boolean;
  /**
   * The result of a command: `text` as lines, at a terminal that is known to show links one to `href`, or with `--json` the one document.
   * Throws `output` where stdout cannot take it.
   */
  result(text: string, document: unknown, href?: string): Promise<void>;
  /** Text for stdout as it is, such as help. */
  print(text: string): void;
  /** Resolves once that is written. Throws `output` where stdout cannot take it. */
  printed(): Promise<void>;
  /** A line for a person. */
  note(text: string): void;
  /** What goes on right now, and which fraction of it is done: one moving line at a terminal; elsewhere a line for each new `state`. */
  progress(state: string, detail?: string, fraction?: number): void;
  /** Ends the moving line. */
  rest(): void;
  /** A line of `--verbose`. */
  trace(text: string): void;
  /** From now on never shown, whoever says it. */
  hide(secret: string): void;
  /** Text without what is hidden, for what is kept. */
  redact(text: string): string;
  /** Prints an error and returns the exit code. */
  fail(error: unknown): Promise<number>;
  /** Resolves once everything written has left the process. */
  flush(): Promise<void>;
};

/** A secret as it is, and as others may write it: percent-encoded, in base64, in JSON. */
export function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const encoded = [encodeURIComponent(secret), bytes.toString("base64"), bytes.toString("base64url")];
  return [...new Set([secret, ...encoded, JSON.stringify(secret).slice(1, -1)])];
}

type World = Pick<Io, "stdout" | "stderr" | "writeAtOnce" | "env" | "holdTerminal">;

export function createOutput(manner: Manner, io: World): Output {
  const { env } = io;
  const secrets: string[] = [];
  const redact = (text: string) => secrets.reduce((shown, secret) => shown.replaceAll(secret, "[key]"), text);
  // A stream is opened when it is needed: that takes up to 3 ms.
  const opened = new Map<string, Io["stdout"]>();
  const open = (name: "stdout" | "stderr") => {
    const stream = opened.get(name) ?? io[name];
    opened.set(name, stream);
    return stream;
  };
  // With --json a program reads stderr: nothing but the error's document may be on it, unless a person watches.
  const isQuiet = () => manner.quiet || (manner.json && !open("stderr").isTTY);
  // A terminal that says it has no columns would be cleared without end.
  const isLive = () => {
    const { isTTY, columns } = open("stderr");
    return isTTY === true && columns !== 0 && env.TERM !== "dumb" && !env.CI && !isQuiet();
  };
  const line = (text: string) => void open("stderr").write(`${redact(plain(text))}\n`);
  const level = () => colorLevel(manner, open("stderr"), env);
  const spinner = createSpinner(io, () => level() > 0);
  const withLink = (text: string, href: string | undefined) => {
    const isLink = href !== undefined && isPlainHref(href) && redact(href) === href;
    return isLink && hasLinks(env) && open("stdout").isTTY ? linked(text, href) : text;
  };
  let printing = Promise.resolve();
  let lastState = "";

  return {
    ...manner,
    get isLive() {
      return isLive();
    },
    async result(text, document, href) {
      spinner.stop();
      const body = manner.json ? jsonText(document, redact) : withLink(redact(plain(text)), href);
      if (body !== "") await write(open("stdout"), `${body}\n`);
    },
    print(text) {
      // What was written by the stream may still wait in it.
      const left = opened.has("stdout") ? text : io.writeAtOnce(text);
      if (left.length === 0) return;
      printing = write(open("stdout"), left);
      printing.catch(() => {});
    },
    printed: () => printing,
    note(text) {
      if (!isQuiet()) spinner.around(() => line(text));
    },
    progress(state, detail = "", fraction = undefined) {
      if (isQuiet()) return;
      const shown = redact(plain(`${state}${detail}`));
      if (isLive()) spinner.show({ text: shown, title: `vidgen: ${redact(plain(state))}`, fraction });
      else if (state !== lastState) line(state);
      lastState = state;
    },
    rest: spinner.stop,
    redact,
    trace(text) {
      if (manner.verbose) spinner.around(() => line(text));
    },
    hide(secret) {
      // A shorter one could be part of anything, and nobody's secret.
      if (secret.length >= 8) secrets.push(...formsOf(secret));
    },
    async fail(thrown) {
      spinner.stop();
      const error = asVidgenError(thrown);
      if (manner.json) open("stderr").write(`${jsonText(errorDocument(error), redact)}\n`);
      else open("stderr").write(redact(await errorText(error, level())));
      if (manner.verbose && error.code === "bug" && error.cause instanceof Error) line(error.cause.stack ?? "");
      return error.exit;
    },
    async flush() {
      spinner.stop();
      await Promise.all([...opened.values()].map((stream) => new Promise((resolve) => stream.write("", resolve))));
    },
  };
}

/** The error as `--json` shows it: one document, in the service's own way of naming fields. */
export function errorDocument({ code, message, hint, id, httpStatus }: VidgenError) {
  return { error: { code, message, hint: hint ?? null, id: id ?? null, http_status: httpStatus ?? null } };
}

async function errorText(error: VidgenError, level: ColorLevel): Promise<string> {
  const chalk = level === 0 ? undefined : await loadChalk(level);
  const label = ["interrupted", "terminated", "hung_up"].includes(error.code) ? "" : "error: ";
  const message = `${chalk ? chalk.red(label) : label}${plain(error.message)}\n`;
  const hint = error.hint === undefined ? "" : `${plain(error.hint).replace(/^/gm, "  ")}\n`;
  return message + hint;
}

/** Text without anything that could move the cursor, colour a terminal or turn the reading direction; lines and tabs stay. */
export function plain(text: string): string {
  return stripVTControlCharacters(text).replace(/[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "");
}

/** An address in which nothing could end the link, or begin anything else. */
function isPlainHref(href: string): boolean {
  return /^[\x21-\x7e]+$/.test(href);
}

/** The same, in one line. */
export function plainLine(text: string): string {
  return plain(text).replace(/\s+/g, " ").trim();
}

/**
 * JSON in which even the control characters that JSON allows are escaped. Each text in it is redacted by itself: once it is JSON, a secret
 * with a quote in it looks different.
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

/** A reader that has gone away, as in `| head`, is no error: it has what it wanted. */
function write(stream: Io["stdout"], text: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      if (!error || systemCode(error) === "EPIPE" || systemCode(error) === "ERR_STREAM_DESTROYED") return resolve();
      reject(
        new VidgenError("output", `Cannot write to stdout: ${systemCode(error) ?? error.message}.`, { cause: error }),
      );
    });
  });
}

export type ColorLevel = 0 | 1;

/** Decided once per stream: flags, then NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, then whether it is a terminal. */
export function colorLevel(manner: Pick<Manner, "color">, stream: { isTTY?: boolean }, env: Io["env"]): ColorLevel {
  if (manner.color !== undefined) return manner.color ? 1 : 0;
  if (env.NO_COLOR) return 0;
  if (env.FORCE_COLOR && env.FORCE_COLOR !== "0" && env.FORCE_COLOR !== "false") return 1;
  if (env.FORCE_COLOR === "0" || env.FORCE_COLOR === "false") return 0;
  if (env.CLICOLOR_FORCE && env.CLICOLOR_FORCE !== "0") return 1;
  return stream.isTTY === true && env.TERM !== "dumb" ? 1 : 0;
}

async function loadChalk(level: ColorLevel): Promise<ChalkInstance> {
  const { Chalk } = await import("chalk");
  return new Chalk({ level });
}
