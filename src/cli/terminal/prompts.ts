import { createReadStream } from "node:fs";
import { Writable } from "node:stream";
import type { ExpectedCost } from "../../client/generation/cost.ts";
import { readAll } from "../../client/request/input.ts";
import { beginsWithReference, type References } from "../../client/request/references.ts";
import { formatExpected } from "../../connect/format.ts";
import { asVidgenError, systemReason, usage, VidgenError } from "../../errors.ts";
import { expandHome, type Io } from "../../io.ts";
import { formatNumber, toUtf8 } from "../../protocol/text.ts";
import type { Output } from "./output.ts";
import { withPaste } from "./paste.ts";
import { isAscii, wrapFor } from "./text.ts";

type AskOptions = { input: boolean };

/** Whether questions can be asked: stdin and stderr are terminals, not in CI, and without `--no-input`. */
export function canAsk(options: AskOptions, io: Io): boolean {
  return options.input && io.stdin.isTTY === true && io.stderr.isTTY === true && !io.env.CI;
}

/** Whether the terminal cannot move its cursor: then each question is a line, and the choices have numbers. */
const isDumb = ({ env }: Pick<Io, "env">) => env.TERM === "dumb";

/** Validates an answer: `true`, or the message that is shown before the question is asked again. */
export type Check = (answer: string) => true | string | Promise<true | string>;

/** Turns a function that throws or rejects for a wrong answer into a `Check`; `message` replaces that of the error. */
export function checkedBy(check: (answer: string) => unknown, message?: string): Check {
  return async (answer) => {
    try {
      await check(answer);
      return true;
    } catch (error) {
      return message ?? asVidgenError(error).message;
    }
  };
}

// @inquirer breaks a line that is too long inside a word, so each text is wrapped before.

/**
 * How many columns of a line are kept for what stands beside a question: its mark, and a short answer,
 * "(Y/n)" or "[input is masked]".
 */
const kept = { answer: 12, maskedAnswer: 20, mark: 2 };

/** The question and the check of its answers, whose messages fit the terminal. */
function fitQuestion(message: string, validate: Check, { stderr }: Io, taken = kept.answer) {
  const check: Check = async (answer) => {
    const verdict = await validate(answer);
    return verdict === true || wrapFor(stderr, verdict, kept.mark);
  };
  return { message: wrapFor(stderr, message, taken), validate: check };
}

export async function askText(message: string, validate: Check, io: Io): Promise<string> {
  if (isDumb(io)) return askLine(message, validate, io);
  const { input } = await import("@inquirer/prompts");
  return withPaste(io, (stdin) =>
    ask((context) => input({ ...fitQuestion(message, validate, io), ...asciiTheme(io) }, context), { ...io, stdin }),
  );
}

/** An answer that is a path. */
export function readPath(text: string, io: Pick<Io, "home" | "platform">): string {
  return expandHome(text.trim(), io);
}

export async function askSecret(message: string, validate: Check, io: Io): Promise<string> {
  if (isDumb(io)) return askLine(message, validate, io, { isSecret: true });
  const { password } = await import("@inquirer/prompts");
  const question = fitQuestion(message, validate, io, kept.maskedAnswer);
  return ask((context) => password({ ...question, mask: false, ...asciiTheme(io) }, context), io);
}

export type PromptChoice = { value: string; name: string };

export async function askChoice(message: string, choices: PromptChoice[], initial: string, io: Io): Promise<string> {
  if (isDumb(io)) {
    const numbers = choices.map((_, index) => String(index + 1));
    const lines = choices.map(({ name }, index) => `  ${numbers[index]}. ${name}\n`).join("");
    const first = numbers[choices.findIndex(({ value }) => value === initial)] ?? "";
    const check: Check = (answer) =>
      ["", ...numbers].includes(answer.trim()) || `Enter a number from 1 to ${choices.length}.`;
    const answer = await askLine(`${message}\n${lines}Number (Enter: ${first}):`, check, io);
    return choices[Number(answer.trim() || first) - 1]?.value ?? initial;
  }
  const { select } = await import("@inquirer/prompts");
  return ask(
    (context) =>
      select(
        {
          message: wrapFor(io.stderr, message, kept.mark),
          choices: choices.map((choice) => fitChoice(message, choice, io)),
          default: initial,
          pageSize: 12,
          ...asciiTheme(io, { icon: { cursor: ">" }, style: { keysHelpTip: () => undefined } }),
        },
        context,
      ),
    io,
  );
}

