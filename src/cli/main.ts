import { CommanderError, type CommandUnknownOpts } from "@commander-js/extra-typings";
import { cleanEnv } from "../connect/environment.ts";
import { findKeys } from "../connect/keys.ts";
import { asVidgenError, usage } from "../errors.ts";
import type { Io } from "../io.ts";
import type { Close, Context } from "./context.ts";
import { commandOf, createProgram, readGlobalFlags } from "./program.ts";
import { createOutput } from "./terminal/output.ts";

// bin/vidgen.js imports all three from this entry.
export { endProcess, systemIo } from "./system.ts";

/** Runs one command line and returns its exit code. The only catch-all, and the only place that prints errors. */
export async function main(argv: readonly string[], systemIo: Io): Promise<number> {
  const { env, unquoted } = cleanEnv(systemIo.env);
  const io = { ...systemIo, env };
  const { input, ...flags } = readGlobalFlags(argv);
  const eventLines = flags.events ? await import("./terminal/event-lines.ts") : undefined;
  const typed = { argv, command: commandOf(argv), openEvents: eventLines?.createEventLines };
  const output = createOutput(flags, io, typed);
  for (const key of findKeys(io)) output.hide(key);
  const cleanups: Close[] = [];
  const context = { io, output, input, defer: (close: Close) => void cleanups.unshift(close) };
  let code = 0;
  let program: CommandUnknownOpts | undefined;
  let words = withHelpLast(argv);
  try {
    if (output.events && output.json) throw usage("--events and --json cannot be combined: both write to stdout.");
    program = await createProgram(words, context);
    for (const name of unquoted) output.note(`The quotes around the value of ${name} do not count.`);
    if (words.some((word) => /^-*[^\x21-\x7e]/.test(word))) (await import("./dashes.ts")).checkDashes(words, io);
    // Loaded where a word may be a text that begins with a dash.
    if (words.some((word) => /^-.*\s/s.test(word))) words = (await import("./dashes.ts")).joinValues(words, program);
    await program.parseAsync(words, { from: "user" }).catch(ignoreHelpShown);
    await output.printed();
  } catch (error) {
    const explained = await explain(error, words, program, context).catch(asVidgenError);
    if (Array.isArray(explained)) return main(explained, systemIo);
    code = output.fail(explained);
  }
  code = await output.end(code);
  // Clean-up runs after everything is printed, and cannot change the exit code.
  for (const close of cleanups) await close(code === 0).catch(() => {});
  await output.flush();
  return code;
}

/** commander throws after it has printed help or the version; also without a command, which it treats as an error. */
function ignoreHelpShown(error: unknown): void {
  if (!(error instanceof CommanderError && (error.exitCode === 0 || error.code === "commander.help"))) throw error;
}

/** Moves a help flag behind the command, because commander would print the help of vidgen for `-h generate`. */
function withHelpLast(argv: readonly string[]): readonly string[] {
  const at = argv.findIndex((word) => word === "-h" || word === "--help");
  const [flag] = argv.slice(at);
  const hasOnlyFlagsBefore = at >= 0 && argv.slice(0, at).every((word) => word.startsWith("-") && word !== "--");
  return hasOnlyFlagsBefore && flag ? [...argv.slice(0, at), ...argv.slice(at + 1), flag] : argv;
}

/** The error to print, or the line to run in its place. The code that explains usage errors is loaded only for them. */
async function explain(
  error: unknown,
  argv: readonly string[],
  program: CommandUnknownOpts | undefined,
  context: Context,
) {
  const known = asVidgenError(error);
  if (!(error instanceof CommanderError) && known.code !== "usage") return known;
  const { askOnePrompt, explainUsage } = await import("./usage-error.ts");
  const { io } = context;
  return (await askOnePrompt(error, argv, program, context)) ?? explainUsage(error, { argv, program, io });
}
