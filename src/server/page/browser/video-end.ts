/** In pixels, of the longer side: as a `data:` address, a PNG of noise in 4K is larger than services take. */
const maxSide = 1_920;

/** Returns the last frame of a generation's video as a PNG. Rejects when the browser cannot play the video. */
export async function takeLastFrame(id: string): Promise<Blob> {
  const video = document.createElement("video");
  Object.assign(video, { muted: true, preload: "auto", src: `/videos/${id}.mp4` });
  try {
    await nextFrame(video);
    let end: number;
    // Of some files the browser learns the whole length only at the end.
    do {
      end = video.duration;
      // Where the end is not known, this throws.
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

/** A busy browser may show no frame at all; of a file without any picture it never does. */
const answerMs = 10_000;

/** Resolves once the video shows another frame; rejects when it shows none for too long. At the event "seeked", a canvas would sometimes still get none, or the one before. */
function nextFrame(video: HTMLVideoElement): Promise<unknown> {
  return new Promise((resolve, reject) => {
    video.requestVideoFrameCallback(resolve);
    video.addEventListener("error", () => reject(video.error), { once: true });
    setTimeout(() => reject(new Error("no frame")), answerMs);
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
