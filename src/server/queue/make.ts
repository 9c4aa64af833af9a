import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { systemCode, VidgenError } from "../../errors.ts";
import { holdsHash } from "../../protocol/secrets.ts";
import { readVideoFacts } from "../../video/mp4.ts";
import {
  type Engine,
  type FailureFacts,
  failed,
  type ImageFile,
  type RenderOptions,
  type RenderOutcome,
  type RenderTask,
} from "../engines/engine.ts";
import { findPassedFault } from "../engines/passed.ts";
import { readDirectives } from "../engines/preview/directives.ts";
import { takeSaved } from "../engines/upstream/reply-video.ts";
import type { MediaStore } from "../media/media-store.ts";
import { isUnavailable } from "../observe/problem.ts";
import type { RenderResult } from "../outcomes.ts";
import { retryForever } from "../retry-forever.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { Claim } from "../store/claims.ts";
import {
  type Checkpoint,
  type ImageFetch,
  listImages,
  type Media,
  replaceImages,
  type StoredGeneration,
} from "../store/generations.ts";
import { fetchImages, nextTry, removeImages, type SaveOptions, saveImages } from "./image-fetch.ts";

export type MakeOptions = Pick<ServiceParts, "store" | "reportProblem"> &
  Omit<SaveOptions, "account" | "folder"> & {
    /** Throws when another process may make the generation. */
    confirm(): void;
  };

/** A generation with its images in files: in memory they could take 28 MB for hours. */
export type Task = RenderTask & Pick<StoredGeneration, "checkpoint" | "created_at">;

/** Reads a generation and saves its images, unless an engine already has the images. Resolves with a result if the video cannot be made. */
export async function loadTask(
  { id, account, engine }: Pick<Claim, "id" | "account" | "engine">,
  options: MakeOptions,
): Promise<Task | Exclude<RenderResult, { kind: "made" }>> {
  const { status, request, checkpoint, created_at, imageFetch } = await findGeneration(id, options);
  // The generation was cancelled between the claim and this read.
  if (status !== "processing") return { kind: "not submitted", reason: "it has ended" };
  if (checkpoint?.state === "submitting") {
    const reason = "the local service ended while it submitted this video";
    return {
      kind: "unclear",
      reason,
      error: `${reason} to ${checkpoint.engine}, which may be generating it; ${notSubmittedAgain}`,
    };
  }
  // The engine gets the images as files, and needs neither of the two flags.
  const { images, lastImage, references, isReal, hasDirectives, ...renderRequest } = request;
  const { fail } = readDirectives(request);
  if (fail !== undefined) return { kind: "refused", error: fail, failure: "refused" };
  const { imageFolder, ...files } = pathsOf(id, options.videos);
  try {
    const read = async () => listImages(await retryForever(() => options.store.images(id), options));
    const saveOptions = { ...options, account, folder: imageFolder };
    const saved =
      engine === null
        ? replaceImages<ImageFile>(request, await saveImages(read, imageFetch, saveOptions))
        : { images: [] };
    const hasSecrets = Object.values(renderRequest.extras).some(holdsHash);
    const secrets = hasSecrets ? await retryForever(() => options.store.secrets(id), options) : {};
    const extras = { ...renderRequest.extras, ...secrets };
    return { id, checkpoint, created_at, request: { ...renderRequest, extras }, ...saved, ...files };
  } catch (error) {
    options.signal.throwIfAborted();
    return imageEnd(error);
  }
}

/** Returns the end of a generation whose images are not there: one that cannot be used is the request's fault; a disk is the service's. */
function imageEnd(error: unknown): Extract<RenderResult, { kind: "refused" | "failed" }> {
  const end = { error: reasonOf(error), isNotSubmitted: true };
  const isDisk = "code" in Object(error) || isUnavailable(error);
  return isDisk ? { ...end, kind: "failed" } : { ...end, kind: "refused", failure: "image" };
}

/**
 * Fetches and keeps the images of a generation, which then waits for an engine. While a host fails, resolves with `retryAfterMs` until the next
 * try, which is stored; and with an end if an image cannot be used.
 */
export async function fetchAhead(
  { id, account }: Pick<Claim, "id" | "account">,
  options: MakeOptions,
): Promise<Exclude<RenderResult, { kind: "made" }>> {
  const { store, clock, signal } = options;
  const { status, request, imageFetch } = await findGeneration(id, options);
  if (status !== "processing") return { kind: "not submitted", reason: "it has ended" };
  const startedAt = clock.date();
  const keep = (next: ImageFetch) => retryForever(() => store.keepImageFetch(id, next), options);
  try {
    const fetched = await fetchImages(listImages(request), { ...options, account });
    await keep(fetched).catch(async (error) => {
      await removeImages(fetched, options);
      throw error;
    });
    return { kind: "not submitted", reason: "its images are fetched" };
  } catch (error) {
    signal.throwIfAborted();
    const before = imageFetch && "since" in imageFetch ? new Date(imageFetch.since) : startedAt;
    // The clock may have been set back.
    const since = before < startedAt ? before : startedAt;
    const now = clock.date();
    const next = nextTry(error, { since, now });
    if (!next) return imageEnd(error);
    const problem = reasonOf(error);
    await keep({ since: since.toISOString(), nextAt: next.toISOString(), problem });
    return { kind: "not submitted", reason: problem, retryAfterMs: next.getTime() - now.getTime() };
  }
}

