import { Readable } from "node:stream";
import { makeZip, predictLength } from "client-zip";
import { fileName } from "../../video/naming.ts";
import type { MediaStore } from "../media/media-store.ts";
import type { Media, StoredGeneration } from "../store/generations.ts";

/** A completed generation whose video is stored. */
export type GenerationWithVideo = StoredGeneration & { media: Media };

/**
 * Returns the videos of generations as a .zip with its size in bytes. The files are named as the command line names them. Each video is opened when
 * the zip reaches it, and the zip fails if the video was removed. No video stays open after the zip ends or is cancelled.
 */
export function zipOf(
  generations: readonly GenerationWithVideo[],
  videos: Pick<MediaStore, "read">,
): { body: Readable; size: number } {
  const files = generations.map(({ id, request, media, completed_at, created_at }) => ({
    name: fileName({ id, prompt: request.prompt, model: request.model }),
    size: media.size,
    lastModified: new Date(completed_at ?? created_at),
    file: media.file,
  }));
  return { body: Readable.from(readZip(files, videos)), size: Number(predictLength(files)) };
}

type ZipFile = { name: string; size: number; lastModified: Date; file: string };

async function* readZip(files: readonly ZipFile[], videos: Pick<MediaStore, "read">): AsyncGenerator<Uint8Array> {
  let video: Readable | undefined;
  const openEach = async function* () {
    for (const { file, ...entry } of files) {
      video = await videos.read(file);
      if (!video) throw new Error(`${entry.name} has been removed`);
      yield { ...entry, input: video };
    }
  };
  try {
    yield* makeZip(openEach()) as unknown as AsyncIterable<Uint8Array>;
  } finally {
    // client-zip leaves the current video open when the zip is cancelled.
    video?.destroy();
  }
}
