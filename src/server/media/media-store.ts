import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import type { Readable } from "node:stream";
import type { Media } from "../store/generations.ts";

/** The bytes of a file from `first` to `last`, both included. */
export type ByteRange = { first: number; last: number };

/** Where the videos and their thumbnails are kept, and the images that they start from: a folder, or an S3-compatible store. */
export type MediaStore = {
  /** The folder where an engine writes its files, before they are kept. */
  scratch: string;
  /**
   * Moves a video and its thumbnail from their paths in the scratch folder into the store. Resolves with their names when both are durable. May be
   * called again after it has rejected.
   */
  keep(video: Media, signal: AbortSignal): Promise<Media>;
  /** Stores a fetched image under a random name, at which no route serves it. Resolves with the name when the image is durable. */
  keepImage(bytes: Uint8Array, signal: AbortSignal): Promise<string>;
  /** The names of the images that were stored before a date. */
  imagesBefore(date: Date): Promise<string[]>;
  /** Opens the bytes of a kept file; `undefined` when the file was removed. */
  read(name: string, range?: ByteRange): Promise<Readable | undefined>;
  /** Returns a signed URL at which anyone can download a kept file for 15 minutes. A folder has no such URLs. */
  presign?(name: string): Promise<string>;
  /** Removes a kept file. Resolves also when the file does not exist. */
  remove(name: string): Promise<void>;
  /** Rejects with an error for people when the store cannot be used now. */
  check(signal: AbortSignal): Promise<void>;
  /** Removes the scratch folder, if it belongs to this process alone. */
  close(): Promise<void>;
};

/** Removes the files of a video, if it has any. */
export async function removeMedia(videos: Pick<MediaStore, "remove">, media: Media | null): Promise<void> {
  for (const name of [media?.file, media?.thumbnail]) if (name) await videos.remove(name);
}

/** The folder, or the prefix, of the fetched images. */
export const imagesFolder = "images";

export function newImageName(): string {
  return `${imagesFolder}/${randomUUID()}`;
}

/**
 * Returns the name under which a file is kept. The name contains the mark of the process, so that two processes that generate the same video never
 * write the same file: <id>.mp4 becomes <id>.<mark>.mp4.
 */
export function keptName(path: string, mark: string | undefined): string {
  const name = basename(path);
  return mark === undefined ? name : name.replace(/\.\w+$/, `.${mark}$&`);
}
