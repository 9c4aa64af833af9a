import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode } from "../errors.ts";
import type { Io } from "../io.ts";
import { type Check, fail, pass, warn } from "./check.ts";

export function checkNode({ nodeVersion, platform }: Pick<Io, "nodeVersion" | "platform">): Check {
  return pass("node", `${nodeVersion} on ${platform}`);
}

const tightBytes = 1_000_000_000;
const fullBytes = 50_000_000;

/** The room there is for videos, which go to the current folder unless `-o` says otherwise. */
export async function checkDisk(folder: string): Promise<Check> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return judgeRoom(bavail * bsize);
  } catch (error) {
    if (systemCode(error) === "ENOENT" && dirname(folder) !== folder) return checkDisk(dirname(folder));
    return warn("disk", `how much is free cannot be told (${systemCode(error) ?? error})`, "Look with `df`.");
  }
}

export function judgeRoom(freeBytes: number): Check {
  const says = `${(freeBytes / 1e9).toFixed(freeBytes < 1e10 ? 2 : 0)} GB free in the current folder`;
  const fix = "Make room, or save elsewhere with -o.";
  if (freeBytes < fullBytes) return fail("disk", says, { code: "output", fix });
  return freeBytes < tightBytes ? warn("disk", says, fix) : pass("disk", says);
}
