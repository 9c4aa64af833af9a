import { type Command, CommanderError } from "commander";
import { asVidgenError, type VidgenError } from "./errors.ts";
import type { Io } from "./io.ts";
import { explainMisuse, withNextCommand } from "./misuse.ts";
import { type Close, createProgram, readManner } from "./program.ts";
import { createOutput } from "./terminal/output.ts";

/** Runs one command line and returns its exit code. The only catch-all, and the only place that prints errors. */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  const output = createOutput(readManner(argv), io);
  const deferred: Close[] = [];
  const program = createProgram({ output, defer: (close) => void deferred.unshift(close) }, io);
  let code = 0;
  try {
    await program.parseAsync(argv, { from: "user" });
  } catch (error) {
    const isAnswered = error instanceof CommanderError && error.exitCode === 0;
    if (!isAnswered) code = await output.fail(explain(error, program, argv));
  }
  // What is left to tidy up keeps nobody from reading the last word, and cannot change the outcome.
  for (const close of deferred) await close(code === 0).catch(() => {});
  await output.flush();
  return code;
}

function explain(error: unknown, program: Command, argv: readonly string[]): VidgenError {
  if (error instanceof CommanderError) return explainMisuse(error, program, argv);
  return withNextCommand(asVidgenError(error), program, argv);
}
