import { isUnfinished } from "../client/ledger/history.ts";
import type { CommandLine } from "../client/ledger/line.ts";
import { isRunDone } from "../client/ledger/policy.ts";
import { findByCommand } from "../client/ledger/search.ts";
import { findFileDoubt } from "../client/request/doubtful-prompt.ts";
import { findMisspelt, type References } from "../client/request/references.ts";
import { findJournal } from "../connect/services.ts";
import { usage } from "../errors.ts";
import type { Io } from "../io.ts";
import { commandLine, pipeLine, quoteText, type ShellIo, shellOf } from "../shell.ts";
import { flagWords } from "./command.ts";
import type { Context } from "./context.ts";
import type { TypedStart } from "./start-flags.ts";
import { programName } from "./terminal/output.ts";
import { askWhether, canAsk } from "./terminal/prompts.ts";

/** Why a prompt is probably not what was meant, and what to type instead of it: its argument, and flags. */
type Doubt = { reason: string; meant?: { prompt: string; flags?: readonly string[] } };

type PromptOptions = { references: References; line: Pick<CommandLine, "hash" | "olderHash"> };

/**
 * Throws `usage` for a typed prompt that is nothing but the name of a file or an address, or that misspells a
 * reference, unless an attempt with this prompt is open, which is resumed. Asks first at a terminal. A prompt
 * from stdin is never checked.
 */
export async function checkPrompt(
  prompt: string | undefined,
  { argument, command, flags: { dryRun } }: TypedStart,
  { references, line }: PromptOptions,
  context: Context,
): Promise<void> {
  if (prompt === undefined || argument === undefined || argument === "-") return;
  const { io } = context;
  const doubt = (await findNameDoubt(argument.trim(), io)) ?? findReferenceDoubt(prompt, argument, { references, io });
  if (doubt === undefined || (await isOpen(prompt, line, context))) return;
  const question = `${doubt.reason} Send these words unchanged?`;
  if (!dryRun && canAsk(context, io) && (await askWhether(question, false, io))) return;
  const shell = shellOf(io);
  const program = [programName(io.env), command.name(), ...command.args.slice(0, -1)];
  const typedFlags = flagWords(command, command.opts());
  const { meant } = doubt;
  const meantFlags = [...(meant?.flags ?? []), ...typedFlags];
  const meantLine =
    meant && [commandLine(program, shell), meant.prompt, commandLine(meantFlags, shell)].filter(Boolean).join(" ");
  const sameWords = pipeLine(prompt, commandLine([...program, "-", ...typedFlags], shell), shell);
  throw usage(
    `${doubt.reason} Nothing was sent.`,
    [...(meantLine === undefined ? [] : [`You may mean: ${meantLine}`]), `To send these words: ${sameWords}`].join(
      "\n",
    ),
  );
}

/** The doubt about the name of a file or an address. */
async function findNameDoubt(text: string, io: ShellIo & Pick<Io, "disk">): Promise<Doubt | undefined> {
  const doubt = await findFileDoubt(text, io.disk.stat);
  if (doubt === undefined) return undefined;
  const { meant } = doubt;
  const reason = `The prompt ${doubt.text}.`;
  if (meant === undefined) return { reason };
  const shell = shellOf(io);
  if (meant === "text") return { reason, meant: { prompt: commandLine([`@${text}`], shell) } };
  return { reason, meant: { prompt: quoteText("...", shell), flags: [meant === "image" ? "-i" : "--from", text] } };
}

function findReferenceDoubt(
  prompt: string,
  argument: string,
  { references, io }: { references: References; io: ShellIo },
): Doubt | undefined {
  const misspelt = findMisspelt(prompt, references);
  if (misspelt === undefined) return undefined;
  const { typed, guess } = misspelt;
  const reason = `There is no reference ${typed}. Did you mean ${guess}?`;
  // A prompt from a file must be corrected in that file.
  return argument === prompt
    ? { reason, meant: { prompt: quoteText(prompt.replace(typed, guess), shellOf(io)) } }
    : { reason };
}

/** Whether the same prompt or line has an attempt, or a run, that is not finished. */
async function isOpen(
  prompt: string,
  { hash, olderHash }: PromptOptions["line"],
  { io, output }: Context,
): Promise<boolean> {
  const journal = findJournal({ ...io, onNote: output.note });
  const hashes = [hash, olderHash ?? []].flat();
  const entries = await findByCommand(journal, { prompt: output.redact(prompt), hashes });
  return entries.some(
    (entry) => isUnfinished(entry) || (entry.run !== undefined && !entry.dismissed && !isRunDone(entry, entries)),
  );
}