/** A choice that fits the terminal, also when it was chosen and stands behind the question, without what explains it. */
function fitChoice(message: string, { value, name }: PromptChoice, { stderr }: Io) {
  const [answer = name] = name.split(/[:,] /);
  const isBeside = stderr.columns === undefined || message.length + answer.length < stderr.columns - kept.mark;
  return { value, name: wrapFor(stderr, `  ${name}`).trimStart(), short: `${isBeside ? "" : "\n  "}${answer}` };
}

/** Asks for a yes or a no; Enter alone is `initial`. */
export async function askWhether(message: string, initial: boolean, io: Io): Promise<boolean> {
  if (isDumb(io)) {
    const check: Check = (answer) => /^\s*(y(es)?|no?)?\s*$/i.test(answer) || "Enter y or n.";
    const answer = (await askLine(`${message} (${initial ? "Y/n" : "y/N"})`, check, io)).trim();
    return answer === "" ? initial : /^y/i.test(answer);
  }
  const { confirm } = await import("@inquirer/prompts");
  const question = wrapFor(io.stderr, message, kept.answer);
  return ask((context) => confirm({ message: question, default: initial, ...asciiTheme(io) }, context), io);
}

/** Asks for a yes; Enter alone is a no unless `isUsual`. Throws `interrupted` for a no. */
export async function askYes(message: string, io: Io, { isDefaultYes }: { isDefaultYes: boolean }): Promise<void> {
  if (!(await askWhether(message, isDefaultYes, io))) throw new VidgenError("interrupted", "Not started.");
}

/**
 * Asks whether to start a number of generations, with their cost if known; free ones need no question. Throws
 * `interrupted` for a no.
 */
export async function askToStart(count: number, cost: ExpectedCost, io: Io): Promise<void> {
  if (cost.kind === "free") return;
  const price = formatExpected(cost);
  const what = `${formatNumber(count)} generation${count === 1 ? "" : "s"}`;
  await askYes(`Start ${what}${price === undefined ? "" : ` for ${price}`}?`, io, { isDefaultYes: false });
}

/** Asks in a line, without a move of the cursor. Without `isSecret` the terminal itself shows what is typed. */
async function askLine(message: string, validate: Check, io: Io, { isSecret = false } = {}): Promise<string> {
  const { createInterface } = await import("node:readline");
  const nowhere = new Writable({ write: (_, __, done) => done() });
  for (;;) {
    io.stderr.write(`${wrapFor(io.stderr, `? ${message}`)} `);
    const answer = await ask(
      ({ input, signal }) =>
        new Promise<string>((resolve, reject) => {
          const reader = createInterface({ input, output: nowhere, terminal: isSecret });
          const end = () => {
            reader.close();
            reject(new VidgenError("interrupted", "Interrupted."));
          };
          signal.addEventListener("abort", end, { once: true });
          reader.once("SIGINT", end).once("line", (line) => {
            resolve(line);
            reader.close();
          });
        }),
      io,
    );
    if (isSecret) io.stderr.write("\n");
    const verdict = await validate(answer);
    if (verdict === true) return answer;
    io.stderr.write(`${wrapFor(io.stderr, verdict)}\n`);
  }
}

/** The symbols of a question in ASCII, if the locale is ASCII. */
function asciiTheme<More extends object>({ env }: Io, more?: More) {
  return isAscii(env) ? { theme: { prefix: { idle: "?", done: "+" }, ...more } } : {};
}

type PromptContext = { input: Io["stdin"]; output: Io["stderr"]; signal: AbortSignal };

/** Asks on stderr, so that stdout stays free for the result. Throws `interrupted` at Ctrl-C, and when the input ends. */
async function ask<Answer>(prompt: (context: PromptContext) => Promise<Answer>, io: Io): Promise<Answer> {
  // readline pauses its input at Ctrl-D and at the end of stdin; without an abort the prompt would never end.
  const inputEnd = new AbortController();
  const onPause = () => inputEnd.abort();
  io.stdin.once("pause", onPause);
  try {
    return await prompt({
      input: io.stdin,
      output: io.stderr,
      signal: AbortSignal.any([io.signal, inputEnd.signal]),
    });
  } catch (error) {
    if (io.signal.aborted) throw io.signal.reason;
    if (error instanceof Error && ["ExitPromptError", "AbortPromptError"].includes(error.name))
      throw new VidgenError("interrupted", "Interrupted.");
    throw error;
  } finally {
    io.stdin.off("pause", onPause);
  }
}

