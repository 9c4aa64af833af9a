import type { Socket } from "node:net";
import { gzipSync } from "node:zlib";
import type { Oracle } from "./oracle.ts";
import type { Random } from "./random.ts";
import { chunk, head, pause, reply, resetLater, send, type WireRequest } from "./wire.ts";

/** What the media address remembers of one video between requests. */
export type MediaState = {
  id: string;
  version: number;
  /** Addresses with a lower number have expired. */
  validFrom: number;
  requests: number;
  /** How many of them asked for a range. */
  ranges: number;
  /** When the first of them came; in real milliseconds. */
  since: number;
};

export type MediaScene = {
  socket: Socket;
  request: WireRequest;
  state: MediaState;
  /** The whole video as it is now. */
  video: Buffer;
  oracle: Oracle;
  random: Random;
  /** The number in the address that was asked for. */
  number: number;
  elsewhere: string;
};

export type MediaFault = (scene: MediaScene) => Promise<void> | void;

const type = { "Content-Type": "video/mp4" };

function etagOf({ version }: MediaState): string {
  return `"v${version}"`;
}

/** Where a range begins, if one is asked for. */
function rangeStart({ headers }: WireRequest): number | undefined {
  const [, start] = /^bytes=(\d+)-$/.exec(headers.range ?? "") ?? [];
  return start === undefined ? undefined : Number(start);
}

/** As RFC 9110 has it: a range when If-Range names the video as it is now, else the whole. */
export const fineMedia: MediaFault = ({ socket, request, state, video }) => {
  const start = rangeStart(request);
  const condition = request.headers["if-range"];
  const headers = { ...type, ETag: etagOf(state), "Accept-Ranges": "bytes" };
  if (start === undefined || (condition !== undefined && condition !== etagOf(state)))
    return reply(socket, 200, video, headers);
  if (start >= video.length) return reply(socket, 416, "", { "Content-Range": `bytes */${video.length}` });
  const range = { "Content-Range": `bytes ${start}-${video.length - 1}/${video.length}` };
  return reply(socket, 206, video.subarray(start), { ...headers, ...range });
};

/** The head and the first bytes of the whole video, with what headers there are to be. */
async function sendPart({ socket, video, random }: MediaScene, headers: Record<string, string | number>) {
  await send(socket, head(200, { ...type, "Content-Length": video.length, ...headers }));
  await send(socket, video.subarray(0, random.between(1, video.length - 1)));
}

async function sendCut(scene: MediaScene, headers: Record<string, string | number>): Promise<void> {
  await sendPart(scene, headers);
  // What has come is written down before the end of the connection is seen: there is something to go on with.
  await pause(100);
  scene.socket.end();
}

export const cut: MediaFault = (scene) => sendCut(scene, { ETag: etagOf(scene.state) });

/** Cuts the first time; then, asked for the rest, does as told. */
function onceCut(first: (scene: MediaScene) => Record<string, string | number>, then: MediaFault): MediaFault {
  return (scene) => {
    if (rangeStart(scene.request) !== undefined) return then(scene);
    if (scene.state.requests === 1) return sendCut(scene, first(scene));
    return fineMedia(scene);
  };
}

const withEtag = ({ state }: MediaScene) => ({ ETag: etagOf(state) });

/** The rest of another version, as if nothing had changed. */
function restOfAnother(headers: (etag: string) => Record<string, string>): MediaFault {
  return ({ socket, request, state, oracle }) => {
    const start = rangeStart(request) ?? 0;
    const other = oracle.video(state.id, 1);
    const range = { "Content-Range": `bytes ${start}-${other.length - 1}/${other.length}` };
    return reply(socket, 206, other.subarray(start), { ...type, ...range, ...headers('"v1"') });
  };
}

/** A range that does not say, or is not, what was asked for. */
function wrongRange(shift: number, longer: number): MediaFault {
  return ({ socket, request, state, video }) => {
    const start = Math.max(0, (rangeStart(request) ?? 0) + shift);
    const range = { "Content-Range": `bytes ${start}-${video.length - 1}/${video.length + longer}` };
    return reply(socket, 206, video.subarray(start), { ...type, ...range, ETag: etagOf(state) });
  };
}

export async function unbounded({ socket }: MediaScene, ...parts: Uint8Array[]): Promise<void> {
  await send(socket, head(200, { ...type, Connection: "close" }));
  for (const part of parts) await send(socket, part);
  socket.end();
}

function answers(status: number, body: string, headers: Record<string, string> = {}): MediaFault {
  return ({ socket }) => reply(socket, status, body, headers);
}

