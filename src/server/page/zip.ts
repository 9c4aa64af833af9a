import { Readable } from "node:stream";
import { makeZip, predictLength } from "client-zip";
import { fileName } from "../../client/naming.ts";
import type { MediaStore } from "../media/media-store.ts";
import type { Media, StoredGeneration } from "../store/store.ts";

/** A generation that has a video. */
export type Finished = StoredGeneration & { media: Media };

/**
 * Returns the videos of generations as one .zip, each under the name that the command line gives it, with its size in bytes. They are read one
 * after the other while the zip is read, which fails when a video is not there any more.
 */
export function zipOf(
  generations: readonly Finished[],
  videos: Pick<MediaStore, "read">,
): { body: Readable; size: number } {
  const files = generations.map(({ id, request, media, completed_at, created_at }) => ({
    name: fileName({ id, prompt: request.prompt, model: request.model }),
    size: media.size,
    lastModified: new Date(completed_at ?? created_at),
    file: media.file,
  }));
  const read = async function* () {
    for (const { file, ...entry } of files) {
      const input = await videos.read(file);
      if (!input) throw new Error(`${entry.name} has been removed`);
      yield { ...entry, input };
    }
  };
  return { body: Readable.from(bytesOf(makeZip(read()))), size: Number(predictLength(files)) };
}

/** Cancels the zip when its reader goes. */
async function* bytesOf(zip: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* zip as unknown as AsyncIterable<Uint8Array>;
}
