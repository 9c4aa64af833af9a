import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { onTestFinished } from "vitest";

/** No device: one that the program changes by mistake is the whole machine's. */
export const specialFiles = ["a pipe", "a link to a pipe", "a link to a socket"] as const;

/** Makes something at a path that is no file. */
export async function makeSpecial(kind: (typeof specialFiles)[number], path: string): Promise<void> {
  const real = kind === "a pipe" ? path : `${path}.real`;
  if (kind === "a link to a socket") {
    const server = createServer().listen(real);
    onTestFinished(() => void server.close());
    await once(server, "listening");
  } else execFileSync("mkfifo", ["-m", "644", real]);
  if (real !== path) symlinkSync(real, path);
}
