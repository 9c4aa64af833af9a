import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { systemCode, systemReason } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { configPath, hasConfig, readSaved } from "../settings.ts";
import { findStorage, storageNote, whyNotWritable } from "../storage.ts";
import { type Check, fail, failBy, pass, warn } from "./check.ts";
import { roomElsewhere, whyNotKept } from "./room.ts";

const otherPlace = "VIDGEN_API_KEY and VIDGEN_BASE_URL do without it; VIDGEN_HOME names another folder.";

/** The saved file: whether it can be read, who else could read it, and whether a login could be saved there. */
export async function checkConfig(io: Io): Promise<Check> {
  const path = configPath(io);
  if (!hasConfig(io)) return warn("config", "there is no home folder to keep it in", otherPlace);
  try {
    const before = await modeOf(path);
    await readSaved(io);
    const reason = await whyNotWritable(dirname(path));
    if (reason !== undefined) return warn("config", `${path} cannot be written: ${reason}`, otherPlace);
    if (before === undefined) return pass("config", `none yet; \`vidgen login\` makes ${path}`);
    return judgeMode(path, before, (await modeOf(path)) ?? before);
  } catch (error) {
    return failBy("config", error, otherPlace);
  }
}

/** Reading it has tightened its mode, where that could be done. */
function judgeMode(path: string, before: number, now: number): Check {
  const octal = (mode: number) => `0${mode.toString(8)}`;
  if ((now & 0o077) !== 0) return warn("config", `${path} is open to others (${octal(now)})`, `chmod 600 ${path}`);
  if (before === now) return pass("config", `${path} (${octal(now)})`);
  const fix = "If others use this machine, get a new key and save it with `vidgen login`.";
  return warn("config", `${path} was open to others (${octal(before)}), and no longer is (${octal(now)})`, fix);
}

async function modeOf(path: string): Promise<number | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found && found.mode & 0o777;
}

const otherFolder =
  "Nothing is paid for that cannot be written down: mend it, make room, or name another folder with VIDGEN_HOME.";

/** The journal: without one nothing is paid for. */
export async function checkJournal(io: Io): Promise<Check> {
  try {
    const storage = await findStorage("state", io);
    const path = join(storage.folder, "journal.jsonl");
    const reason = (await whyFileNotWritable(path)) ?? (await whyNotKept(storage.folder));
    if (reason !== undefined)
      return fail("journal", `${path} cannot be written: ${reason}`, { code: "output", fix: otherFolder });
    const note = storageNote(storage);
    const says = `${path}${await roomElsewhere(storage.folder)}`;
    return note === undefined ? pass("journal", says) : warn("journal", says, note);
  } catch (error) {
    return failBy("journal", error, otherFolder);
  }
}

async function whyFileNotWritable(path: string): Promise<string | undefined> {
  try {
    await access(path, constants.R_OK | constants.W_OK);
    return (await stat(path)).isFile() ? undefined : "it is no file";
  } catch (error) {
    return systemCode(error) === "ENOENT" ? undefined : systemReason(error);
  }
}