/** In a quarter of a second, so that a moment can be met in it; ranges are honoured when If-Range names the video as it is now. */
export const slowMedia: MediaFault = async ({ socket, request, state, video }) => {
  const start = request.headers["if-range"] === etagOf(state) ? (rangeStart(request) ?? 0) : 0;
  const rest = video.subarray(start);
  const range = { "Content-Range": `bytes ${start}-${video.length - 1}/${video.length}` };
  const headers = { ...type, ETag: etagOf(state), "Content-Length": rest.length };
  await send(socket, start === 0 ? head(200, headers) : head(206, { ...headers, ...range }));
  const step = Math.ceil(rest.length / 20);
  for (let at = 0; at < rest.length; at += step) {
    await send(socket, rest.subarray(at, at + step));
    await pause(10);
  }
};

/** A part of the video, and then nothing more. */
export const stalledMedia: MediaFault = (scene) => sendPart(scene, { ETag: etagOf(scene.state) });

/** Said once; from then on the video is served as it should be. */
function once(fault: MediaFault): MediaFault {
  return (scene) => (scene.state.requests === 1 ? fault(scene) : fineMedia(scene));
}

/** No address handed out so far is good any more. */
function expired(status: number): MediaFault {
  return (scene) => {
    if (scene.state.requests === 1) scene.state.validFrom = scene.number + 1;
    if (scene.number < scene.state.validFrom) return reply(scene.socket, status, "<html>expired</html>");
    return fineMedia(scene);
  };
}

/** Not there yet; the client's clock goes a hundred times faster than this one. */
function lagging(status: number, ms: number): MediaFault {
  return (scene) =>
    Date.now() - scene.state.since < ms / 100 ? reply(scene.socket, status, "<html>no</html>") : fineMedia(scene);
}

/** Each of the first two addresses brings a half of what is missing, and expires. */
const expiringTwice: MediaFault = async (scene) => {
  const { socket, request, state, video, number } = scene;
  if (number < state.validFrom) return reply(socket, 403, "<html>expired</html>");
  if (state.validFrom >= 2) return fineMedia(scene);
  state.validFrom = number + 1;
  const start = rangeStart(request) ?? 0;
  const range = { "Content-Range": `bytes ${start}-${video.length - 1}/${video.length}` };
  const headers = { ...type, ETag: etagOf(state), "Content-Length": video.length - start };
  await send(socket, start === 0 ? head(200, headers) : head(206, { ...headers, ...range }));
  await send(socket, video.subarray(start, Math.ceil((start + video.length) / 2)));
  await pause(100);
  socket.end();
};

/** The second version has no validator, and then the first one is back: the bytes of both must not be mixed. */
const thereAndBack: MediaFault = (scene) => {
  const { state, oracle } = scene;
  if (state.requests === 1) return sendCut(scene, withEtag(scene));
  if (state.requests === 2) return sendCut({ ...scene, video: oracle.video(state.id, 1) }, {});
  return fineMedia(scene);
};

const old = { "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", Date: "Thu, 01 Jan 2026 00:01:00 GMT" };

/** Sends the rest to the one who names the date, else another version. */
const restByDate: MediaFault = ({ socket, request, state, video, oracle }) => {
  const start = rangeStart(request) ?? 0;
  if (request.headers["if-range"] !== old["Last-Modified"]) return reply(socket, 200, oracle.video(state.id, 1), type);
  const range = { "Content-Range": `bytes ${start}-${video.length - 1}/${video.length}` };
  return reply(socket, 206, video.subarray(start), { ...type, ...old, ...range });
};

