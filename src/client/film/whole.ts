import { systemReason, usage, type VidgenError } from "../../errors.ts";
import type { Disk, RunResult } from "../../io.ts";
import { faultOfMp4 } from "../../video/mp4.ts";
import { kindOf } from "../save/files.ts";

/** What Matroska and WebM begin with (EBML, RFC 8794, section 8.1). */
const ebml = [0x1a, 0x45, 0xdf, 0xa3];

/** Throws `usage` unless a file is a whole video: ffmpeg reads one that is cut off too, up to some frame in its middle. */
export async function checkWhole(path: string, disk: Disk): Promise<void> {
  const reason = await findFault(path, disk).catch((error) => systemReason(error));
  if (reason !== undefined) throw notWholeError(path, reason);
}

export function notWholeError(path: string, reason: string): VidgenError {
  return usage(`${path} is not a whole video: ${reason}.`, "Save the video again, or take another one.");
}

/** Whether ffmpeg or ffprobe reported a file in Matroska or WebM that is cut off. */
export function endsEarly({ stderr }: RunResult): boolean {
  return stderr.includes("File ended prematurely");
}

async function findFault(path: string, disk: Disk): Promise<string | undefined> {
  const kind = await kindOf(path, disk);
  if (kind === "none") return "it does not exist";
  if (kind !== "file") return "it is not a file";
  const file = await disk.open(path, "r");
  try {
    const { buffer } = await file.read(new Uint8Array(4), 0, 4, 0);
    // ffmpeg reports where one of these ends too early.
    if (ebml.every((byte, i) => buffer[i] === byte)) return undefined;
    return (await faultOfMp4(file))?.reason;
  } finally {
    await file.close();
  }
}
