import { resolve } from "node:path";
import { asVidgenError, VidgenError } from "../errors.ts";
import type { Clock, Io } from "../io.ts";
import type { Client } from "./api.ts";
import { download } from "./download.ts";
import { type Completed, type FollowOptions, follow } from "./follow.ts";
import type { Journal, Line } from "./journal.ts";
import type { Naming } from "./naming.ts";
import { outputError, type Target } from "./target.ts";

export type CollectOptions = FollowOptions & {
  /** Where the video goes; without one it stays at its address. */
  target: Target | undefined;
  /** What the person said of it, for the file's name; the service's own words come second. */
  naming: Omit<Naming, "id">;
  journal: Pick<Journal, "append">;
  /** The strong ETag of what an earlier run has left in the target's `.part`. */
  etag: string | undefined;
  onProgress(received: number, total: number | undefined): void;
};

type World = Clock & Pick<Io, "fetch">;

/** A generation that has completed, and the file it was saved to. */
export type Collected = Completed & { file: string | undefined };

/**
 * Follows a generation to its end and saves its video. Throws as `follow` does, and `output` when the video is there but cannot be saved:
 * the error then names its address.
 */
export async function collect(client: Client, id: string, options: CollectOptions, io: World): Promise<Collected> {
  const { target, onNote } = options;
  const start = io.now();
  /** Nothing that happens here is lost by not being written down. */
  const record = async (line: Line) =>
    options.journal.append(line).catch((error) => onNote(asVidgenError(error).message));
  let isWatched = options.isNew;
  const onState = (status: string) => {
    isWatched = true;
    options.onState?.(status);
  };
  const completed = await follow(client, id, { ...options, onState }, io).catch(async (thrown) => {
    const error = asVidgenError(thrown);
    if (error.code === "failed") await record({ kind: "failed", id, reason: error.message });
    throw error;
  });
  await record({ kind: "completed", id, ...(isWatched ? { watched: true } : {}) });
  if (!target) return { ...completed, file: undefined };
  try {
    const timeoutMs = options.timeoutMs - (io.now() - start);
    const file = await save(client, id, { ...options, timeoutMs, completed, target, record }, io);
    await record({ kind: "saved", id, file: resolve(file) });
    return { ...completed, file };
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    throw outputError(error, "the video").with({ hint: `The video is at ${completed.videoUrl}` });
  }
}

type SaveOptions = CollectOptions & { completed: Completed; target: Target; record(line: Line): Promise<void> };

async function save(client: Client, id: string, options: SaveOptions, io: World): Promise<string> {
  const { completed, target, onNote, onProgress, etag, record } = options;
  const { prompt, model } = completed.generation;
  const naming = {
    id,
    prompt: options.naming.prompt ?? prompt ?? undefined,
    model: options.naming.model ?? model ?? undefined,
  };
  const freshUrl = async () => (await follow(client, id, { ...options, isNew: false }, io)).videoUrl;
  if (etag !== undefined) target.keep();
  const onEtag = async (found: string) => {
    await record({ kind: "part", id, file: target.partPath(), etag: found });
    target.keep();
  };
  await target.settle(naming);
  const overdue = new VidgenError("output", "The time to wait was over before the video was saved.");
  const limit = io.limit(options.timeoutMs, options.signal, overdue);
  try {
    const how = { signal: limit.signal, etag, onEtag, freshUrl, onProgress, onNote };
    await download(completed.videoUrl, target.part, how, io);
  } finally {
    limit.clear();
  }
  return target.commit(naming);
}
