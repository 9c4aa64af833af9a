import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { systemReason, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { LeaseIo } from "../../lease.ts";
import { openFolder } from "./folder.ts";
import type { MediaStore } from "./media-store.ts";
import { openS3 } from "./s3.ts";
import { type Bucket, readBucket } from "./s3-settings.ts";
import { openScratch } from "./scratch.ts";

export type OpenIo = LeaseIo & Pick<Io, "env" | "sleep" | "signal">;

/**
 * Opens the store in which processes share their videos: a folder, or "s3://bucket/prefix". `mark` becomes part of the names of this process's
 * files. Rejects with `usage` when `place` is invalid or a setting is missing, and with `output` when the store cannot be used now.
 */
export async function openMedia(place: string, mark: string, io: OpenIo): Promise<MediaStore> {
  if (place === "") throw usage("--media is empty.", "It must be a folder or s3://bucket/prefix.");
  // A single letter is a Windows drive.
  const bucket = /^[a-z][\w+.-]+:\//i.test(place) ? readBucket(place, io.env) : undefined;
  try {
    const videos = bucket ? await openBucket(bucket, mark, io) : await openSharedFolder(resolve(place), mark, io);
    try {
      await videos.check(io.signal);
    } catch (error) {
      await videos.close();
      throw error;
    }
    return videos;
  } catch (cause) {
    if (cause instanceof VidgenError) throw cause;
    const hint = bucket && bucketHint;
    throw new VidgenError("output", `Cannot store videos at ${place}: ${systemReason(cause)}.`, { hint, cause });
  }
}

const bucketHint =
  "The bucket must exist. Check AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.";

async function openBucket(bucket: Bucket, mark: string, io: OpenIo): Promise<MediaStore> {
  const scratch = await openScratch(join(tmpdir(), "vidgen-unfinished-"), io);
  return openS3({ ...bucket, mark, scratch, clock: io });
}

/** Unfinished files are inside the folder too, because a rename is atomic only on the same disk. */
async function openSharedFolder(folder: string, mark: string, io: OpenIo): Promise<MediaStore> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return openFolder({ folder, mark, scratch: await openScratch(join(folder, ".unfinished-"), io) });
}
