/** The maximum length of the longer side, in pixels: as a `data:` URL, a noisy PNG in 4K is larger than services accept. */
const maxSide = 1_920;

/** Resolves with the last frame of a generation's video as a PNG. Rejects if the browser cannot play the video. */
export async function takeLastFrame(id: string): Promise<Blob> {
  const video = document.createElement("video");
  Object.assign(video, { muted: true, preload: "auto", src: `/videos/${id}.mp4` });
  try {
    await nextFrame(video);
    let end: number;
    // For some files, the browser learns the full length only at the end.
    do {
      end = video.duration;
      // Throws if the length is unknown.
      video.currentTime = end;
      await nextFrame(video);
    } while (video.duration > end);
    return await pngOf(video);
  } finally {
    // A browser opens only six connections to one server.
    video.removeAttribute("src");
    video.load();
  }
}

/** How long to wait for a frame: a file without a picture never shows one. */
const frameTimeoutMs = 10_000;

/**
 * Resolves once the video shows another frame; rejects after a timeout. The event "seeked" is too early: a canvas may still get no frame, or the
 * previous one.
 */
function nextFrame(video: HTMLVideoElement): Promise<unknown> {
  return new Promise((resolve, reject) => {
    video.requestVideoFrameCallback(resolve);
    video.addEventListener("error", () => reject(video.error), { once: true });
    setTimeout(() => reject(new Error("no frame")), frameTimeoutMs);
  });
}

function pngOf(video: HTMLVideoElement): Promise<Blob> {
  const { videoWidth, videoHeight } = video;
  const scale = Math.min(1, maxSide / Math.max(videoWidth, videoHeight));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(videoWidth * scale);
  canvas.height = Math.round(videoHeight * scale);
  canvas.getContext("2d")?.drawImage(video, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no canvas"))), "image/png"),
  );
}
