import type { Io } from "../io.ts";
import type { Output } from "./terminal/output.ts";

/** Tidies up after a command; `isOk` when the command came to a good end. */
export type Close = (isOk: boolean) => Promise<void>;

/** What every command gets besides its own arguments and flags. */
export type Context = {
  io: Io;
  output: Output;
  /** Whether questions may be asked; `false` with `--no-input`. */
  input: boolean;
  /** Has something tidied up once the command's last word is printed, the newest first. */
  defer(close: Close): void;
};
