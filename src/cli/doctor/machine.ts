import { systemReason } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { type Check, fail, pass, warn } from "./check.ts";
import { formatRoom, freeBytesIn } from "./room.ts";

export function checkNode({ nodeVersion, platform }: Pick<Io, "nodeVersion" | "platform">): Check {
  return pass("node", `${nodeVersion} on ${platform}`);
}

const tightBytes = 1_000_000_000;
const fullBytes = 50_000_000;

/** The room there is for videos, which go to the current folder unless `-o` says otherwise. */
export async function checkDisk(folder: string): Promise<Check> {
  try {
    return judgeRoom(await freeBytesIn(folder));
  } catch (error) {
    return warn("disk", `how much is free cannot be told: ${systemReason(error)}`, "Look with `df`.");
  }
}

export function judgeRoom(freeBytes: number): Check {
  const says = `${formatRoom(freeBytes)} free in the current folder`;
  const fix = "Make room, or save elsewhere with -o.";
  if (freeBytes < fullBytes) return fail("disk", says, { code: "output", fix });
  return freeBytes < tightBytes ? warn("disk", says, fix) : pass("disk", says);
}
