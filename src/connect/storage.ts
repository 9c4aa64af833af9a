import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { systemCode, systemReason, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";

type StorageIo = Pick<Io, "env" | "home" | "platform">;

/**
 * The folders for settings, data and state: `VIDGEN_HOME` for all three, otherwise the platform's folders.
 * Throws `usage` for a relative `VIDGEN_HOME`, because each current folder would have its own journal, and
 * generations in the others would be paid for again.
 */
export function folders(io: StorageIo): { config: string; data: string; state: string } {
  const { env, home, platform } = io;
  const folder = env.VIDGEN_HOME;
  if (folder) {
    if (!isAbsolute(folder)) throw relativeError(folder, platform);
    return { config: folder, data: folder, state: folder };
  }
  if (platform === "darwin") {
    const data = join(home, "Library/Application Support/vidgen");
    return { config: join(home, "Library/Preferences/vidgen"), data, state: data };
  }
  if (platform === "win32") {
    const config = join(env.APPDATA ?? join(home, "AppData/Roaming"), "vidgen");
    const data = join(env.LOCALAPPDATA ?? join(home, "AppData/Local"), "vidgen");
    return { config, data, state: data };
  }
  const xdg = (name: string, fallback: string) => {
    const value = env[name];
    return join(value && isAbsolute(value) ? value : join(home, fallback), "vidgen");
  };
  const data = xdg("XDG_DATA_HOME", ".local/share");
  return { config: xdg("XDG_CONFIG_HOME", ".config"), data, state: xdg("XDG_STATE_HOME", ".local/state") };
}

/**
 * Whether vidgen has such a folder, which may not exist yet. Without a home folder, its path would be
 * relative to the current folder, which is not safe.
 */
export function hasFolder(kind: "config" | "data" | "state", io: StorageIo): boolean {
  return isAbsolute(folders(io)[kind]);
}

function relativeError(typed: string, platform: string): VidgenError {
  const hint = typed.startsWith("~")
    ? 'The shell replaces a ~ only where it is not quoted: VIDGEN_HOME="$HOME/..."'
    : `Such as VIDGEN_HOME=${platform === "win32" ? "C:\\Users\\me\\vidgen" : "/home/me/vidgen"}`;
  return usage(`VIDGEN_HOME must be an absolute path, not ${typed}. Nothing was sent.`, hint);
}

/** The folder for the journal ("state") or for the local service ("data"). Throws `output` without a home folder. */
export function storageFolder(kind: "state" | "data", io: StorageIo): string {
  if (hasFolder(kind, io)) return folders(io)[kind];
  throw new VidgenError("output", "There is no home folder to store data in.", {
    hint: "Set VIDGEN_HOME to a folder that you can write to.",
  });
}

/** The path of the journal in the state folder. */
export function journalIn(folder: string): string {
  return join(folder, "journal.jsonl");
}

/** Why a folder, which may not exist yet, is not writable; `undefined` if it is. */
export async function findAccessError(folder: string): Promise<string | undefined> {
  try {
    await access(folder, constants.W_OK | constants.X_OK);
    return (await stat(folder)).isDirectory() ? undefined : "it is not a folder";
  } catch (error) {
    const code = systemCode(error);
    const parent = dirname(folder);
    if (code === "ENOENT" && parent !== folder) return findAccessError(parent);
    return systemReason(error);
  }
}

/** Whether a file exists, and other users can neither read nor write it. */
export async function isPrivateFile(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && sharedModeOf(found) === undefined;
}

/**
 * The mode of a file or folder that other users can access, such as "0644". vidgen creates its own with 0600 and 0700, and does
 * not change existing ones.
 */
export function sharedModeOf({ mode }: { mode: number }): string | undefined {
  return (mode & 0o077) === 0 ? undefined : `0${(mode & 0o777).toString(8)}`;
}
