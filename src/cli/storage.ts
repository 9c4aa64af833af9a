import { constants } from "node:fs";
import { access, lstat, mkdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { systemCode, systemReason, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";

type StorageIo = Pick<Io, "env" | "home" | "platform" | "uid">;

/** The folders for settings, data and state: `VIDGEN_HOME` for all three, else the platform's own folders. */
export function folders(io: Omit<StorageIo, "uid">): { config: string; data: string; state: string } {
  const { env, home, platform } = io;
  if (env.VIDGEN_HOME) return { config: env.VIDGEN_HOME, data: env.VIDGEN_HOME, state: env.VIDGEN_HOME };
  if (platform === "darwin") {
    const data = join(home, "Library/Application Support/vidgen");
    return { config: join(home, "Library/Preferences/vidgen"), data, state: data };
  }
  if (platform === "win32") {
    const config = join(env.APPDATA ?? join(home, "AppData/Roaming"), "vidgen");
    const data = join(env.LOCALAPPDATA ?? join(home, "AppData/Local"), "vidgen");
    return { config, data, state: data };
  }
  const xdg = (name: string, otherwise: string) => {
    const value = env[name];
    return join(value && isAbsolute(value) ? value : join(home, otherwise), "vidgen");
  };
  const data = xdg("XDG_DATA_HOME", ".local/share");
  return { config: xdg("XDG_CONFIG_HOME", ".config"), data, state: xdg("XDG_STATE_HOME", ".local/state") };
}

/** Where files are kept. `usual` is the folder that it replaces, and `note` tells the user that the files may not last. */
type Storage = { folder: string; usual?: string; note?: string };

/**
 * The folder for the journal ("state") or for the local service ("data"). Without a home folder, or when the home cannot be written, it is
 * a folder inside the system's temporary one, the same for every run, until the system deletes it. `VIDGEN_HOME` is never replaced. Throws
 * `output` when there is no folder at all.
 */
export async function findStorage(kind: "state" | "data", io: StorageIo): Promise<Storage> {
  const usual = folders(io)[kind];
  if (io.env.VIDGEN_HOME) return { folder: usual };
  const reason = isAbsolute(usual) ? await findAccessError(usual) : "there is no home folder";
  if (reason === undefined) return { folder: usual };
  const folder = await openTemporary(reason, io);
  const problem = isAbsolute(usual) ? `Cannot write to ${usual}` : "Nothing can be stored permanently";
  const place = `Using ${folder} instead, which the system may delete; set VIDGEN_HOME to use another folder.`;
  return { folder, usual, note: `${problem}: ${reason}. ${place}` };
}

/** The path of the journal in the folder for the state. */
export function journalIn(folder: string): string {
  return join(folder, "journal.jsonl");
}

/** Why no file can be written in a folder, which may not exist yet; `undefined` when one can. */
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

/**
 * The mode of a file or folder that users besides its owner can use, such as "0644"; vidgen makes its own with 0600 and 0700, and leaves
 * those that exist as they are.
 */
export function openModeOf({ mode }: { mode: number }): string | undefined {
  return (mode & 0o077) === 0 ? undefined : `0${(mode & 0o777).toString(8)}`;
}

/** Other users can write to the temporary folder too, so an existing folder must be this user's own, and private. */
async function openTemporary(reason: string, { env, uid }: StorageIo): Promise<string> {
  const base = env.TMPDIR && isAbsolute(env.TMPDIR) ? env.TMPDIR : tmpdir();
  const folder = join(base, uid === undefined ? "vidgen" : `vidgen-${uid}`);
  try {
    await mkdir(folder, { mode: 0o700 }).catch((error) => {
      if (systemCode(error) !== "EEXIST") throw error;
    });
    const found = await lstat(folder);
    if (!found.isDirectory() || (uid !== undefined && found.uid !== uid))
      throw new Error(`${folder} belongs to another user`);
    const mode = uid === undefined ? undefined : openModeOf(found);
    if (mode !== undefined)
      throw new Error(`other users can use ${folder} (${mode}); \`chmod 700 ${folder}\` makes it private`);
    return folder;
  } catch (error) {
    const why = systemReason(error);
    throw new VidgenError("output", `No folder to store data in: ${reason}; temporary folder: ${why}.`, {
      hint: "Set VIDGEN_HOME to a folder that you can write to.",
      cause: error,
    });
  }
}