/** How the media address behaves for all of one download; the video can be had in spite of it. */
export const passingMedia: Record<string, MediaFault> = {
  "cut, then resumed": once(cut),
  "cut five times": (scene) => (scene.state.requests <= 5 ? cut(scene) : fineMedia(scene)),
  "reset half-way": once(async (scene) => {
    await sendPart(scene, withEtag(scene));
    await resetLater(scene.socket);
  }),
  "chunks cut": once(async ({ socket, video, random, state }) => {
    await send(socket, head(200, { ...type, ETag: etagOf(state), "Transfer-Encoding": "chunked" }));
    await send(socket, chunk(video.subarray(0, random.between(1, video.length - 1))));
    socket.end();
  }),
  "no length, cut": once((scene) =>
    unbounded(scene, scene.video.subarray(0, scene.random.between(1, scene.video.length - 1))),
  ),
  "no length, cut between two boxes": once((scene) => unbounded(scene, scene.video.subarray(0, 16 + 408))),
  "no length, whole": (scene) => unbounded(scene, scene.video),
  "a stall": once((scene) => sendPart(scene, withEtag(scene))),
  "slow, in drops": async ({ socket, video }) => {
    await send(socket, head(200, { ...type, "Content-Length": video.length }));
    for (let at = 0; at < video.length; at += 997) {
      await send(socket, video.subarray(at, at + 997));
      await pause(1);
    }
  },
  "HTML with 200": once(answers(200, "<html>please wait</html>", { "Content-Type": "text/html" })),
  "JSON as a video": once(answers(200, '{"error":"not ready"}', { ...type })),
  "nothing with 200": once(answers(200, "", { ...type })),
  "a length too long": once(({ socket, video }) => {
    socket.end(Buffer.concat([Buffer.from(head(200, { ...type, "Content-Length": video.length + 100 })), video]));
  }),
  "a length too short": once(async ({ socket, video }) => {
    await send(socket, head(200, { ...type, "Content-Length": video.length - 100 }));
    await send(socket, video);
    socket.end();
  }),
  "two lengths": once(async ({ socket, video }) => {
    await send(socket, `HTTP/1.1 200 OK\r\nContent-Length: ${video.length}\r\nContent-Length: 9\r\n\r\n`);
    await send(socket, video);
    socket.end();
  }),
  "another ETag after a cut": onceCut(withEtag, (scene) => {
    scene.state.version = 1;
    return fineMedia({ ...scene, video: scene.oracle.video(scene.state.id, 1) });
  }),
  "If-Range ignored: the rest of another version": onceCut(
    withEtag,
    restOfAnother((etag) => ({ ETag: etag })),
  ),
  // Its 206 names no ETag, as it should (RFC 9110, section 15.3.7): only If-Range keeps it from sending the rest.
  "another version, If-Range alone tells": onceCut(withEtag, (scene) =>
    scene.request.headers["if-range"] === undefined
      ? restOfAnother(() => ({}))(scene)
      : reply(scene.socket, 200, scene.oracle.video(scene.state.id, 1), { ...type, ETag: '"v1"' }),
  ),
  "a weak ETag, and another version": onceCut(
    () => ({ ETag: 'W/"v0"' }),
    restOfAnother(() => ({ ETag: 'W/"v0"' })),
  ),
  "no ETag, and another version": onceCut(
    () => ({ "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT" }),
    restOfAnother(() => ({ "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT" })),
  ),
  "no ETag, but a date that is old enough": onceCut(() => old, restByDate),
  "a weak ETag and an old date, and another version": onceCut(
    () => ({ ETag: 'W/"v0"', ...old }),
    restOfAnother(() => ({ ETag: 'W/"v0"', ...old })),
  ),
  "a strong ETag, then none, then the first one again": thereAndBack,
  "the range ignored": onceCut(withEtag, ({ socket, video, state }) =>
    reply(socket, 200, video, { ...type, ETag: etagOf(state) }),
  ),
  "a range that starts too early": onceCut(withEtag, wrongRange(-7, 0)),
  "a range that starts too late": onceCut(withEtag, wrongRange(9, 0)),
  "a range of another whole": onceCut(withEtag, wrongRange(0, 64)),
  "416 to a range": onceCut(withEtag, ({ socket, video }) =>
    reply(socket, 416, "", { "Content-Range": `bytes */${video.length}` }),
  ),
  "expired with 403": expired(403),
  "expired with 404": expired(404),
  "expired with 410": expired(410),
  "404 for 5 s": lagging(404, 5_000),
  "403 for 30 s": lagging(403, 30_000),
  "expired twice, with progress between": expiringTwice,
  "429 with Retry-After": once(answers(429, "", { "Retry-After": "2" })),
  "503 four times": (scene) => (scene.state.requests <= 4 ? answers(503, "")(scene) : fineMedia(scene)),
  "a redirect to another origin": (scene) =>
    reply(scene.socket, 302, "", { Location: `${scene.elsewhere}${scene.request.path}` }),
};

/** The video cannot be had: nothing may be saved. */
export const lastingMedia: Record<string, MediaFault> = {
  "always cut": (scene) => sendCut(scene, {}),
  "always HTML": answers(200, "<html>please log in</html>", { "Content-Type": "text/html" }),
  "redirects in a circle": ({ socket, request }) => reply(socket, 302, "", { Location: request.path }),
  "a redirect to a file": ({ socket }) => reply(socket, 302, "", { Location: "file:///etc/passwd" }),
  "always expired": answers(410, ""),
  "two videos in one": (scene) => unbounded(scene, scene.video, scene.video),
  "compressed, unasked": ({ socket, video }) =>
    reply(socket, 200, gzipSync(video.subarray(0, -50)), { ...type, "Content-Encoding": "gzip" }),
  "206 that nobody asked for": ({ socket, video }) =>
    reply(socket, 206, video.subarray(0, 500), { ...type, "Content-Range": `bytes 0-499/${video.length}` }),
};
