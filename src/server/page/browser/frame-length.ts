/** Two frames begin at least so far apart, in seconds. */
const shortestFrame = 0.001;
/** Frames are measured this far from the current position, in seconds: some frames lie between, and the picture hardly changes meanwhile. */
const measuredPart = 0.3;
/** Some files round the time of each frame to milliseconds, so the mean of a few is more exact. */
const measuredFrames = 3;
/** The browser does not report a frame that is already shown. */
const answerMs = 2_000;

/** What was measured, in seconds. */
const lengths = new WeakMap<HTMLVideoElement, number>();

/** Resolves with how long a frame of a video lasts, in seconds; with `undefined` where the browser does not tell. Leaves the video at another place. */
export async function frameLength(video: HTMLVideoElement): Promise<number | undefined> {
  const length = lengths.get(video) ?? (await measure(video));
  if (length !== undefined) lengths.set(video, length);
  return length;
}

/** Goes back from frame to frame: the browser says exactly when each of them begins. */
async function measure(video: HTMLVideoElement): Promise<number | undefined> {
  const { currentTime, duration } = video;
  // Nothing is loaded, or the browser is an older one.
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

/** Resolves with when the frame begins that a video then shows; with `undefined` where it shows no other one. */
function showFrame(video: HTMLVideoElement, at: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    let request = 0;
    const timer = setTimeout(() => {
      video.cancelVideoFrameCallback(request);
      resolve(undefined);
    }, answerMs);
    const hear = (_: number, { mediaTime }: VideoFrameCallbackMetadata) => {
      // A later frame is that of an earlier seek, which was still under way.
      if (mediaTime > at) {
        request = video.requestVideoFrameCallback(hear);
        return;
      }
      clearTimeout(timer);
      resolve(mediaTime);
    };
    request = video.requestVideoFrameCallback(hear);
    video.currentTime = at;
  });
}
