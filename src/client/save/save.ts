import { VidgenError } from "../../errors.ts";
import type { CompletedGeneration } from "../../protocol/schema.ts";
import { shorten } from "../../protocol/text.ts";
import { isDataUrl } from "../../protocol/url.ts";
import { canBeName } from "../../video/naming.ts";
import { type Content, readContent } from "../ledger/content.ts";
import type { Entry } from "../ledger/history.ts";
import { type DownloadIo, download, type MediaOptions } from "./download.ts";
import { outputError } from "./files.ts";
import { namePartsOf, type Target } from "./target.ts";

type SaveOptions = Omit<MediaOptions, "version" | "onVersion"> & {
  target: Target;
  /** The journal's entry of the generation. */
  entry: Entry | undefined;
  /** How long the download may take, in milliseconds, if a later one can resume it. */
  timeoutMs: number;
  /** Called when the video is complete, before its file gets its name. */
  onWhole(content: Content): Promise<void>;
};

/**
 * Saves the video of a completed generation, and returns its path and content. Throws `pending` after the
 * timeout, `output`, with the video's URL as the hint unless that is useless, or the signal's reason.
 */
export async function save({ generation, videoUrl }: CompletedGeneration, options: SaveOptions, io: DownloadIo) {
  const { target, entry } = options;
  const { id } = generation;
  const limit = limitDownload(options, io);
  let currentUrl: string | undefined = videoUrl;
  const renewUrl = async (signal: AbortSignal) => {
    currentUrl = undefined;
    currentUrl = await options.renewUrl(signal);
    return currentUrl;
  };
  try {
    const naming = { id, ...namePartsOf(entry, generation) };
    const { file, version, begin } = await target.open();
    const sha256 = await download(
      videoUrl,
      file,
      { ...options, version, onVersion: begin, signal: limit.signal, renewUrl, onProgress: limit.onProgress },
      io,
    );
    const content = await readContent(file, sha256);
    await options.onWhole(content);
    const path = await target.commit(naming, content);
    const isNamedById = path !== target.outputPath && target.outputPath !== "-";
    if (isNamedById && !canBeName(id))
      options.onNote(`The service's id "${shorten(id)}" cannot be a file name: the name is made from the prompt.`);
    return { file: path, content };
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    const failure = outputError(error, "the video");
    // An error with an HTTP status came from the URL itself, so the URL does not help.
    const isUrlUseful = currentUrl !== undefined && !isDataUrl(currentUrl) && failure.httpStatus === undefined;
    throw failure.with({ id, hint: isUrlUseful ? `The video is at ${currentUrl}` : undefined });
  } finally {
    limit.clear();
  }
}

/**
 * Aborts the download after the timeout, unless its bytes would be lost: if no validator identifies the video
 * for a later download, or if this download has started again after it was complete.
 */
function limitDownload({ target, timeoutMs, signal, onNote, onProgress }: SaveOptions, io: DownloadIo) {
  const controller = new AbortController();
  const limit = io.limit(timeoutMs, signal, new VidgenError("pending", "Timed out before the video was saved."));
  let size = 0;
  let hasRestarted = false;
  const onAbort = () => {
    const wouldLoseBytes = size > 0 && (hasRestarted || !target.isResumable());
    if (signal.aborted || !wouldLoseBytes) return controller.abort(limit.signal.reason);
    signal.addEventListener("abort", onLateAbort, { once: true });
    onNote("The timeout is over, but a later download could not resume this one, so it continues while data arrives.");
  };
  const onLateAbort = () => controller.abort(signal.reason);
  limit.signal.addEventListener("abort", onAbort, { once: true });
  if (limit.signal.aborted) onAbort();
  return {
    signal: controller.signal,
    onProgress(received: number, total: number | undefined): void {
      hasRestarted ||= received < size;
      size = received;
      onProgress(received, total);
    },
    clear(): void {
      limit.clear();
      signal.removeEventListener("abort", onLateAbort);
    },
  };
}
