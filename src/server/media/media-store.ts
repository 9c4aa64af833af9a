import type { Readable } from "node:stream";
import type { Media } from "../store/store.ts";

/** Where the videos and their thumbnails are kept: a folder, or an S3-compatible store. */
export type MediaStore = {
  /** The folder where an engine writes its files, before they are kept. */
  scratch: string;
  /**
   * Keeps a video and its thumbnail, given by their paths in the scratch folder, whole or not at all. Resolves with their names when both are
   * durable. May be called again when it has rejected.
   */
  keep(video: Media): Promise<Media>;
  /** Opens the bytes of a kept file, from `first` to `last`; `undefined` when the file was removed. */
  read(name: string, range?: { first: number; last: number }): Promise<Readable | undefined>;
  /** Rejects with an error made for people when it cannot be used now. */
  check(signal: AbortSignal): Promise<void>;
};
