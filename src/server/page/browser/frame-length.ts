/** The minimum time between two frames, in seconds. */
const shortestFrame = 0.001;
/** How far from the current position frames are measured, in seconds: a few frames, so that the picture hardly changes. */
const measuredPart = 0.3;
/** Some files round the time of each frame to milliseconds, so the mean of a few is more exact. */
const measuredFrames = 3;
/** Limits the wait for a frame, because the browser does not report a frame that is already shown. */
const answerMs = 2_000;

/** The measured lengths, in seconds. */
const lengths = new WeakMap<HTMLVideoElement, number>();

/** Resolves with the length of a video's frame, in seconds; `undefined` if the browser does not report frames. Changes the position of the video. */
export async function frameLength(video: HTMLVideoElement): Promise<number | undefined> {
  const length = lengths.get(video) ?? (await measure(video));
  if (length !== undefined) lengths.set(video, length);
  return length;
}

/** Steps back from frame to frame: the browser reports the exact start of each. */
async function measure(video: HTMLVideoElement): Promise<number | undefined> {
  const { currentTime, duration } = video;
  // The video is not loaded, or the browser is too old.
  if (!(duration > 0) || !("requestVideoFrameCallback" in video)) return undefined;
  const isEarly = currentTime < duration / 2;
  const last = await showFrame(video, currentTime + (isEarly ? measuredPart : -measuredPart));
  if (last === undefined) return undefined;
  const begins = [last];
  while (begins.length <= measuredFrames) {
    const at = (begins.at(-1) ?? 0) - shortestFrame;
    const begin = at > 0 ? await showFrame(video, at) : undefined;
    if (begin === undefined) break;
    begins.push(begin);
  }
  const count = begins.length - 1;
  return count === 0 ? undefined : (last - (begins.at(-1) ?? 0)) / count;
}

/** Seeks, and resolves with the start of the frame that the video then shows; `undefined` if the frame does not change. */
function showFrame(video: HTMLVideoElement, at: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    let request = 0;
    const timer = setTimeout(() => {
      video.cancelVideoFrameCallback(request);
      resolve(undefined);
    }, answerMs);
    const onFrame = (_: number, { mediaTime }: VideoFrameCallbackMetadata) => {
      // A later frame belongs to an earlier seek that was still in progress.
      if (mediaTime > at) {
        request = video.requestVideoFrameCallback(onFrame);
        return;
      }
      clearTimeout(timer);
      resolve(mediaTime);
    };
    request = video.requestVideoFrameCallback(onFrame);
    video.currentTime = at;
  });
}
