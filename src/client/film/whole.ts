import { systemReason, usage, type VidgenError } from "../../errors.ts";
import type { Disk, RunResult } from "../../io.ts";
import { faultOfMp4 } from "../../video/mp4.ts";
import { kindOf } from "../save/files.ts";

/** The first bytes of Matroska and WebM (EBML, RFC 8794, section 8.1). */
const ebml = [0x1a, 0x45, 0xdf, 0xa3];

/** Throws `usage` for an incomplete video: ffmpeg would read it up to some frame in the middle. */
export async function checkWhole(path: string, disk: Disk): Promise<void> {
  const reason = await findFileFault(path, disk).catch((error) => systemReason(error));
  if (reason !== undefined) throw notWholeError(path, reason);
}

export function notWholeError(path: string, reason: string): VidgenError {
  return usage(`${path} is not a whole video: ${reason}.`, "Save the video again, or use another one.");
}

/** Whether ffmpeg or ffprobe reported a truncated Matroska or WebM file. */
export function endsEarly({ stderr }: RunResult): boolean {
  return stderr.includes("File ended prematurely");
}

async function findFileFault(path: string, disk: Disk): Promise<string | undefined> {
  const kind = await kindOf(path, disk);
  if (kind === "none") return "it does not exist";
  if (kind !== "file") return "it is not a file";
  const file = await disk.open(path, "r");
  try {
    const { buffer } = await file.read(new Uint8Array(4), 0, 4, 0);
    // ffmpeg itself reports a truncated file of this format.
    if (ebml.every((byte, i) => buffer[i] === byte)) return undefined;
    return (await faultOfMp4(file))?.reason;
  } finally {
    await file.close();
  }
}
