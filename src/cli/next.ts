import type { ErrorFields } from "../client/generation/events.ts";
import { isSignal, type NextCommand } from "../errors.ts";
import type { Io } from "../io.ts";

/** The words of the command line that was typed. */
export type TypedArgv = {
  argv: readonly string[];
  /** The command among them. */
  command: string | undefined;
};

/** Commands that can start a generation. */
const startCommands = ["generate", "again", "batch"];
/** Commands that run until they are stopped. */
const longRunningCommands = ["serve", "mcp", "listen"];
/** Flags that a program must not repeat, because a person decides about them. */
const personOnlyFlags = ["--again", "--dismiss", "--retry-failed", "--retry-unknown"];

/** The words that call the program, so that printed commands work when they are pasted. */
export function programWords({ program, env }: Pick<Io, "program" | "env">): string[] {
  if (env.npm_command === "exec") return ["npx", "vidgen"];
  return [...(program ?? ["vidgen"])];
}

/** What to run after an error: the commands in the error, or those that follow from its code. */
export function nextOf(
  error: Pick<ErrorFields, "code" | "id" | "next" | "attempt">,
  typed: TypedArgv & { program: readonly string[] },
): NextCommand[] {
  const next = error.next ?? followingCommands(error, typed);
  return next.map(({ argv: [, ...words], pays }) => ({ argv: [...typed.program, ...words], pays }));
}

function followingCommands(
  { code, id, attempt }: Pick<ErrorFields, "code" | "id" | "attempt">,
  typed: TypedArgv,
): NextCommand[] {
  const operand = (id: string) => (id.startsWith("-") ? ["--", id] : [id]);
  const freeCommand = (...words: string[]) => [{ argv: ["vidgen", ...words], pays: false }];
  if (code === "unknown")
    return id === null ? freeCommand("list", "--status", "unknown") : freeCommand("wait", ...operand(id));
  // A usage error with an id: the same command line started that generation, and vidgen.json or stdin has changed since.
  if (code === "usage" && id !== null) return freeCommand("wait", ...operand(id));
  if (code === "not_found") return freeCommand("list");
  if (code === "pending" || isSignal({ code })) return sameLine(typed, { hasIntent: attempt !== null });
  return code === "network" ? sameLine(typed) : [];
}

/**
 * The same command again. Marked as paying if it can start a generation, because the one that it would resume
 * may have ended meanwhile. An interrupted line with --again is continued without it once an attempt of it is
 * recorded, because --again would start another one; before that, as it was typed.
 */
export function sameLine(
  { argv: words, command = "" }: TypedArgv,
  interrupted?: { hasIntent: boolean },
): NextCommand[] {
  const isAgain = (word: string) => word === "--again";
  const endOf = (all: readonly string[]) => (all.includes("--") ? all.indexOf("--") : all.length);
  const argv = interrupted?.hasIntent ? words.filter((word, at) => !(isAgain(word) && at < endOf(words))) : words;
  const flags = argv.slice(0, endOf(argv)).filter((word) => !(interrupted && isAgain(word)));
  if (longRunningCommands.includes(command) || flags.some((word) => personOnlyFlags.includes(word))) return [];
  const isStatus = command === "batch" && argv[argv.indexOf(command) + 1] === "status";
  const isReadOnly = flags.includes("--dry-run") || isStatus;
  return [{ argv: ["vidgen", ...argv], pays: startCommands.includes(command) && !isReadOnly }];
}
