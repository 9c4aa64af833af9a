import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import { systemCode } from "../../errors.ts";
import type { Io } from "../../io.ts";

type OpenerIo = Pick<Io, "platform" | "env" | "launch">;

/**
 * Opens a file (an absolute path) or an http(s) URL with the platform's own program. Returns why it was not
 * opened; `undefined` if it was. No shell reads the argument, and no program can take it for a flag.
 */
export async function openExternally(target: string, io: OpenerIo): Promise<string | undefined> {
  const reason = findObstacle(io);
  if (reason !== undefined) return reason;
  if (!isAbsolute(target) && !/^https?:\/\//.test(target)) return "it is neither a file nor an http(s) URL";
  const [command, ...args] = openerOf(target, io.platform);
  try {
    await io.launch(command, args);
    return undefined;
  } catch (error) {
    return `${command} could not be started (${systemCode(error) ?? "unknown error"})`;
  }
}

/** Why the user would not see an opened window; `undefined` when they would. */
function findObstacle({ platform, env }: OpenerIo): string | undefined {
  if (env.CI) return "running in CI";
  if (env.SSH_CONNECTION || env.SSH_TTY) return "running over SSH";
  const hasDisplay = platform === "darwin" || platform === "win32" || Boolean(env.DISPLAY || env.WAYLAND_DISPLAY);
  return hasDisplay ? undefined : "there is no display";
}

function openerOf(target: string, platform: string): [command: string, ...args: string[]] {
  if (platform === "darwin") return ["open", target];
  if (platform !== "win32") return ["xdg-open", target];
  // `start` belongs to cmd, which would read the argument as a command line. A path becomes a URL, which has no spaces.
  return ["rundll32.exe", "url.dll,FileProtocolHandler", isAbsolute(target) ? pathToFileURL(target).href : target];
}
