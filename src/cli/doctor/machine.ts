import { randomBytes, randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { access, open, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ffmpegInstallHint, findFfmpeg } from "../../client/film/ffmpeg.ts";
import { formatBytes } from "../../client/request/bytes.ts";
import { configPath } from "../../connect/keys.ts";
import { findLocal, findServiceFolder, type LocalConnection } from "../../connect/local.ts";
import { configHint, readSaved } from "../../connect/settings.ts";
import { findAccessError, hasFolder, journalIn, sharedModeOf, storageFolder } from "../../connect/storage.ts";
import { systemCode, systemReason } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { Context } from "../context.ts";
import { databaseError, databaseName, findDatabase, findSharedUrl } from "../serve/database.ts";
import { type Check, fail, failWith, pass, warn } from "./check.ts";
import { checkEngines, checkKeys } from "./engines.ts";

/** A check that fails if this process cannot fetch videos, such as by a limit of its memory; else none. */
export async function checkDelivery(io: Io): Promise<Check[]> {
  try {
    await io.loadDelivery?.();
    return [];
  } catch (error) {
    return [failWith("memory", error, "Raise the limits of this process, as `ulimit -a` shows them.")];
  }
}

/** The saved settings: whether they can be read, whether others can read them, and whether `login` could save a key. */
export async function checkConfig(io: Io): Promise<Check> {
  const path = configPath(io);
  if (!hasFolder("config", io)) return warn("config", "there is no home folder to store it in", configHint);
  try {
    await readSaved(io);
    const reason = await findAccessError(dirname(path));
    if (reason !== undefined) return warn("config", `${path} cannot be written: ${reason}`, configHint);
    const says = (await stat(path).catch(() => undefined)) ? path : `none yet; \`vidgen login\` creates ${path}`;
    return (await warnIfShared("config", path, io)) ?? pass("config", says);
  } catch (error) {
    return failWith("config", error, configHint);
  }
}

const journalFix =
  "Generations are recorded before they are paid for. Fix permissions, free up disk space, or set VIDGEN_HOME to another folder.";

/** The journal: `generate` starts nothing that it cannot record there. */
export async function checkJournal(io: Io): Promise<Check> {
  try {
    const folder = storageFolder("state", io);
    const path = journalIn(folder);
    const reason = (await findFileError(path)) ?? (await findWriteError(folder));
    if (reason !== undefined)
      return fail("journal", `${path} cannot be written: ${reason}`, { code: "output", fix: journalFix });
    return (await warnIfShared("journal", path, io)) ?? pass("journal", path);
  } catch (error) {
    return failWith("journal", error, journalFix);
  }
}

/** A warning about a file or a folder that other users can read or write. Windows has no such modes. */
async function warnIfShared(
  name: string,
  path: string,
  { platform }: Pick<Io, "platform">,
): Promise<Check | undefined> {
  const found = platform === "win32" ? undefined : await stat(path).catch(() => undefined);
  const mode = found && sharedModeOf(found);
  if (mode === undefined) return undefined;
  return warn(
    name,
    `${path} can be read by other users (${mode})`,
    `chmod ${found?.isDirectory() ? 700 : 600} ${path}`,
  );
}

async function findFileError(path: string): Promise<string | undefined> {
  try {
    await access(path, constants.R_OK | constants.W_OK);
    return (await stat(path)).isFile() ? undefined : "it is not a file";
  } catch (error) {
    return systemCode(error) === "ENOENT" ? undefined : systemReason(error);
  }
}

const serviceFix = "Fix permissions, free up disk space, or set VIDGEN_HOME to another folder.";

/** The local service: whether it runs on this machine, where it keeps its state, and its engines. */
export async function checkLocalService(io: Io): Promise<Check[]> {
  try {
    const folder = findServiceFolder(io);
    const found = await findLocal(io);
    if (found.kind === "elsewhere" || found.kind === "not answering") throw found.error;
    const running = found.kind === "running" ? found.connection : undefined;
    const runningText = running ? `running at ${listUrls(running)}` : "not running; --local starts it when needed";
    const says = `${runningText}; its data is in ${folder}`;
    const reason = await findWriteError(folder);
    const check =
      reason === undefined
        ? ((await warnIfShared("local service", folder, io)) ?? pass("local service", says))
        : fail("local service", `${says}, which cannot be written: ${reason}`, { code: "output", fix: serviceFix });
    return [check, ...checkKeys(io), ...(running ? await checkEngines(running, io) : [])];
  } catch (error) {
    return [failWith("local service", error, serviceFix)];
  }
}

function listUrls({ baseUrl, announcement }: LocalConnection): string {
  const publicUrl = announcement?.base_url;
  return publicUrl === baseUrl ? baseUrl : `${baseUrl}, for clients at ${publicUrl}`;
}

const databaseFix = "Set VIDGEN_DATABASE_URL to the database of a `vidgen serve`, or unset it.";

/**
 * The database that VIDGEN_DATABASE_URL names, which `accounts` and `serve` use: whether a service of this
 * version has used it, and where that is.
 */
export async function checkDatabase({ io, output }: Pick<Context, "io" | "output">): Promise<Check[]> {
  try {
    const url = findDatabase(undefined, io, output);
    if (url === undefined) return [];
    return [pass("database", `${databaseName(url)}, of a service at ${await findSharedUrl(url, io)}`)];
  } catch (error) {
    return [failWith("database", databaseError(error), databaseFix)];
  }
}

/** ffmpeg. Most commands do not need it, so the check does not fail without it. */
export async function checkFfmpeg(io: Io): Promise<Check> {
  const fix = `${ffmpegInstallHint}; FFMPEG_PATH may name the program or its folder.`;
  const found = await findFfmpeg(io, io.signal);
  if (found.kind === "missing") return warn("ffmpeg", `${found.reason}; only --from and --join need it`, fix);
  const { version, hasX264 } = found.ffmpeg;
  if (hasX264) return pass("ffmpeg", `${version}, with libx264`);
  return warn("ffmpeg", `${version}, without libx264: --join needs it for clips that differ`, fix);
}

const lowBytes = 1_000_000_000;
const fullBytes = 50_000_000;

/** The free space for videos, which are saved in the current folder unless `-o` names another. */
export async function checkDisk(): Promise<Check> {
  try {
    const { bavail, bsize } = await statfs(".");
    return judgeFreeSpace(bavail * bsize);
  } catch (error) {
    return warn("disk", `cannot read the free space: ${systemReason(error)}`, "Check with `df`.");
  }
}

export function judgeFreeSpace(freeBytes: number): Check {
  const says = `${formatBytes(freeBytes)} free in the current folder`;
  const fix = "Free up disk space, or save elsewhere with -o.";
  if (freeBytes < fullBytes) return fail("disk", says, { code: "output", fix });
  return freeBytes < lowBytes ? warn("disk", says, fix) : pass("disk", says);
}

/** File systems store very small files in the inode, which works on a full disk too. */
const trialBytes = 64 * 1024;

/**
 * Why no file can be saved in a folder, which may not exist yet. Writes a trial file, which also detects a
 * full disk or quota.
 */
async function findWriteError(folder: string): Promise<string | undefined> {
  const path = join(await nearestFolder(folder), `.vidgen-trial-${randomUUID()}`);
  try {
    const file = await open(path, "wx", 0o600);
    try {
      await file.writeFile(randomBytes(trialBytes));
      await file.sync();
    } finally {
      await file.close();
      await rm(path, { force: true });
    }
    return undefined;
  } catch (error) {
    return systemReason(error, { ENOENT: "no file can be created in it" });
  }
}

/** The folder, or the nearest one above it that exists. */
async function nearestFolder(folder: string): Promise<string> {
  const parent = dirname(folder);
  const isMissing = await stat(folder).then(
    () => false,
    (error) => systemCode(error) === "ENOENT",
  );
  return isMissing && parent !== folder ? nearestFolder(parent) : folder;
}
