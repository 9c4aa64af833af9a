import { box } from "../mp4.ts";
import type { Generated } from "./answers.ts";
import type { Reach } from "./probes.ts";
import { videoOf } from "./video.ts";

export type MediaAnswer = {
  status: number;
  headers: Record<string, string>;
  chunks: Buffer[];
  ending: "end" | "cut" | "stall";
};

type Asked = { range: number | undefined; ifRange: string | undefined; version: number; reader: string };

type MediaBehaviour = (generated: Generated, asked: Asked) => MediaAnswer;

function inTwo(bytes: Buffer): Buffer[] {
  const half = Math.ceil(bytes.length / 2);
  return [bytes.subarray(0, half), bytes.subarray(half)];
}

/** As RFC 9110 has it: a range without If-Range, or when that names the video as it is now; else the whole. */
const fine: MediaBehaviour = ({ id, version }, { range, ifRange }) => {
  const video = videoOf(id, version);
  const etag = etagOf(id, version);
  if (range === undefined || (ifRange !== undefined && ifRange !== etag)) {
    const headers = { etag, "content-length": String(video.length) };
    return { status: 200, headers, chunks: inTwo(video), ending: "end" };
  }
  if (range >= video.length) return plain(416, "", { "content-range": `bytes */${video.length}` });
  const headers = { etag, "content-range": `bytes ${range}-${video.length - 1}/${video.length}` };
  return { status: 206, headers, chunks: inTwo(video.subarray(range)), ending: "end" };
};

function plain(status: number, text: string, headers: Record<string, string> = {}): MediaAnswer {
  return { status, headers, chunks: text === "" ? [] : [Buffer.from(text)], ending: "end" };
}

function etagOf(id: string, version: number): string {
  return `"${id.slice(0, 8)}-${version}"`;
}

/** The first of the chunks, and no more. */
function half(answer: MediaAnswer, ending: MediaAnswer["ending"]): MediaAnswer {
  return { ...answer, chunks: answer.chunks.slice(0, 1), ending };
}

function without(answer: MediaAnswer, header: string): MediaAnswer {
  const { [header]: _, ...headers } = answer.headers;
  return { ...answer, headers };
}

/** What the media address does to one request: "the download ...". */
export const mediaBehaviours: Record<string, MediaBehaviour> = {
  "is cut half-way": (g, asked) => half(fine(g, asked), "cut"),
  "stalls half-way": (g, asked) => half(fine(g, asked), "stall"),
  "is cut, without a length or an ETag": (g, asked) =>
    half(without(without(fine(g, asked), "content-length"), "etag"), "end"),
  "has no ETag": (g, asked) => without(fine(g, { ...asked, range: undefined }), "etag"),
  "has the key in its ETag, and is cut": (g, asked) => {
    const answer = half(fine(g, asked), "cut");
    return { ...answer, headers: { ...answer.headers, etag: `"${g.key}"` } };
  },
  "is another version from now on": (g, asked) => {
    g.version++;
    return fine(g, asked);
  },
  // Only If-Range tells such a part from one of the same video: see RFC 9110, section 15.3.7.
  "is another version from now on, whose parts have no ETag": (g, asked) => {
    g.version++;
    const answer = fine(g, asked);
    return answer.status === 206 ? without(answer, "etag") : answer;
  },
  "brings the rest of another version": (g, asked) => {
    const other = videoOf(g.id, g.version + 1);
    const at = asked.range ?? 0;
    const headers = { "content-range": `bytes ${at}-${other.length - 1}/${other.length}`, etag: '"x"' };
    return asked.range === undefined
      ? fine(g, asked)
      : { status: 206, headers, chunks: [other.subarray(at)], ending: "end" };
  },
  // Its moov is written last.
  "is not finished yet": (g, asked) => {
    const answer = fine(g, { ...asked, range: undefined });
    const begun = Buffer.concat(answer.chunks).subarray(0, 16);
    const open = Buffer.from(box("mdat", videoOf(g.id, g.version).subarray(0, 40)));
    const chunks = inTwo(Buffer.concat([begun, open]));
    return { ...answer, headers: { "content-length": String(begun.length + open.length) }, chunks };
  },
  "is a page of HTML": () => plain(200, "<html>please wait</html>"),
  "is empty": () => plain(200, ""),
  "has expired (403)": () => plain(403, "<html>expired</html>"),
  "is not there (404)": () => plain(404, "<html>no</html>"),
  "is put off (503)": () => plain(503, ""),
};

type Scene = { isHealthy: boolean; reach: Reach };

export function mediaAnswer(generated: Generated | undefined, asked: Asked, { isHealthy, reach }: Scene): MediaAnswer {
  if (generated === undefined || generated.isDeleted) return plain(404, "{}");
  const name = isHealthy ? undefined : generated.media[generated.downloads++];
  const behaviour = name === undefined ? undefined : mediaBehaviours[name];
  const answer = (behaviour ?? fine)(generated, asked);
  if (name === "is not finished yet") reach("a video is not finished yet");
  const earlierReader = generated.reader ?? asked.reader;
  generated.reader = asked.reader;
  if (asked.range === undefined) return answer;
  if (answer.status === 206) reach("a download goes on");
  if (answer.status === 206 && earlierReader !== asked.reader) reach("a download goes on in another process");
  if (name?.startsWith("is another version from now on")) reach("a video changes during its download");
  if (name === "brings the rest of another version") reach("the rest of another version comes");
  return answer;
}
