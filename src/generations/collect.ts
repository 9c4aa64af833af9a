import type { Client } from "../api/client.ts";
import type { Io } from "../io.ts";
import { download } from "./download.ts";
import { type Completed, type FollowOptions, follow } from "./follow.ts";
import { type Naming, outputError, type Target } from "./target.ts";

export type CollectOptions = FollowOptions & {
  /** Where the video goes; without one it stays at its address. */
  target: Target | undefined;
  /** What the person said of it, for the file's name; the service's own words come second. */
  naming: Omit<Naming, "id">;
  /** Whether the video's address means anything once this process has ended. */
  isLasting: boolean;
  onProgress(received: number, total: number | undefined): void;
};

/** A generation that has completed, and the file it was saved to. */
export type Collected = Completed & { file: string | undefined };

/**
 * Follows a generation to its end and saves its video. Throws as `follow` does, and `output` when the video is there but cannot be saved:
 * then the error names its address.
 */
export async function collect(client: Client, id: string, options: CollectOptions, io: Io): Promise<Collected> {
  const completed = await follow(client, id, options, io);
  if (!options.target) return { ...completed, file: undefined };
  const { target, signal, onNote, onProgress } = options;
  const freshUrl = async () => (await follow(client, id, { ...options, isNew: false }, io)).videoUrl;
  try {
    await download(completed.videoUrl, target.part, { signal, onNote, onProgress, freshUrl }, io);
    const { prompt, model } = completed.generation;
    const naming = {
      id,
      prompt: options.naming.prompt ?? prompt ?? undefined,
      model: options.naming.model ?? model ?? undefined,
    };
    return { ...completed, file: await target.commit(naming) };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw outputError(error, "the video").with({
      hint: options.isLasting ? `The video is at ${completed.videoUrl}` : undefined,
    });
  }
}
