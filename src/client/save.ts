import { VidgenError } from "../errors.ts";
import { type Content, readContent } from "./content.ts";
import { type DownloadIo, type DownloadOptions, download } from "./download.ts";
import type { Completed } from "./follow.ts";
import type { Entry } from "./history.ts";
import type { Words } from "./naming.ts";
import { outputError, type Target } from "./target.ts";
import { type Version, validatorOf } from "./version.ts";

type SaveOptions = DownloadOptions & {
  target: Target;
  /** What the journal knows of the generation. */
  entry: Entry | undefined;
  /** How long the download may take, in milliseconds. */
  timeoutMs: number;
  /** Called when the video is whole, before its file gets its name. */
  onWhole(content: Content): Promise<void>;
};

/**
 * Saves the video of a generation that has completed, and returns its path and content. Throws `output`, whose hint is the video's address unless that
 * is of no use, or the signal's reason.
 */
export async function save({ generation, videoUrl }: Completed, options: SaveOptions, io: DownloadIo) {
  const { target, entry } = options;
  const { id } = generation;
  const overdue = new VidgenError("output", "Timed out before the video was saved.");
  const limit = io.limit(options.timeoutMs, options.signal, overdue);
  let address: string | undefined = videoUrl;
  const freshUrl = async (signal: AbortSignal) => {
    address = undefined;
    address = await options.freshUrl(signal);
    return address;
  };
  try {
    const naming = { id, ...wordsOf(entry, generation) };
    const keepIfResumable = (version: Version = {}) => {
      if (validatorOf(version) !== undefined) target.keep();
    };
    keepIfResumable(options.version);
    const onVersion = async (found: Version) => {
      await options.onVersion(found);
      keepIfResumable(found);
    };
    await target.settle(naming);
    const how = { ...options, signal: limit.signal, onVersion, freshUrl };
    const sha256 = await download(videoUrl, target.part, how, io);
    const content = await readContent(target.part, sha256);
    await options.onWhole(content);
    return { file: await target.commit(naming, content), content };
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    const failure = outputError(error, "the video");
    // With a status, it is the address that has failed: it helps nobody.
    const isOfUse = address !== undefined && failure.httpStatus === undefined;
    throw failure.with({ id, hint: isOfUse ? `The video is at ${address}` : undefined });
  } finally {
    limit.clear();
  }
}

/** The prompt and the model that a file is named after: from the journal, else as the service reports them. */
export function wordsOf(entry: Entry | undefined, generation?: Completed["generation"]): Words {
  const prompt = entry?.request.prompt ?? generation?.prompt ?? undefined;
  return { prompt, model: entry?.request.model ?? generation?.model ?? undefined };
}
