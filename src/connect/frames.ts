import { join } from "node:path";
import { requireFfmpeg } from "../client/film/ffmpeg.ts";
import { type KeptFrame, keepLastFrame } from "../client/film/kept-frame.ts";
import { close, type FinishOptions, finish, openAttempt } from "../client/generation/attempt.ts";
import { hasContent } from "../client/ledger/content.ts";
import type { Entry } from "../client/ledger/history.ts";
import { sayNothingSent, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import type { Session } from "./session.ts";
import { storageFolder } from "./storage.ts";

/** A video whose last frame is needed: a file, with its generation if known, or a generation. */
export type FrameSource =
  | { file: string; id: string | undefined }
  | { id: string; entry: Entry | undefined; open(): Promise<Pick<Session, "service">> };

type FrameIo = Pick<Io, "env" | "home" | "platform" | "run" | "limit" | "disk" | "uuid" | "date">;
type KeepFrame = (video: string, signal: AbortSignal) => Promise<KeptFrame>;

type FrameOptions = Pick<FinishOptions, "signal" | "timeoutMs" | "intervalMs"> & {
  /** Called before the video of a generation that is not saved is downloaded. */
  onDownload?: (() => void) | undefined;
};

/**
 * Returns a function that keeps the last frames of videos beside the journal (see `keepLastFrame`). Throws
 * `usage` without ffmpeg.
 */
export async function createFrameKeeper(feature: string, signal: AbortSignal, io: FrameIo): Promise<KeepFrame> {
  const ffmpeg = await requireFfmpeg({ feature, encodes: false }, io, signal);
  const folder = join(storageFolder("state", io), "frames");
  return (video, signal) => keepLastFrame(video, folder, { ffmpeg, signal }, io);
}

/**
 * The last frame of a video, kept beside the journal. The video of a generation is downloaded unless its saved file is
 * still there, if necessary after waiting for it. Throws `usage` without ffmpeg and for an incomplete video, `failed` for a
 * generation without a video, the errors of `finish`, `output`, or the signal's reason; each says that nothing was sent.
 */
export async function findLastFrame(source: FrameSource, options: FrameOptions, io: FrameIo): Promise<KeptFrame> {
  return takeLastFrame(source, options, io).catch((error) => {
    throw sayNothingSent(error);
  });
}

async function takeLastFrame(source: FrameSource, options: FrameOptions, io: FrameIo): Promise<KeptFrame> {
  const { signal, onDownload = () => {}, ...times } = options;
  const keepFrame = await createFrameKeeper("The last frame of a video", signal, io);
  if ("file" in source) return keepFrame(source.file, signal);
  const { id, entry, open } = source;
  const savedFile = entry?.content && entry.file;
  if (savedFile && entry.content && (await hasContent(savedFile, entry.content, io.disk)))
    return keepFrame(savedFile, signal);
  onDownload();
  const { service } = await open();
  // Opened as for stdout, so that the file is temporary, and the video is not recorded as delivered.
  const attempt = await openAttempt(service, id, { ...times, outputPath: "-", signal });
  try {
    const finished = await finish(attempt).catch((error: VidgenError) => {
      // Replaced, because the code of the error is about the source, not about the start.
      throw error.ended ? noVideoError(id, error) : error;
    });
    if (finished.kind === "url") throw new Error("a video with an output path is always saved");
    return await keepFrame(finished.file, signal);
  } finally {
    await close(attempt);
  }
}

function noVideoError(id: string, { message }: VidgenError): VidgenError {
  return new VidgenError("failed", `Nothing was sent: ${id} has no video whose last frame could be used. ${message}`, {
    id,
  });
}
