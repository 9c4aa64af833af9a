import { cut, fineMedia, type MediaFault, type MediaScene } from "./media-faults.ts";
import { box } from "./oracle.ts";

const anotherWebm = Buffer.from("1a45dfa39f4286810142f7810142f2810442f381084282847765626d", "hex");

/** A video of another make, with its length: it is saved as it comes, with a warning where it is `odd`. */
export const unusualVideos: Record<string, { make(video: Buffer): Buffer; isOdd: boolean }> = {
  "free first": { make: (video) => Buffer.concat([box("free", Buffer.alloc(9)), video]), isOdd: false },
  "styp first": { make: (video) => Buffer.concat([box("styp", Buffer.alloc(8)), video.subarray(16)]), isOdd: false },
  "a last box of size 0": { make: withOpenEnd, isOdd: false },
  "bytes behind the last box": { make: (video) => Buffer.concat([video, Buffer.from("<!-- cached -->")]), isOdd: true },
  "a WebM": { make: (video) => Buffer.concat([anotherWebm, video]), isOdd: true },
};

function withOpenEnd(video: Buffer): Buffer {
  const open = Buffer.from(video);
  open.writeUInt32BE(0, open.indexOf("mdat") - 4);
  return open;
}

export const unusualMedia: Record<string, MediaFault> = Object.fromEntries(
  Object.entries(unusualVideos).map(([kind, { make }]) => [
    kind,
    (scene: MediaScene) => {
      const fault = scene.state.requests === 1 ? cut : fineMedia;
      return fault({ ...scene, video: make(scene.video) });
    },
  ]),
);
