import { type Command, CommanderError } from "commander";
import { asVidgenError, type VidgenError } from "./errors.ts";
import type { Io } from "./io.ts";
import { explainMisuse, withNextCommand } from "./misuse.ts";
import { type Close, createProgram, type Given, readManner } from "./program.ts";
import { createOutput, type Output } from "./terminal/output.ts";

/** Runs one command line and returns its exit code. The only catch-all, and the only place that prints errors. */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  // Help does without: to open both streams takes as long as to print it.
  let opened: Output | undefined;
  const open = () => {
    opened ??= createOutput(readManner(argv), io);
    return opened;
  };
  const deferred: Close[] = [];
  const given: Given = {
    get output() {
      return open();
    },
    print(text) {
      const left = io.writeAtOnce(text);
      if (left.length === 0) return;
      open();
      io.stdout.write(left);
    },
    defer: (close) => void deferred.unshift(close),
  };
  const program = createProgram(given, io);
  let code = 0;
  try {
    await program.parseAsync(argv, { from: "user" });
  } catch (error) {
    const isAnswered = error instanceof CommanderError && error.exitCode === 0;
    if (!isAnswered) code = await open().fail(explain(error, program, argv));
  }
  // What is left to tidy up keeps nobody from reading the last word, and cannot change the outcome.
  for (const close of deferred) await close(code === 0).catch(() => {});
  await opened?.flush();
  return code;
}

function explain(error: unknown, program: Command, argv: readonly string[]): VidgenError {
  if (error instanceof CommanderError) return explainMisuse(error, program, argv);
  return withNextCommand(asVidgenError(error), program, argv);
}
