import { basename } from "node:path";
import type { Readable } from "node:stream";
import type { Media } from "../store/generations.ts";

/** The bytes of a file from `first` to `last`, both included. */
export type ByteRange = { first: number; last: number };

/** Where the videos and their thumbnails are kept: a folder, or an S3-compatible store. */
export type MediaStore = {
  /** The folder where an engine writes its files, before they are kept. */
  scratch: string;
  /**
   * Keeps a video and its thumbnail, given by their paths in the scratch folder, whole or not at all. Resolves with their names when both are
   * durable. May be called again when it has rejected.
   */
  keep(video: Media, signal: AbortSignal): Promise<Media>;
  /** Opens the bytes of a kept file; `undefined` when the file was removed. */
  read(name: string, range?: ByteRange): Promise<Readable | undefined>;
  /** Returns an address of the store's own, where whoever has it can get a kept file for 15 minutes; a folder has none. */
  presign?(name: string): Promise<string>;
  /** Removes a kept file; one that is not there is no error. */
  remove(name: string): Promise<void>;
  /** Rejects with an error made for people when it cannot be used now. */
  check(signal: AbortSignal): Promise<void>;
  /** Removes the scratch folder, if this process has one for itself. */
  close(): Promise<void>;
};

/** Removes the files of a video; of one that has none, nothing. */
export async function removeMedia(videos: Pick<MediaStore, "remove">, media: Media | null): Promise<void> {
  for (const name of [media?.file, media?.thumbnail]) if (name) await videos.remove(name);
}

/** The name under which a file is kept. With the mark of a process in it, two processes that make the same video never write the same file. */
export function nameOf(path: string, mark: string | undefined): string {
  const name = basename(path);
  return mark === undefined ? name : name.replace(/\.\w+$/, `.${mark}$&`);
}
