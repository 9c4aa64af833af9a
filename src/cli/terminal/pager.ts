import { spawnSync } from "node:child_process";
import { systemCode } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { Output } from "./output.ts";

type PagerContext = { io: Pick<Io, "stdout" | "env">; output: Pick<Output, "json" | "events">; input: boolean };

/**
 * The pager for a long text at a terminal, chosen as git does: PAGER, else less. `undefined` elsewhere, or if
 * no pager is wanted.
 */
export function findPager({ io: { stdout, env }, output, input }: PagerContext): string | undefined {
  if (!stdout.isTTY || !input || output.json || output.events) return undefined;
  const pager = env.PAGER ?? "less";
  return ["", "cat"].includes(pager.trim()) || env.TERM === "dumb" || env.CI ? undefined : pager;
}

/**
 * Shows a text in a pager until the user quits it. Returns `false` if there is no such program and nothing
 * was shown. Blocks this process, so that only the pager handles Ctrl-C.
 */
export function runPager(text: string, pager: string, env: Io["env"]): boolean {
  // A shell prints its own error for a missing program, so it is used only for a command that needs one.
  const shell = /[^\w\s./:=+,-]/.test(pager);
  const [command = "", ...args] = shell ? [pager] : pager.trim().split(/\s+/);
  const { error, status } = spawnSync(command, args, {
    input: text,
    shell,
    stdio: ["pipe", "inherit", "inherit"],
    // git's defaults: the text stays on the screen, and a text that fits needs no key.
    env: { LESS: "FRX", LV: "-c", ...env },
  });
  // The user quit before the end.
  if (error && systemCode(error) !== "EPIPE") return false;
  return status !== 126 && status !== 127;
}