type ReadContext = { io: Io; output: Pick<Output, "note"> };

/** All of stdin. Throws `usage` above the limit. */
export function readStdin(what: string, { io, output }: ReadContext, maxMegabytes = 1): Promise<Buffer> {
  const reading = readAll(io.stdin, "The input on stdin", { signal: io.signal, maxMegabytes });
  return noteWait(reading, what, { io, output });
}

const quietWaitMs = 2_000;

/** Prints what is read from stdin if it has not ended after 2 s, such as a pipe that nobody closes. */
export async function noteWait<Read>(reading: Promise<Read>, what: string, { io, output }: ReadContext): Promise<Read> {
  const over = new AbortController();
  io.sleep(quietWaitMs, over.signal).then(
    () => output.note(`Waiting for ${what} on stdin, until it is closed.`),
    () => {},
  );
  return reading.finally(() => over.abort());
}

/** The key on stdin. Bytes that are not UTF-8 are replaced by a character that no key contains. */
export async function readStdinKey(context: ReadContext): Promise<string> {
  const bytes = await readStdin("the key", context);
  return (toUtf8(bytes) ?? bytes).toString("utf8");
}

/**
 * The prompt: the typed text, stdin for "-", a file for "@path"; without an argument, piped input. "@name"
 * with the name of a reference is a path only if that file exists. `undefined` without a prompt. Throws
 * `usage` for a file that cannot be read, and for bytes that are not text, since they would cost credits too.
 */
export async function readPrompt(
  typed: string | undefined,
  context: ReadContext,
  references: References = new Map(),
): Promise<string | undefined> {
  const text = await readPromptText(typed, context, references);
  return text === undefined ? undefined : withoutCurlyQuotes(text);
}

/** The quotes that word processors put around a text. */
const curlyQuotes = [/^\s*[“”„]([^“”„]+)[“”]\s*$/, /^\s*[‘‚]([^‘‚]+)[‘’]\s*$/];

/** Removes curly quotes around a text, which a shell does not remove. */
export function withoutCurlyQuotes(text: string): string {
  const [inside = text] = curlyQuotes.flatMap((pattern) => pattern.exec(text)?.[1] ?? []);
  return inside;
}

async function readPromptText(
  typed: string | undefined,
  context: ReadContext,
  references: References,
): Promise<string | undefined> {
  const { io } = context;
  if (typed === "-") return textOf(await readStdin("the prompt", context), "on stdin").trim();
  if (typed?.startsWith("@") && beginsWithReference(typed, references) && !(await isThere(typed.slice(1), io)))
    return typed;
  if (typed?.startsWith("@")) return (await readPromptFile(typed.slice(1), io)).trim();
  if (typed !== undefined) return typed;
  if (io.stdin.isTTY) return undefined;
  return textOf(await readStdin("the prompt", context), "on stdin").trim() || undefined;
}

async function isThere(path: string, { disk }: Pick<Io, "disk">): Promise<boolean> {
  return (await disk.stat(path).catch(() => undefined)) !== undefined;
}

function textOf(bytes: Buffer, source: string): string {
  const text = toUtf8(bytes);
  if (text === undefined) throw usage(`The prompt ${source} is not text (UTF-8).`);
  // A prompt is the same request whether an editor saved it with CRLF or LF.
  return text.toString("utf8").replaceAll("\r\n", "\n");
}

async function readPromptFile(path: string, io: Io): Promise<string> {
  try {
    return textOf(await readAll(createReadStream(path), `The prompt in ${path}`, { signal: io.signal }), `in ${path}`);
  } catch (error) {
    if (error instanceof VidgenError) throw error;
    const reason = systemReason(error, { ENOENT: "there is no such file" });
    throw usage(`Cannot read the prompt from ${path}: ${reason}.`, "If the prompt itself begins with @, pipe it in.");
  }
}
