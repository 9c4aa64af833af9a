import { VidgenError } from "../errors.ts";
import type { Clock, Io } from "../io.ts";
import { download } from "./download.ts";
import type { Completed } from "./follow.ts";
import type { Entry, Line } from "./history.ts";
import type { Naming } from "./naming.ts";
import { outputError, type Target } from "./target.ts";

export type SaveOptions = {
  target: Target;
  /** What the journal knows of the generation. */
  entry: Entry | undefined;
  /** How long the download may take, in milliseconds. */
  timeoutMs: number;
  signal: AbortSignal;
  record(line: Line): Promise<void>;
  /** Asks for the address once more, when the first one has expired. */
  freshUrl(signal: AbortSignal): Promise<string>;
  onProgress(received: number, total: number | undefined): void;
  onNote(text: string): void;
};

/** Saves the video of a generation that has completed, and returns its path. Throws `output`, which names the video's address, or the signal's reason. */
export async function save(
  { generation, videoUrl }: Completed,
  options: SaveOptions,
  io: Clock & Pick<Io, "fetch">,
): Promise<string> {
  const { target, entry, record, onProgress, onNote } = options;
  const { id } = generation;
  const overdue = new VidgenError("output", "The time to wait was over before the video was saved.");
  const limit = io.limit(options.timeoutMs, options.signal, overdue);
  const { signal } = limit;
  try {
    const naming = { id, ...wordsOf(entry, generation) };
    // An earlier run has left a part of this very video.
    const etag = entry?.part?.file === target.partPath() ? entry.part.etag : undefined;
    if (etag !== undefined) target.keep();
    const onEtag = async (found: string) => {
      await record({ kind: "part", id, file: target.partPath(), etag: found });
      target.keep();
    };
    await target.settle(naming);
    const freshUrl = () => options.freshUrl(signal);
    await download(videoUrl, target.part, { signal, etag, onEtag, freshUrl, onProgress, onNote }, io);
    return await target.commit(naming);
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    throw outputError(error, "the video").with({ hint: `The video is at ${videoUrl}` });
  } finally {
    limit.clear();
  }
}

/** What a file is named after: the person's own words, then the service's. */
export function wordsOf(entry: Entry | undefined, generation?: Completed["generation"]): Omit<Naming, "id"> {
  const prompt = entry?.request.prompt ?? generation?.prompt ?? undefined;
  return { prompt, model: entry?.request.model ?? generation?.model ?? undefined };
}
