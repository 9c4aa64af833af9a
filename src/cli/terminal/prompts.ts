import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { emitKeypressEvents, type Interface } from "node:readline";
import { systemReason, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";

export type AskOptions = { input: boolean };

/** Whether there is somebody to ask: both ends are terminals that can show it, this is no CI, and `--no-input` was not given. */
export function canAsk(options: AskOptions, io: Io): boolean {
  return options.input && io.stdin.isTTY === true && io.stderr.isTTY === true && !io.env.CI && io.env.TERM !== "dumb";
}

/** What comes later than this after an Esc is no longer a part of one key. */
const escapeLimitMs = 50;

type Question<Answer> = (prompts: typeof import("./inquirer.ts"), context: object) => Promise<Answer>;

/** Asks on stderr, so that stdout stays free for the result. Throws `interrupted` at Ctrl-C, Esc and Ctrl-D. */
async function ask<Answer>(question: Question<Answer>, io: Io): Promise<Answer> {
  const prompts = await import("./inquirer.ts");
  // By itself readline waits for half a second after Esc. Whoever comes first says how long.
  emitKeypressEvents(io.stdin, { escapeCodeTimeout: escapeLimitMs } as unknown as Interface);
  const input = watchForEnd(io);
  try {
    const signal = AbortSignal.any([io.signal, input.ended]);
    return await question(prompts, { input: io.stdin, output: io.stderr, signal });
  } catch (error) {
    if (io.signal.aborted) throw io.signal.reason;
    if (error instanceof Error && /^(ExitPrompt|AbortPrompt|CancelPrompt)Error$/.test(error.name))
      throw nobodyAnswers();
    throw error;
  } finally {
    input.stop();
  }
}

function nobodyAnswers(): VidgenError {
  return new VidgenError("interrupted", "Interrupted. Nothing was sent.");
}

/**
 * Esc means nothing to a prompt: whoever asks has to listen for it and take the prompt back (SBoudrias/Inquirer.js#454, signal: #1534).
 * Ctrl-D ends the input, upon which a prompt would wait for ever: reading stops, and no answer follows.
 */
function watchForEnd(io: Io): { ended: AbortSignal; stop(): void } {
  const end = new AbortController();
  const over = new AbortController();
  let isStopped = false;
  const after = (ms: number, act: () => void) => void io.sleep(ms, over.signal).then(act, () => {});
  const onPause = () => after(100, () => (isStopped ? goOn(io.stdin) : end.abort(nobodyAnswers())));
  // Told by readline, which waits for a moment: an arrow key begins with an Esc too.
  const onKeypress = (_: unknown, key: Key) => {
    if (key === space || key === backspace) return;
    isStopped = key.name === "z" && key.ctrl === true;
    if (key.name === "escape") end.abort(nobodyAnswers());
    // The first of the two is over as soon as fg comes, be that an hour later.
    if (isStopped) after(50, () => after(50, () => goOn(io.stdin)));
  };
  io.stdin.on("pause", onPause).on("keypress", onKeypress);
  const stop = () => {
    over.abort();
    io.stdin.off("pause", onPause).off("keypress", onKeypress);
  };
  return { ended: end.signal, stop };
}

type Key = { name?: string; ctrl?: boolean };

const [space, backspace]: Key[] = [{ name: "space" }, { name: "backspace" }];

/** After Ctrl-Z and fg readline leaves its input paused; a space that is taken back has the question drawn again. */
function goOn(stdin: Io["stdin"]): void {
  stdin.resume();
  stdin.emit("keypress", " ", space);
  stdin.emit("keypress", undefined, backspace);
}

export type Check = (answer: string) => true | string;

export function askText(message: string, validate: Check, io: Io): Promise<string> {
  return ask((prompts, context) => prompts.input({ message, validate }, context), io);
}

export function askSecret(message: string, validate: Check, io: Io): Promise<string> {
  return ask((prompts, context) => prompts.password({ message, mask: false, validate }, context), io);
}

export type Choice = { value: string; name: string };

export function askChoice(message: string, choices: Choice[], initial: string, io: Io): Promise<string> {
  return ask((prompts, context) => prompts.select({ message, choices, default: initial, pageSize: 12 }, context), io);
}

/** Asks for a yes, which has to be typed. Throws `interrupted` for a no. */
export async function askYes(message: string, io: Io): Promise<void> {
  const isYes = await ask((prompts, context) => prompts.confirm({ message, default: false }, context), io);
  if (!isYes) throw new VidgenError("interrupted", "Not started. Nothing was sent.");
}

/** All of stdin, at most 1 MB of it. Throws `usage` for more. */
export async function readStdin(io: Io): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  const onAbort = () => io.stdin.destroy(io.signal.reason);
  io.signal.addEventListener("abort", onAbort, { once: true });
  try {
    for await (const chunk of io.stdin) {
      length += chunk.length;
      if (length > 1_000_000) throw usage("What comes on stdin is larger than 1 MB.");
      chunks.push(Buffer.from(chunk));
    }
  } finally {
    io.signal.removeEventListener("abort", onAbort);
  }
  return Buffer.concat(chunks);
}

/**
 * The text of a prompt as it was typed: itself, "-" for stdin, "@path" for a file; without one, what is piped in. `undefined` when there
 * is none of these. Throws `usage` for a file that cannot be read, and for what is not text: it would cost credits all the same.
 */
export async function readPrompt(typed: string | undefined, io: Io): Promise<string | undefined> {
  if (typed === "-") return textOf(await readStdin(io), "on stdin").trim();
  if (typed?.startsWith("@")) return (await readPromptFile(typed.slice(1))).trim();
  if (typed !== undefined) return typed;
  if (io.stdin.isTTY) return undefined;
  return textOf(await readStdin(io), "on stdin").trim() || undefined;
}

function textOf(bytes: Buffer, source: string): string {
  const isText = isUtf8(bytes) && !bytes.includes(0);
  if (!isText) throw usage(`The prompt ${source} is not text (UTF-8).`);
  return bytes.toString("utf8");
}

async function readPromptFile(path: string): Promise<string> {
  try {
    return textOf(await readFile(path), `in ${path}`);
  } catch (error) {
    if (error instanceof VidgenError) throw error;
    const reason = systemReason(error, { ENOENT: "there is no such file" });
    throw usage(`Cannot read the prompt from ${path}: ${reason}.`, "A prompt that begins with @ can be piped in.");
  }
}
