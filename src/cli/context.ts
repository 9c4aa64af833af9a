import type { Io } from "../io.ts";
import type { Output } from "./terminal/output.ts";

/** Cleans up after a command; `isOk` if the command succeeded. */
export type Close = (isOk: boolean) => Promise<void>;

/** What every command gets besides its own arguments and flags. */
export type Context = {
  io: Io;
  output: Output;
  /** Whether questions may be asked; `false` with `--no-input`. */
  input: boolean;
  /** Registers a clean-up that runs after the last output of the command, the newest first. */
  defer(close: Close): void;
};
