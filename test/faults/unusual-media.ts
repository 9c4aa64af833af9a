import { cut, fineMedia, type MediaFault, type MediaScene, unbounded } from "./media-faults.ts";
import { box } from "./oracle.ts";

const anotherWebm = Buffer.from("1a45dfa39f4286810142f7810142f2810442f381084282847765626d", "hex");

type Unusual = {
  make(video: Buffer): Buffer;
  isOdd: boolean;
  send?(scene: MediaScene, video: Buffer): Promise<void>;
};

/** A video of another make, with its length unless `send` says otherwise: it is saved as it comes, with a warning where it is `odd`. */
export const unusualVideos: Record<string, Unusual> = {
  "free first": { make: (video) => Buffer.concat([box("free", Buffer.alloc(9)), video]), isOdd: false },
  "styp first": { make: (video) => Buffer.concat([box("styp", Buffer.alloc(8)), video.subarray(16)]), isOdd: false },
  "a last box of size 0": { make: withOpenEnd, isOdd: false },
  "bytes behind the last box": { make: (video) => Buffer.concat([video, Buffer.from("<!-- cached -->")]), isOdd: true },
  // Its boxes tell that the video is whole, whatever follows.
  "bytes behind the end, of an unknown length": {
    make: (video) => Buffer.concat([video, Buffer.from("<!-- cached -->")]),
    isOdd: false,
    send: unbounded,
  },
  "a WebM": { make: (video) => Buffer.concat([anotherWebm, video]), isOdd: true },
};

function withOpenEnd(video: Buffer): Buffer {
  const open = Buffer.from(video);
  open.writeUInt32BE(0, open.indexOf("mdat") - 4);
  return open;
}

export const unusualMedia: Record<string, MediaFault> = Object.fromEntries(
  Object.entries(unusualVideos).map(([kind, { make, send }]) => [
    kind,
    (scene: MediaScene) => {
      if (send) return send(scene, make(scene.video));
      const fault = scene.state.requests === 1 ? cut : fineMedia;
      return fault({ ...scene, video: make(scene.video) });
    },
  ]),
);
