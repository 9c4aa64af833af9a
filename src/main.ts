import { CommanderError } from "commander";
import { usage } from "./errors.ts";
import type { Io } from "./io.ts";
import { createOutput } from "./output.ts";
import { createProgram, readManner } from "./program.ts";

/** Runs one command line and returns its exit code. The only catch-all, and the only place that prints errors. */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  const output = createOutput(readManner(argv), io);
  try {
    await createProgram(output, io).parseAsync(argv, { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    return await output.fail(error instanceof CommanderError ? usageError(error) : error);
  } finally {
    await output.flush();
  }
}

function usageError(error: CommanderError) {
  if (error.code === "commander.help") return usage("There is no command.", "`vidgen --help` lists them.");
  return usage(error.message.replace(/^error: /, ""), "`vidgen --help` and `vidgen <command> --help` say more.");
}
