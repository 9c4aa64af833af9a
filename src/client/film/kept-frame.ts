import { join } from "node:path";
import { systemReason, usage } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";
import { hashFile } from "../ledger/content.ts";
import { outputError } from "../save/files.ts";
import type { Ffmpeg } from "./ffmpeg.ts";
import { lastFrame } from "./last-frame.ts";

/** The last frame of a video, kept so that the same command sends the same image later. */
export type KeptFrame = {
  /** A PNG. */
  path: string;
  /** Whether it has nearly one color, as at the end of a fade; `false` without a check if it was kept before. */
  isNearlyOneColor: boolean;
};

type KeepOptions = { ffmpeg: Ffmpeg; signal: AbortSignal };

/**
 * The last frame of a video. It is extracted once and kept in the folder, under the hashes of the video and
 * the frame: another version of ffmpeg may produce other bytes, and the same command would then send another
 * request, which is charged. Throws as `lastFrame` does.
 */
export async function keepLastFrame(
  video: string,
  folder: string,
  options: KeepOptions,
  io: Pick<Io, "env" | "run" | "limit" | "disk" | "uuid" | "date">,
): Promise<KeptFrame> {
  const { disk } = io;
  const hash = await hashPath(video, disk, options.signal);
  try {
    await disk.mkdir(folder, { recursive: true, mode: 0o700 });
    for (const name of (await disk.readdir(folder)).sort()) {
      const path = join(folder, name);
      if (/\.bmp$|^[\da-f-]{36}\.png$/.test(name)) await removeLeftover(path, io);
      if (!name.startsWith(`${hash}-`) || !name.endsWith(".png")) continue;
      // An incomplete or changed file is not used.
      if (name === frameName(hash, await hashPath(path, disk, options.signal)))
        return { path, isNearlyOneColor: false };
    }
  } catch (error) {
    throw outputError(error, folder);
  }
  const { path: newPath, sha256, isNearlyOneColor } = await lastFrame(video, folder, options, io);
  const path = join(folder, frameName(hash, sha256));
  await disk.rename(newPath, path).catch((error) => {
    throw outputError(error, path);
  });
  return { path, isNearlyOneColor };
}

/** Extracting a frame takes seconds, so a file that is an hour old was left by a killed process. */
const leftoverMs = 3_600_000;

async function removeLeftover(path: string, { disk, date }: Pick<Io, "disk" | "date">): Promise<void> {
  const { mtimeMs } = await disk.stat(path).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
  if (date().getTime() - mtimeMs > leftoverMs) await disk.rm(path, { force: true }).catch(() => {});
}

function frameName(video: string, frame: string): string {
  return `${video}-${frame}.png`;
}

async function hashPath(path: string, disk: Disk, signal: AbortSignal): Promise<string> {
  const file = await disk.open(path, "r").catch((error) => {
    throw usage(`Cannot read ${path}: ${systemReason(error, { ENOENT: "there is no such file" })}.`);
  });
  return (await hashFile(file, signal).finally(() => file.close())).digest("hex");
}