/** Has an engine make the video of a task, and resolves when the video is stored. Rejects only when the signal aborts. */
export async function makeVideo(
  { checkpoint, created_at: _, ...task }: Task,
  engine: Engine,
  {
    store,
    videos,
    progress,
    releaseSlot,
    onSubmitted,
    ...options
  }: MakeOptions & Pick<RenderOptions, "progress" | "releaseSlot"> & { onSubmitted(): void },
): Promise<RenderResult> {
  const { id } = task;
  const { clock, signal, confirm } = options;
  const storeCheckpoint = async (state: Checkpoint | null) => {
    const stored = state && {
      ...state,
      engine: engine.name,
      model: engine.upstreamModel,
      origin: engine.origin,
      at: clock.date().toISOString(),
    };
    const write = () => store.keepCheckpoint(id, stored);
    // A job that is being stopped has one attempt.
    await (signal.aborted ? write() : retryForever(write, options));
    if (state && ["submitted", "saved", "finished"].includes(state.state)) onSubmitted();
  };
  let cost: number | undefined;
  const reportCharge = (usd: number) => {
    cost = usd;
  };
  const render = async (): Promise<RenderOutcome> => {
    if (checkpoint?.state === "saved") {
      const { file: savedFile } = checkpoint;
      return takeSaved({ savedFile, file: task.file, name: checkpoint.engine }, options);
    }
    const isOfThisEngine = checkpoint?.engine === engine.name && checkpoint.state !== "submitting";
    // Another process may have accepted the start for another engine, or for another workflow.
    const passedFault = checkpoint === null ? await findPassedFault(engine, task.request) : undefined;
    if (passedFault?.isTemporary) return { kind: "not submitted", reason: passedFault.text };
    if (passedFault) throw failed(new Error(`${passedFault.text}; nothing was submitted`), { isNotSubmitted: true });
    return engine.render(task, {
      resume: isOfThisEngine ? checkpoint : undefined,
      checkpoint: storeCheckpoint,
      confirm,
      progress,
      ...(releaseSlot && { releaseSlot }),
      reportCharge,
      signal,
    });
  };
  try {
    const outcome = await render();
    if (outcome.kind === "unclear") return { ...outcome, error: unclearText(engine, outcome) };
    if (outcome.kind !== "made") return outcome;
    const { file } = task;
    const fileInfo = await retryForever(() => describeVideo(file), { ...options, what: "The video cannot be read" });
    if (!fileInfo) return { kind: "failed", error: `${engine.name} generated this video, but its file is gone`, cost };
    const video = { ...fileInfo, file, thumbnail: outcome.hasThumbnail ? task.thumbnail : null };
    const media = await retryForever(() => videos.keep(video, signal), {
      ...options,
      what: "The video cannot be stored",
    });
    return { ...outcome, media };
  } catch (error) {
    signal.throwIfAborted();
    const { failure, isNotSubmitted }: FailureFacts = Object(error);
    return { kind: "failed", error: reasonOf(error), error_code: codeOf(error), failure, isNotSubmitted, cost };
  }
}

/** Returns the code for clients of an engine's error. With `output`, the video was made, but its file cannot be used. */
function codeOf(error: unknown): "credits" | "not_fetched" | undefined {
  if (!(error instanceof VidgenError)) return undefined;
  if (error.code === "output") return "not_fetched";
  return error.code === "credits" ? error.code : undefined;
}

export const notSubmittedAgain = "it was not submitted again";

function unclearText({ name }: Engine, { reason }: { reason: string }): string {
  return `it is unclear whether ${name} generates this video (${reason}); ${notSubmittedAgain}`;
}

/** Returns the reason of a failure, which is never empty, because clients read the `error`. */
function reasonOf(thrown: unknown): string {
  const reason = thrown instanceof Error ? thrown.message : thrown;
  return typeof reason === "string" && reason !== "" ? reason : "the model run did not succeed";
}

/** Removes the images of a generation and, if its video was not made, its other files. An earlier process may have left them. */
export async function removeFiles(
  id: string,
  { isMade }: { isMade: boolean },
  { videos, reportProblem }: Pick<MakeOptions, "videos" | "reportProblem">,
): Promise<void> {
  const { imageFolder, file, thumbnail } = pathsOf(id, videos);
  const remove = (what: string, path: string) =>
    rm(path, { recursive: true, force: true }).catch((error) =>
      reportProblem(`${what} of the generation ${id} could not be removed`, error),
    );
  await remove("The images", imageFolder);
  if (!isMade) await Promise.all([file, thumbnail].map((path) => remove("A file", path)));
}

function pathsOf(id: string, { scratch }: MediaStore) {
  const start = join(scratch, id);
  return { file: `${start}.mp4`, thumbnail: `${start}.png`, imageFolder: `${start}.images` };
}

/** Returns `undefined` if the file does not exist. */
async function describeVideo(path: string): Promise<Omit<Media, "file" | "thumbnail"> | undefined> {
  try {
    const hash = createHash("sha256");
    await pipeline(createReadStream(path), hash);
    const file = await open(path);
    try {
      const { seconds: _, ...frame } = await readVideoFacts(file);
      return { size: (await file.stat()).size, etag: `"${hash.digest("hex")}"`, ...frame };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

export async function findGeneration(id: string, options: MakeOptions): Promise<StoredGeneration> {
  const generation = await retryForever(() => options.store.generation(id), options);
  if (!generation) throw new Error(`the store has no generation ${id}`);
  return generation;
}
