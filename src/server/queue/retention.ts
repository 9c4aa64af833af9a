import { createLoop, type Loop } from "../loop.ts";
import { type MediaStore, removeMedia } from "../media/media-store.ts";
import { createOutageReporter, isUnavailable } from "../observe/problem.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { Completed } from "../store/generations.ts";

type CleanerParts = Pick<ServiceParts, "store" | "videos" | "clock" | "reportProblem">;

/** How many videos or records to remove at a time, so that starts and replies are not delayed. */
const batchSize = 200;

const roundMs = 3_600_000;
const retryMs = 60_000;

/** A younger image may belong to a generation whose row does not name it yet. */
const minImageAgeMs = 3_600_000;

/** Removes the fetched images that no unfinished generation names, such as those of a process that was killed: at once, and then every hour. */
export function createImageCleaner({ store, videos, clock, reportProblem }: CleanerParts): Loop {
  const outage = createOutageReporter(
    "Fetched images that are not needed any more could not be removed",
    reportProblem,
  );
  const clean = async () => {
    // Lists the files first: a generation may begin to name one meanwhile.
    const found = await videos.imagesBefore(new Date(clock.date().getTime() - minImageAgeMs));
    const needed = found.length > 0 ? await store.fetchedImages() : [];
    for (const file of found) if (!needed.includes(file)) await videos.remove(file);
    outage.end();
  };
  return createLoop(
    () =>
      clean()
        .catch(outage.report)
        .then(() => roundMs),
    { clock },
  );
}

/** Removes expired videos and records every hour. Several processes may do so on the same store. */
export function createRetention({
  keep,
  store,
  videos,
  clock,
  reportProblem,
}: Omit<CleanerParts, "videos"> & {
  keep: NonNullable<ServiceParts["keep"]>;
  videos: Pick<MediaStore, "remove">;
}): Loop {
  const { recordsMs = Number.POSITIVE_INFINITY } = keep;
  // A record must not be deleted before its video, because then nothing would refer to the file.
  const videosMs = Math.min(keep.videosMs ?? Number.POSITIVE_INFINITY, recordsMs);
  const outage = createOutageReporter("Generations older than --keep could not be removed", reportProblem);
  const dateBefore = (ms: number) => new Date(clock.date().getTime() - ms).toISOString();
  /** Where to continue, because a round tries each video once, and skips those that cannot be removed. */
  let lastTried: Completed | undefined;
  /** Whether a video that cannot be removed was reported, and whether this round has found one. */
  let [isReported, isStuck] = [false, false];

  const removeVideo = async ({ id, media }: Completed) => {
    try {
      // Removes the file first, because nothing would remove it afterwards.
      await removeMedia(videos, media);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      const what = `The video of the generation ${id} could not be removed; the service tries again every hour`;
      if (!isReported) reportProblem(what, error);
      [isReported, isStuck] = [true, true];
      return;
    }
    await store.remove(id, clock.date().toISOString());
  };
  const removeVideos = async (): Promise<number> => {
    const found = await store.completedBefore({ before: dateBefore(videosMs), limit: batchSize, after: lastTried });
    for (const each of found) {
      await removeVideo(each);
      lastTried = each;
    }
    if (found.length < batchSize) {
      lastTried = undefined;
      [isReported, isStuck] = [isStuck, false];
    }
    return found.length;
  };
  return createLoop(
    async () => {
      try {
        const videoCount = videosMs < Number.POSITIVE_INFINITY ? await removeVideos() : 0;
        const recordCount =
          recordsMs < Number.POSITIVE_INFINITY
            ? await store.forget({ before: dateBefore(recordsMs), limit: batchSize })
            : 0;
        outage.end();
        return Math.max(videoCount, recordCount) === batchSize ? 0 : roundMs;
      } catch (error) {
        outage.report(error);
        return retryMs;
      }
    },
    { clock },
  );
}
