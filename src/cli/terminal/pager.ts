import { spawnSync } from "node:child_process";
import { systemCode } from "../../errors.ts";
import type { Io } from "../../io.ts";

/** The pager for a long text at a terminal, as git chooses it: that of PAGER, else less. `undefined` for none. */
export function findPager(env: Io["env"]): string | undefined {
  const pager = env.PAGER ?? "less";
  return ["", "cat"].includes(pager.trim()) || env.TERM === "dumb" || env.CI ? undefined : pager;
}

/**
 * Shows a text in a pager until its reader leaves it. Returns `false` where there is no such program, and nothing was shown. It blocks this
 * process, so that Ctrl-C belongs to the pager alone.
 */
export function runPager(text: string, pager: string, env: Io["env"]): boolean {
  // A shell writes an error of its own where the program is missing, so it runs only what needs one.
  const shell = /[^\w\s./:=+,-]/.test(pager);
  const [command = "", ...args] = shell ? [pager] : pager.trim().split(/\s+/);
  const { error, status } = spawnSync(command, args, {
    input: text,
    shell,
    stdio: ["pipe", "inherit", "inherit"],
    // As git sets them: the text stays on the screen, and one that fits on it needs no key.
    env: { LESS: "FRX", LV: "-c", ...env },
  });
  // The reader left before the end.
  if (error && systemCode(error) !== "EPIPE") return false;
  return status !== 126 && status !== 127;
}
