import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import { systemCode } from "../../errors.ts";
import type { Io } from "../../io.ts";

type OpenerIo = Pick<Io, "platform" | "env" | "launch">;

/**
 * Opens a file, by its absolute path, or an http(s) URL with the platform's own program. Returns why it was not opened, or `undefined`. No shell
 * reads the argument, and no program can take it for a flag.
 */
export async function openExternally(place: string, io: OpenerIo): Promise<string | undefined> {
  const reason = findObstacle(io);
  if (reason !== undefined) return reason;
  if (!isAbsolute(place) && !/^https?:\/\//.test(place)) return "it is neither a file nor an http(s) URL";
  const [command, ...args] = openerOf(place, io.platform);
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

function openerOf(place: string, platform: string): [command: string, ...args: string[]] {
  if (platform === "darwin") return ["open", place];
  if (platform !== "win32") return ["xdg-open", place];
  // `start` belongs to cmd, which would read the argument as a command line. A path becomes a URL, which has no spaces.
  return ["rundll32.exe", "url.dll,FileProtocolHandler", isAbsolute(place) ? pathToFileURL(place).href : place];
}
