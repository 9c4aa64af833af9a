import { type Command, CommanderError } from "commander";
import { asVidgenError, type VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { explainMisuse, withNextCommand } from "./misuse.ts";
import { type Close, createProgram, readManner } from "./program.ts";
import { createOutput } from "./terminal/output.ts";

/** Runs one command line and returns its exit code. The only catch-all, and the only place that prints errors. */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  const output = createOutput(readManner(argv), io);
  const deferred: Close[] = [];
  const given = { output, defer: (close: Close) => void deferred.unshift(close) };
  const program = createProgram(given, io);
  let code = 0;
  try {
    await program.parseAsync(argv, { from: "user" }).catch(unlessAnswered);
    await output.printed();
  } catch (error) {
    code = await output.fail(explain(error, program, argv));
  }
  // What is left to tidy up keeps nobody from reading the last word, and cannot change the outcome.
  for (const close of deferred) await close(code === 0).catch(() => {});
  await output.flush();
  return code;
}

/** Once commander has printed help, it throws. */
function unlessAnswered(error: unknown): void {
  if (!(error instanceof CommanderError && error.exitCode === 0)) throw error;
}

function explain(error: unknown, program: Command, argv: readonly string[]): VidgenError {
  if (error instanceof CommanderError) return explainMisuse(error, program, argv);
  return withNextCommand(asVidgenError(error), program, argv);
}
