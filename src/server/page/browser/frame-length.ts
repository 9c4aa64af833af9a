/** The shortest possible frame, in seconds. */
const minFrameSeconds = 0.001;
/** Frames are measured within this many seconds of the current position, so that the picture hardly changes. */
const measuredSeconds = 0.3;
/** The number of frames of which the mean is taken, because some files round the time of each frame to milliseconds. */
const measuredFrames = 3;
/** How long to wait for a frame: the browser does not report one that is already shown. */
const frameTimeoutMs = 2_000;

/** The measured lengths, in seconds. */
const lengths = new WeakMap<HTMLVideoElement, number>();

/** Resolves with the length of a frame of a video, in seconds; `undefined` if it cannot be measured. Changes the position of the video. */
export async function frameLength(video: HTMLVideoElement): Promise<number | undefined> {
  const length = lengths.get(video) ?? (await measure(video));
  if (length !== undefined) lengths.set(video, length);
  return length;
}

/** Steps back frame by frame, because the browser reports the exact start of each. */
async function measure(video: HTMLVideoElement): Promise<number | undefined> {
  const { currentTime, duration } = video;
  // The video is not loaded, or the browser is too old.
  if (!(duration > 0) || !("requestVideoFrameCallback" in video)) return undefined;
  const isEarly = currentTime < duration / 2;
  const last = await showFrame(video, currentTime + (isEarly ? measuredSeconds : -measuredSeconds));
  if (last === undefined) return undefined;
  const begins = [last];
  while (begins.length <= measuredFrames) {
    const at = (begins.at(-1) ?? 0) - minFrameSeconds;
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
    }, frameTimeoutMs);
    const onFrame = (_: number, { mediaTime }: VideoFrameCallbackMetadata) => {
      // A frame after the requested time belongs to an earlier seek.
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
